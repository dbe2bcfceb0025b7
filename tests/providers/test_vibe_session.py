"""Vibe as a process that waits: what was recorded of it, and dialogues."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from olp.events import (
    CallArguments,
    CallStarted,
    Done,
    ErrorCode,
    Failed,
    Finish,
    Reads,
    Reasoning,
    Started,
    Text,
    Usage,
)
from olp.model import Effort, Media, Message, Request, Role, Tool
from olp.providers.base import Exit, Halt, Put, Ready, Reply, Settle, Step, Write
from olp.providers.vibe.config import NO_SYSTEM, PROMPT_FILE, Wanted
from olp.providers.vibe.own import fitted
from olp.providers.vibe.run import MORE_REQUESTS, WORKSPACE
from olp.providers.vibe.session import MAX_INPUT_BYTES, VibeSession
from olp.providers.vibe.tools import BARRIER, MAX_RESULT_CHARS
from tests.providers.replay import NOW, TRANSCRIPTS, WORDS

RECORDED = TRANSCRIPTS / "vibe-app-server"
NAMES = sorted(path.stem for path in RECORDED.glob("*.jsonl"))
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
LOOK, BASH, EDIT = (Tool(name, "", SCHEMA) for name in ("look", "bash", "edit"))
USER = Message(Role.USER, "go")


def request(
    *turns: Message, tools: Sequence[Tool] = (), system: str = "", **resume: Any
) -> Request:
    first = (Message(Role.SYSTEM, system),) if system else ()
    return Request("m", (*first, *(turns or (USER,))), tools=tuple(tools), **resume)


def new(**wanted: Any) -> VibeSession:
    return VibeSession(Wanted("m", **wanted), lambda wanted: {"tools": bool(wanted.tools)})


def frames(steps: Sequence[Step]) -> list[dict[str, Any]]:
    return [json.loads(step.data) for step in steps if isinstance(step, Write)]


def replies(steps: Sequence[Step]) -> dict[int, Any]:
    return {s.connection: json.loads(s.data)["result"] for s in steps if isinstance(s, Reply)}


def of(steps: Sequence[Step], *kinds: type) -> list[Any]:
    return [step for step in steps if isinstance(step, kinds)]


# --- what was recorded ---------------------------------------------------------------------------


@dataclass
class Recording:
    """The lines of a run, and what was asked."""

    lines: list[dict[str, Any]]
    asked: Request
    requests: int
    steps: list[Step] = field(default_factory=list)

    @classmethod
    def load(cls, name: str) -> Recording:
        text = (RECORDED / f"{name}.jsonl").read_text("utf-8")
        meta = json.loads((RECORDED / f"{name}.meta.json").read_text("utf-8"))
        tools = [Tool(tool, "", {"type": "object"}) for tool in meta["tools"]]
        asked = request(Message(Role.USER, meta["prompt"]), tools=tools, system=meta["system"])
        return cls([json.loads(line) for line in text.splitlines()], asked, meta["requests"])

    def play(self, lines: Sequence[Mapping[str, Any]] | None = None) -> Recording:
        """The lines to a session, in their order, and what was asked when it was."""
        session, asked = new(), False
        self.steps = list(session.start())
        for line in self.lines if lines is None else lines:
            self.steps += self._one(session, line)
            if not asked and of(self.steps, Ready):
                self.steps += session.ask(self.asked, "m", NOW)
                asked = True
        return self

    def _one(self, session: VibeSession, line: Mapping[str, Any]) -> Sequence[Step]:
        if "stdout" in line:
            return session.receive(line["stdout"])
        if "socket" in line:
            return session.called(line["socket"], line["line"])
        results = [Message(Role.TOOL, text, answers=id) for id, text in line["results"]]
        resume = request(USER, Message(Role.ASSISTANT, ""), *results)
        return session.resume(resume, NOW) if session.parked else []

    @property
    def text(self) -> str:
        return "".join(step.text for step in of(self.steps, Text))

    @property
    def ends(self) -> list[Done | Failed]:
        return of(self.steps, Done, Failed)

    @property
    def calls(self) -> list[tuple[str, Any]]:
        arguments = {step.index: step.text for step in of(self.steps, CallArguments)}
        return [
            (step.name, json.loads(arguments[step.index])) for step in of(self.steps, CallStarted)
        ]


ANSWERS = {
    "ok": WORDS,
    "think": WORDS,
    "len": WORDS,
    "unicode": "Grüße 👋 日本",
    "blank": " ",
}
FAILURES = {
    "auth": ErrorCode.AUTH_MISSING,
    "nologin": ErrorCode.AUTH_MISSING,
    "quota": ErrorCode.RATE_LIMITED,
    "credit": ErrorCode.QUOTA_EXHAUSTED,
    "overloaded": ErrorCode.OVERLOADED,
    "error500": ErrorCode.OVERLOADED,
    "badreq": ErrorCode.BAD_REQUEST,
    "policy": ErrorCode.BAD_REQUEST,
    "model": ErrorCode.MODEL_NOT_FOUND,
    "context": ErrorCode.CONTEXT_TOO_LONG,
    "blocked": ErrorCode.SPAWN_FAILED,
    "empty504": ErrorCode.SPAWN_FAILED,
    "reset": ErrorCode.SPAWN_FAILED,
    "drop_first": ErrorCode.SPAWN_FAILED,
    "drop": ErrorCode.VENDOR_CUT,
    "miderr": ErrorCode.VENDOR_CUT,
    "garbage": ErrorCode.VENDOR_CUT,
    "ends": ErrorCode.VENDOR_CUT,
}


def test_every_recording_is_looked_at() -> None:
    tools = {"calls", "saycall", "handed_over", "not_there", "code", "no_such", "overloaded_later"}
    evil = {name for name in NAMES if name.startswith("evil_")}
    assert set(NAMES) == set(ANSWERS) | set(FAILURES) | tools | evil


@pytest.mark.parametrize("name", NAMES)
def test_C6_every_answer_ends_exactly_once(name: str) -> None:
    played = Recording.load(name).play()
    turns = 1 + sum("results" in line for line in played.lines)
    assert len(played.ends) == turns, played.ends


@pytest.mark.parametrize("name", ANSWERS)
def test_N1_each_answer_comes_whole_and_once(name: str) -> None:
    played = Recording.load(name).play()
    assert played.text == ANSWERS[name]
    assert played.ends == [Done(Finish.LENGTH if name == "len" else Finish.STOP)]
    assert of(played.steps, Usage) == [Usage(input=25, output=15)]
    assert played.requests == 1


def test_C1_text_and_thinking_come_in_pieces() -> None:
    steps = Recording.load("think").play().steps
    thought = of(steps, Reasoning)
    assert len(thought) > 1 and "".join(s.text for s in thought) == "let me think about this"
    assert len(of(Recording.load("ok").play().steps, Text)) > 1


@pytest.mark.parametrize("name", FAILURES)
def test_A7_each_failure_is_told_apart(name: str) -> None:
    played = Recording.load(name).play()
    (failed,) = played.ends
    assert isinstance(failed, Failed) and failed.code is FAILURES[name]
    assert failed.detail and not of(played.steps, Halt)
    assert played.requests <= 1


@pytest.mark.parametrize("name", sorted(set(FAILURES) - {"drop", "miderr", "garbage", "ends"}))
def test_C3_what_fails_before_a_word_has_not_begun(name: str) -> None:
    assert Started() not in Recording.load(name).play().steps


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("evil_")])
def test_M2_without_tools_of_the_clients_a_tool_ends_the_answer(name: str) -> None:
    played = Recording.load(name).play()
    (failed,) = played.ends
    assert isinstance(failed, Failed) and failed.by_model
    assert played.requests == 1 and played.text == ""


def test_N1_all_calls_of_a_turn_are_told_in_it() -> None:
    played = Recording.load("calls").play()
    cities = ("Bern", "Rom", "Oslo")
    assert played.calls == [("weather", {"city": city}) for city in cities]
    assert played.ends == [Done(Finish.TOOL_CALLS), Done()]
    assert of(played.steps, Usage) == [Usage(input=25, output=15)] * 2, "each turn its own"
    assert played.text == "\n".join(["result of weather"] * 3)


def test_N1_text_before_a_call_comes_first() -> None:
    steps = Recording.load("saycall").play().steps
    told = of(steps, Text, CallStarted)
    assert isinstance(told[0], Text) and isinstance(told[-1], Text)
    assert "".join(step.text for step in of(steps, Text)) == "let me seeresult of weather"


def test_N1_a_call_of_its_own_tool_goes_to_the_clients_of_that_name() -> None:
    played = Recording.load("handed_over").play()
    assert sorted(name for name, _ in played.calls) == ["bash", "edit", "weather"]
    assert ("bash", {"command": "ls"}) in played.calls
    edit = {"file_path": "a", "old_string": "b", "new_string": "c"}
    assert ("edit", edit) in played.calls
    assert played.ends[0] == Done(Finish.TOOL_CALLS)
    assert "client_bash was called, which gave:\\nresult of bash" in played.text
    assert "client_edit was called, which gave:\\nresult of edit" in played.text


@pytest.mark.parametrize("name", ["not_there", "code", "no_such"])
def test_M2_a_tool_that_is_not_there_is_told_to_be_none_in_the_same_answer(name: str) -> None:
    played = Recording.load(name).play()
    assert played.ends == [Done()] and played.calls == [] and played.requests == 2
    if name != "no_such":  # which its harness answers by itself
        assert "is switched off. There are: weather, client_bash." in played.text


def test_A7_a_failure_after_the_results() -> None:
    done, failed = Recording.load("overloaded_later").play().ends
    assert done == Done(Finish.TOOL_CALLS)
    assert isinstance(failed, Failed) and failed.code is ErrorCode.OVERLOADED


# --- what a broken CLI says ----------------------------------------------------------------------

ODD: tuple[Any, ...] = (None, 5, -1, 0.5, 1e400, True, "", "x", [], [1], {}, {"a": 1}, 10**400)


def changed(value: Any, chance: random.Random) -> Any:
    """`value` with one thing in it that is of another kind, or gone."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        name = chance.choice(list(value))
        if chance.random() < 0.1:
            return {key: inner for key, inner in value.items() if key != name}
        return value | {name: changed(value[name], chance)}
    if isinstance(value, list) and value and chance.random() < 0.8:
        at = chance.randrange(len(value))
        return [*value[:at], changed(value[at], chance), *value[at + 1 :]]
    return chance.choice(ODD)


