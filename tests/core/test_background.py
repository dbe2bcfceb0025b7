"""Jobs that chat programs send on their own are told from what a person asks."""

from __future__ import annotations

import time

import pytest

from olp.config import BackgroundConfig, BackgroundShape
from olp.core.keys.background import KNOWN, LOOKED_AT, Shapes
from olp.model import Message, Request, Role

OPEN_WEBUI_TITLE = """### Task:
Generate a concise, 3-5 word title with an emoji summarizing the chat history.
### Guidelines:
- The title should clearly represent the main theme or subject of the conversation.
### Chat History:
<chat_history>
USER: how do I bake bread?
</chat_history>"""


def asked(user: str, system: str = "", max_tokens: int | None = None) -> Request:
    messages = [Message(Role.SYSTEM, system)] if system else []
    return Request("auto", (*messages, Message(Role.USER, user)), max_tokens=max_tokens)


def told(request: Request, *shapes: BackgroundShape, known: bool = True) -> str | None:
    return Shapes(BackgroundConfig(known=known, shapes=shapes)).recognise(request)


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        (asked(OPEN_WEBUI_TITLE), "title"),
        (asked(OPEN_WEBUI_TITLE, system="You are a pirate."), "title"),
        (asked(OPEN_WEBUI_TITLE.replace("with an emoji ", "")), "title"),
        (asked("### Task:\nGenerate 1-3 broad tags categorizing the main themes of the"), "tags"),
        (
            asked("### Task:\nSuggest 3-5 relevant follow-up questions or prompts that the user"),
            "follow_up",
        ),
        (
            asked(
                "### Task:\nAnalyze the chat history to determine the necessity of generating "
                "search queries, in the given language."
            ),
            "query",
        ),
        (
            asked("### Task:\nYou are an autocompletion system. Continue the text in"),
            "autocomplete",
        ),
        (
            asked(
                "Provide a concise, 5-word-or-less title for the conversation, using title case "
                "conventions. Only return the title itself.\n\nConversation:\nhi"
            ),
            "title",
        ),
        (
            asked("Generate a concise 3-7 word title for this conversation, omitting punctuation."),
            "title",
        ),
        (
            asked(
                "Given the following... please reply with a title for the chat that is 3-4 words "
                "in length, all words used should be directly related"
            ),
            "title",
        ),
        (
            asked(
                "Generate a title for this conversation:",
                system="You are a title generator. You output ONLY a thread title. Nothing else.",
            ),
            "title",
        ),
        (
            asked(
                "Please write a brief title for the following request:\n\nhi",
                system="You are an expert in crafting pithy titles for chatbot conversations. You",
            ),
            "title",
        ),
    ],
)
def test_the_jobs_of_known_programs(request_: Request, name: str) -> None:
    assert told(request_) == name
    assert told(request_, known=False) is None


@pytest.mark.parametrize(
    "text",
    [
        "hi",
        "",
        "### Task:\nWrite a poem",
        "Generate a title for my novel",
        "What does this prompt do? " + OPEN_WEBUI_TITLE,
        "x" * 500_000,
    ],
)
def test_what_a_person_asks_is_no_job(text: str) -> None:
    assert told(asked(text)) is None
    assert told(asked(text, system="You are a helpful assistant.")) is None


def test_only_the_last_message_counts() -> None:
    messages = (
        Message(Role.USER, OPEN_WEBUI_TITLE),
        Message(Role.ASSISTANT, "Bread"),
        Message(Role.USER, "thanks"),
    )
    assert told(Request("auto", messages)) is None
    assert told(Request("auto", messages[:2])) is None
    assert told(Request("auto", (Message(Role.SYSTEM, "only this"),))) is None


def test_the_known_openings_are_in_the_form_that_is_compared() -> None:
    for opening in KNOWN:
        assert opening.text == " ".join(opening.text.split()).lower()
        assert 20 < len(opening.text) < LOOKED_AT


def test_an_owners_own_shapes_go_first() -> None:
    mine = BackgroundShape(name="name-it", user="^### task: ?\\s*generate")
    assert told(asked(OPEN_WEBUI_TITLE), mine) == "name-it"


def test_every_pattern_that_is_set_must_be_found() -> None:
    both = BackgroundShape(name="both", system="tidy", user="^sum up", max_tokens=50)
    assert told(asked("Sum up this", "Be tidy", 50), both) == "both"
    for request in (
        asked("Sum up this", "Be nice", 50),
        asked("Do sum up", "Be tidy", 50),
        asked("Sum up this", "Be tidy", 51),
        asked("Sum up this", "Be tidy"),
    ):
        assert told(request, both) is None


def test_M5_a_pattern_takes_a_bounded_time_whatever_the_client_sends() -> None:
    slow = BackgroundShape(name="slow", user=r"^(a+)+$")
    began = time.monotonic()
    assert told(asked("a" * 1_000 + "b"), slow) is None
    told(asked("a" * 3_000_000 + "b"), slow)
    assert time.monotonic() - began < 2