def broken(lines: Sequence[Mapping[str, Any]], chance: random.Random) -> Iterator[dict[str, Any]]:
    at = chance.randrange(len(lines))
    for number, line in enumerate(lines):
        kind = "stdout" if "stdout" in line else "line"
        if number != at or kind not in line:
            yield dict(line)
        else:
            yield {**line, kind: json.dumps(changed(json.loads(line[kind]), chance))}


def check(step: Step) -> None:
    match step:
        case Usage():
            for count in (step.input, step.output, step.cached, step.beyond):
                assert type(count) is int and 0 <= count <= 10**12
            assert step.cost is None or 0 <= step.cost < 10**12
        case Text(text) | Reasoning(text) | CallArguments(_, text):
            assert type(text) is str
        case CallStarted(index, id, name):
            assert (type(index), type(id), type(name)) == (int, str, str)
        case Failed():
            assert type(step.detail) is str
            assert step.status is None or type(step.status) is int


@pytest.mark.parametrize("name", NAMES)
def test_S10_a_field_of_another_kind_is_no_crash(name: str) -> None:
    chance = random.Random(name)
    recording = Recording.load(name)
    for _ in range(150):
        for step in recording.play(list(broken(recording.lines, chance))).steps:
            check(step)


# --- dialogues -----------------------------------------------------------------------------------


class Talk:
    """A session, and the channel that is at hand."""

    def __init__(self, session: VibeSession | None = None) -> None:
        self.session = session or new()
        self.channel = 1

    def tell(self, **message: Any) -> list[Step]:
        frame = {"channelId": str(self.channel), "message": message}
        return list(self.session.receive(json.dumps(frame)))

    def notify(self, method: str, **params: Any) -> list[Step]:
        return self.tell(method=method, params={"sessionId": f"S{self.channel}", **params})

    def begun(self) -> list[Step]:
        state = {"session": {"id": f"S{self.channel}"}}
        return self.tell(id=2, result={"state": state})

    def stats(self, calls: int, read: int, written: int, **resume: Any) -> list[Step]:
        stats = {"modelCalls": calls, "sessionPromptTokens": read, **resume}
        return self.notify(
            "session/statsUpdated", stats=stats | {"sessionCompletionTokens": written}
        )

    def done(self, **turn: Any) -> list[Step]:
        return self.notify("turn/completed", turn={"status": "completed", **turn})

    def effect(self, id: str, title: str, status: str = "running") -> list[Step]:
        entry = {"id": id, "type": "effect", "title": title, "state": {"status": status}}
        return self.notify("history/entryAdded", entry=entry)

    def asks(self, connection: int, method: str, **params: Any) -> list[Step]:
        question = {"jsonrpc": "2.0", "id": connection * 10, "method": method, "params": params}
        return list(self.session.called(connection, json.dumps(question)))

    def calls(self, connection: int, id: str, name: str) -> list[Step]:
        resume = {"toolCallId": id, "name": f"client.{name}", "input": {"a": 1}}
        return self.asks(connection, "tools/call", callbackId=f"client_tool:{id}", **resume)

    def wants(self, id: str, tool: str, shown: Mapping[str, Any], call: str = "") -> list[Step]:
        detail = {"effect": {"toolName": tool, "input": shown}}
        asked = {"callbackId": f"approval-{call or id}", "relatedEntryId": f"effect-{id}"}
        return self.tell(
            id=77, method="callback/call", params={"callback": {**asked, "detail": detail}}
        )


def with_tools(*tools: Tool, **resume: Any) -> Talk:
    """A conversation with tools, begun on a process that waited without."""
    talk = Talk()
    talk.session.start()
    assert talk.begun() == [Ready()]
    talk.session.ask(request(tools=tools, **resume), "m", NOW)
    talk.channel = 2
    (turn,) = frames(talk.begun())
    assert turn["message"]["method"] == "turn/start"
    return talk


def answer(results: Mapping[str, str]) -> Request:
    turns = [Message(Role.TOOL, text, answers=id) for id, text in results.items()]
    return request(USER, Message(Role.ASSISTANT, ""), *turns, tools=(LOOK,))


def test_a_session_is_begun_before_anybody_asks() -> None:
    talk = Talk()
    put, *_ = steps = talk.session.start()
    assert put == Put(PROMPT_FILE, NO_SYSTEM.encode())
    hello, initialized, begin = frames(steps)
    assert hello["open"]["agentSocket"] == "~/../s"
    assert hello["open"]["config"] == {"tools": False}
    assert initialized["message"]["method"] == "initialized" and "open" not in initialized
    agent = begin["message"]["params"]["agentConfig"]
    assert (agent["cwd"], agent["maxTurns"]) == (WORKSPACE, 1)
    assert not talk.session.prepare(), "it is under way"
    assert talk.begun() == [Ready()]
    assert not talk.session.prepare(), "it is ready"


def test_a_plain_request_takes_the_session_that_waits() -> None:
    talk = Talk()
    talk.session.start()
    talk.begun()
    (turn,) = frames(talk.session.ask(request(system="Be brief."), "m", NOW))
    assert (turn["channelId"], turn["message"]["method"]) == ("1", "turn/start")
    (part,) = turn["message"]["params"]["message"]
    assert "Be brief." in part["text"], "in front of the conversation"


@pytest.mark.parametrize(
    "resume",
    [{"tools": (LOOK,)}, {"max_tokens": 9}, {"effort": Effort.HIGH}, {"tools": (LOOK, BASH)}],
)
def test_any_other_request_begins_its_own(resume: dict[str, Any]) -> None:
    talk = Talk()
    talk.session.start()
    talk.begun()
    steps = talk.session.ask(request(system="Be brief.", **resume), "m", NOW)
    closed, *_ = frames(steps)
    assert closed == {"channelId": "1", "message": None}
    (put,) = of(steps, Put)
    assert put.data.startswith(b"Be brief.")
    assert frames(steps)[1]["open"]["config"] == {"tools": "tools" in resume}
    told = replies(talk.asks(1, "agent/initialize"))[1]
    assert [tool["name"] for tool in told["tools"]][:1] == ["look"] * ("tools" in resume)
    assert told["workspace"] == WORKSPACE
    talk.channel = 2
    (turn,) = frames(talk.begun())
    assert turn["message"]["params"]["message"] == [{"type": "text", "text": "go"}]


def test_a_process_for_one_request_begins_with_it() -> None:
    asked = request(tools=(LOOK,), system="Be brief.")
    session = VibeSession(Wanted.by(asked, "m"), lambda wanted: {})
    talk = Talk(session)
    assert of(session.start(), Put)[0].data.startswith(b"Be brief.")
    assert [t["name"] for t in replies(talk.asks(1, "agent/initialize"))[1]["tools"]] == ["look"]
    assert talk.begun() == [Ready()]
    (turn,) = frames(session.ask(asked, "m", NOW))
    assert turn["message"]["method"] == "turn/start"


def test_a_conversation_goes_on_in_its_session_and_makes_way_for_the_next() -> None:
    talk = Talk()
    talk.session.start()
    talk.begun()
    talk.session.ask(request(), "m", NOW)
    assert talk.stats(1, 9, 4, lastTurnPromptTokens=9) == []
    assert talk.done() == [Usage(input=9, output=4), Done()]
    assert frames(talk.session.prepare())[0]["channelId"] == "2"
    follow = request(USER, Message(Role.ASSISTANT, "a"), Message(Role.USER, "more"))
    assert talk.session.can_resume(follow)
    (turn,) = frames(talk.session.resume(follow, NOW))
    assert (turn["channelId"], turn["message"]["params"]["message"][0]["text"]) == ("1", "more")
    talk.stats(2, 29, 10, lastTurnPromptTokens=20)
    assert talk.done()[0] == Usage(input=20, output=6), "the answer at hand alone"
    talk.channel = 2
    assert talk.begun() == [Ready()]
    closed, turn = frames(talk.session.ask(request(), "m", NOW))
    assert closed == {"channelId": "1", "message": None}
    assert turn["channelId"] == "2"


def test_N1_what_the_vendor_does_not_count_is_not_told_as_nothing() -> None:
    talk = Talk()
    talk.session.start()
    talk.begun()
    talk.session.ask(request(), "m", NOW)
    talk.stats(1, 0, 0)
    assert talk.done() == [Done()]


def test_A7_it_tells_of_how_many_tokens_its_model_can_read() -> None:
    talk = Talk()
    talk.session.start()
    talk.begun()
    talk.session.ask(request(), "m", NOW)
    model = {"alias": "m", "maxContextLength": 262_144}
    assert talk.notify("runtime/updated", runtime={"config": {"activeModel": model}}) == []
    assert talk.done() == [Reads(262_144), Done()]


def test_N1_prices_make_a_cost() -> None:
    talk = Talk()
    talk.session.start()
    talk.begun()
    talk.session.ask(request(), "m", NOW)
    prices = {"inputPricePerMillion": 2.0, "outputPricePerMillion": 8.0}
    cached = {"cachedInputPricePerMillion": 0.5, "sessionCachedTokens": 400_000}
    resume = {"lastTurnPromptTokens": 1_000_000, "lastTurnCachedTokens": 400_000}
    talk.stats(1, 1_000_000, 500_000, **prices, **cached, **resume)
    (usage, _) = talk.done()
    assert usage == Usage(1_000_000, 500_000, cached=400_000, cost=1.2 + 0.2 + 4.0)


@pytest.mark.parametrize("text", ["/compact", " /clear now", "@/etc/passwd", "!ls"])
def test_M1_a_command_never_stands_at_the_beginning(text: str) -> None:
    talk = Talk()
    talk.session.start()
    talk.begun()
    (turn,) = frames(talk.session.ask(request(Message(Role.USER, text)), "m", NOW))
    sent = turn["message"]["params"]["message"][0]["text"]
    assert text in sent and not sent.lstrip().startswith(("/", "@", "!"))


def test_M1_no_file_lies_where_the_model_is_told_to_work() -> None:
    assert WORKSPACE.startswith("/dev/null/"), "which is no folder"


def test_N1_images_go_with_the_text() -> None:
    talk = Talk()
    talk.session.start()
    talk.begun()
    seen = Message(Role.USER, ("what?", Media("image/png", "QUJD")))
    (turn,) = frames(talk.session.ask(request(seen), "m", NOW))
    text, image = turn["message"]["params"]["message"]
    assert text["text"] == "what?\n[Image 1]"
    assert image["attachment"]["source"] == {"kind": "inline", "data": "QUJD"}


def test_M6_a_process_that_was_told_much_is_not_used_again() -> None:
    talk = Talk()
    talk.session.start()
    talk.begun()
    half = Message(Role.USER, "x" * (MAX_INPUT_BYTES // 2))
    talk.session.ask(request(half), "m", NOW)
    assert talk.session.reusable
    talk.done()
    talk.session.prepare()
    talk.channel = 2
    talk.begun()
    talk.session.ask(request(half), "m", NOW)
    assert not talk.session.reusable


def test_an_answer_that_is_not_wanted_is_interrupted() -> None:
    talk = Talk()
    talk.session.start()
    talk.begun()
    talk.session.ask(request(), "m", NOW)
    assert not talk.session.interrupt(), "it has not begun"
    talk.notify("turn/started", turn={"id": "T"})
    (stop,) = frames(talk.session.interrupt())
    assert stop["message"]["method"] == "turn/interrupt"
    assert stop["message"]["params"]["expectedTurnId"] == "T"
    assert not talk.session.interrupt(), "once"


@pytest.mark.parametrize("about", ["new", "sandbox/unheard"])
def test_M2_a_question_that_nobody_knows_ends_the_process(about: str) -> None:
    (failed,) = with_tools(LOOK).asks(1, about)
    assert isinstance(failed, Failed) and not failed.by_model
    failed, halt = with_tools(LOOK).tell(id=5, method=about, params={})
    assert isinstance(failed, Failed) and halt == Halt()


@pytest.mark.parametrize(
    ("kind", "ends"), [("notice", False), ("checkpoint", False), ("server_tool", True), (5, True)]
)
def test_M2_an_entry_that_nobody_knows_ends_it(kind: Any, ends: bool) -> None:
    talk = Talk()
    talk.session.start()
    talk.begun()
    talk.session.ask(request(), "m", NOW)
    steps = talk.notify("history/entryAdded", entry={"id": "x", "type": kind})
    assert [type(step) for step in steps] == [Failed, Halt] * ends


def test_A9_a_part_that_it_would_ask_for_again_ends_it() -> None:
    talk = Talk()
    talk.session.start()
    talk.begun()
    talk.session.ask(request(), "m", NOW)
    entry = {"id": "a", "type": "message", "role": "assistant", "content": []}
    talk.notify("history/entryAdded", entry=entry)
    outcome = {"op": "replace", "path": "/outcome", "value": {"cause": "retry"}}
    failed, halt = talk.notify("history/entryUpdated", entryId="a", patch=[outcome])
    assert isinstance(failed, Failed) and halt == Halt()


def test_a_channel_that_closes_is_a_failure_and_one_that_was_closed_is_none() -> None:
    talk = Talk()
    talk.session.start()
    talk.begun()
    talk.session.ask(request(), "m", NOW)
    close = {"channelId": "1", "message": None}
    assert not talk.session.receive(json.dumps(close))
    (failed,) = talk.session.receive(json.dumps(close | {"error": "boom"}))
    assert isinstance(failed, Failed) and "boom" in failed.detail
    assert not talk.session.receive(json.dumps(close | {"channelId": "9", "error": "boom"}))


# --- tools ---------------------------------------------------------------------------------------


def test_N1_names_that_are_its_own_are_told_in_another_way() -> None:
    tools = (LOOK, BASH, Tool("a-b", "", SCHEMA), Tool("1x", "", SCHEMA))
    talk = Talk()
    talk.session.start()
    talk.begun()
    (put,) = of(talk.session.ask(request(tools=tools), "m", NOW), Put)
    told = replies(talk.asks(1, "agent/initialize"))[1]["tools"]
    assert [tool["name"] for tool in told] == ["look", "client_bash", "n_a_b", "n_1x"]
    assert put.data.decode() == f"{NO_SYSTEM}\n\nSwitched off: bash. Call instead: client_bash."
    talk.channel = 2
    talk.begun()
    told = talk.calls(2, "t1", "client_bash")
    assert told == [CallStarted(0, "t1", "bash"), CallArguments(0, '{"a": 1}')]


@pytest.mark.parametrize("first", ["question", "entry"])
def test_N1_the_calls_are_over_when_the_question_behind_them_is_answered(first: str) -> None:
    """The question for a call and the entry that shows it come on two ways, in any order."""
    talk = with_tools(LOOK)
    talk.stats(1, 25, 15, lastTurnPromptTokens=25)
    if first == "question":
        talk.calls(3, "t1", "look")
    _, barrier = talk.effect("effect-t1", "client.look")
    (sent,) = frames([barrier])
    assert sent["message"]["method"] == BARRIER.method
    assert talk.effect("effect-t2", "client.look") == [Started()], "asked once"
    gone = {"code": "not_found", "message": "Unknown background process"}
    told = [*talk.tell(id=sent["message"]["id"], error=gone)]
    if first == "entry":
        told += talk.calls(3, "t1", "look")
    assert not of(told, Done), "the second is still to come"
    told += talk.calls(4, "t2", "look")
    assert told[-2:] == [Usage(input=25, output=15), Done(Finish.TOOL_CALLS)]
    assert talk.session.parked
    given = answer({"t2": "two", "t1": "one"})
    assert talk.session.can_resume(given)
    assert replies(talk.session.resume(given, NOW)) == {3: {"output": "one"}, 4: {"output": "two"}}
    assert not talk.session.parked


def test_N1_where_the_question_is_not_known_a_silence_tells() -> None:
    talk = with_tools(LOOK)
    talk.calls(3, "t1", "look")
    talk.effect("effect-t1", "client.look")
    (settle,) = talk.tell(id=4, error={"code": "method_not_found", "message": "?"})
    assert isinstance(settle, Settle)
    assert of(talk.calls(4, "t2", "look"), Settle), "and it begins anew with each"
    assert talk.session.exited(Exit(None)) == [Done(Finish.TOOL_CALLS)]
    (failed,) = talk.session.exited(Exit(1, "boom"))
    assert isinstance(failed, Failed), "a process that is gone"


def test_N1_a_call_without_a_result_is_told_as_cancelled() -> None:
    talk = with_tools(LOOK, parallel_calls=False)
    talk.calls(3, "t1", "look")
    assert not of(talk.calls(4, "t2", "look"), CallStarted), "one at a time"
    told = replies(talk.session.resume(answer({"t1": "one"}), NOW))
    assert told[3] == {"output": "one"} and told[4]["error"]["code"] == "cancelled"


def test_N1_a_result_that_it_would_cut_is_told_anew() -> None:
    talk = with_tools(LOOK)
    talk.calls(3, "t1", "look")
    assert talk.session.can_resume(answer({"t1": "x" * MAX_RESULT_CHARS}))
    assert not talk.session.can_resume(answer({"t1": "x" * (MAX_RESULT_CHARS + 1)}))


def test_N1_its_own_tool_waits_for_the_result_of_the_clients() -> None:
    talk = with_tools(BASH, EDIT, LOOK)
    steps = talk.wants("e1", "file_system.bash", {"command": "ls"}, "t1")
    assert of(steps, CallStarted) == [CallStarted(0, "t1", "bash")]
    assert frames(steps)[0]["message"]["result"] == {"callbackId": "approval-t1", "accepted": True}
    talk.wants("e2", "file_system.search_replace", {"filePath": "f", "changes": [{}]}, "t2")
    (leave,) = frames(talk.session.resume(answer({"t1": "one", "t2": "two"}), NOW))
    assert leave["message"]["params"]["result"]["callbackId"] == "approval-t1", "one by one"
    said = replies(talk.asks(9, "sandbox/execute", command="x"))[9]
    assert "one" in json.loads(said["stdout"])["error"] and said["exitCode"] == 0
    over = {"op": "replace", "path": "/state/status", "value": "failed"}
    steps = talk.notify("history/entryUpdated", entryId="effect-e1", patch=[over])
    assert frames(steps)[0]["message"]["params"]["result"]["callbackId"] == "approval-t2"
    said = replies(talk.asks(10, "sandbox/execute", command="x"))[10]
    assert "two" in json.loads(said["stdout"])["error"]


@pytest.mark.parametrize(
    ("tool", "call"), [("file_system.read_file", "t1"), ("file_system.bash", "typescript:3:t1:0")]
)
def test_M2_any_other_is_told_what_there_is(tool: str, call: str) -> None:
    talk = with_tools(BASH)
    steps = talk.wants("e1", tool, {}, call)
    assert not of(steps, CallStarted)
    assert frames(steps)[1]["message"]["method"] == "callback/result"
    said = replies(talk.asks(9, "sandbox/execute", command="x"))[9]
    assert "There are: client_bash." in said["stdout"]
    assert replies(talk.asks(10, "sandbox/readFile", path="/x"))[10] == {"contentBase64": None}


def test_M2_without_tools_its_wish_for_leave_ends_it() -> None:
    talk = Talk()
    talk.session.start()
    talk.begun()
    talk.session.ask(request(), "m", NOW)
    failed, halt = talk.wants("e1", "file_system.bash", {})
    assert isinstance(failed, Failed) and failed.by_model and halt == Halt()


def test_A9_a_model_that_asks_again_and_again_is_ended() -> None:
    talk = with_tools(LOOK)
    for calls in range(1, MORE_REQUESTS + 2):
        assert talk.stats(calls, 25 * calls, 15, lastTurnPromptTokens=25) == []
    failed, halt = talk.stats(MORE_REQUESTS + 2, 999, 15)
    assert isinstance(failed, Failed) and failed.by_model and halt == Halt()


def test_N1_a_turn_tells_the_length_of_its_conversation_and_the_book_all_it_cost() -> None:
    talk = with_tools(LOOK)
    talk.stats(1, 100, 10, lastTurnPromptTokens=100)
    talk.stats(2, 230, 30, lastTurnPromptTokens=130)
    (usage, done) = talk.done()
    assert usage == Usage(input=130, output=30, beyond=100) and done == Done()


@pytest.mark.parametrize(
    ("shown", "written"),
    [
        ({"command": "ls -l"}, {"command": "ls -l"}),
        ({"filePath": "a", "offset": None, "limit": 2000}, {"path": "a"}),
        ({"filePath": "a", "offset": 4, "limit": 9}, {"path": "a", "offset": 3, "limit": 9}),
        ({"filePath": "a", "content": "x"}, {"path": "a", "content": "x"}),
    ],
)
def test_N1_arguments_are_handed_over_as_the_model_wrote_them(
    shown: dict[str, Any], written: dict[str, Any]
) -> None:
    tools = [Tool(name, "", {"type": "object"}) for name in ("bash", "read_file", "write_file")]
    talk = with_tools(*tools)
    steps = talk.wants("e1", "file_system.read_file", shown, "t1")
    (arguments,) = of(steps, CallArguments)
    assert json.loads(arguments.text) == written


def test_N1_arguments_get_the_names_that_the_client_has_for_them() -> None:
    names = {name: {"type": "string"} for name in ("filePath", "oldString", "newString")}
    tool = Tool("edit", "", {"type": "object", "properties": names})
    given = {"file_path": "a", "old_string": "b", "new_string": "c", "replace_all": True}
    wanted = {"filePath": "a", "oldString": "b", "newString": "c", "replace_all": True}
    assert fitted(given, tool) == wanted
    assert fitted({"path": "a"}, tool) == {"filePath": "a"}
    assert fitted({"path": "a"}, Tool("edit", "", {})) == {"path": "a"}
