"""What its vendor does to the real vibe, and what a client sees of it. Each hop is one request."""

from __future__ import annotations

import pytest

from .agent import WEATHER, Agent, call_marker
from .house import Answer, House
from .vendors.client import Vendors

FAULTS = {
    "RESET": "SPAWN_FAILED",
    "DROP:0": "SPAWN_FAILED",
    "EMPTY:504": "SPAWN_FAILED",
    "EMPTY:403": "SPAWN_FAILED",
    "EMPTY:400": "SPAWN_FAILED",
    "BLOCKED:403": "SPAWN_FAILED",
    "BLOCKED:503": "OVERLOADED",
    "POLICY": "BAD_REQUEST",
    "DROP:3": "VENDOR_CUT",
    "MIDERR:3": "VENDOR_CUT",
    "GARBAGE:3": "VENDOR_CUT",
    "ENDS": "VENDOR_CUT",
}
ADVANCING = ("RESET", "EMPTY:504", "BLOCKED:403", "SAY: ")


@pytest.fixture
def vibe(waiting_house: House, vendors: Vendors) -> House:
    waiting_house.command("/olp/quota/clear")
    waiting_house.wait_until_ready(["vibe"])
    return waiting_house


def code_of(answer: Answer) -> str:
    return str(answer.detail[0]["code"])


@pytest.mark.parametrize("fault", FAULTS)
def test_A7_each_fault_of_the_vendor(vibe: House, vendors: Vendors, fault: str) -> None:
    answer = vibe.chat(f"hi [[{fault}]]", "vibe/mockm")
    assert answer.status >= 400 and code_of(answer) == FAULTS[fault]
    assert len(vendors.requests("mistral")) == 1


@pytest.mark.parametrize("fault", ["DROP:3", "MIDERR:3", "GARBAGE:3"])
def test_B3_an_answer_that_was_cut_ends_with_an_error(
    vibe: House, vendors: Vendors, fault: str
) -> None:
    answer = vibe.chat(f"hi [[{fault}]]", "vibe/mockm", stream=True)
    assert answer.status == 200 and "[DONE]" not in answer.body.decode()
    assert answer.events[-1]["error"]["code"] == "vendor_cut"
    assert len(vendors.requests("mistral")) == 1


@pytest.mark.parametrize("fault", [*FAULTS, "OVERLOADED", "QUOTA"])
def test_A7_each_fault_after_the_results_of_a_tool(
    vibe: House, vendors: Vendors, fault: str
) -> None:
    agent = Agent(vibe, "vibe", [WEATHER])
    agent.say(f"hi {call_marker('weather', {'city': 'Bern'})}[[THEN:{fault}]]")
    vendors.reset()
    answer = agent.give("sunny")
    wanted = {"OVERLOADED": "OVERLOADED", "QUOTA": "RATE_LIMITED", **FAULTS}[fault]
    assert answer.status >= 400 and code_of(answer) == wanted
    assert len(vendors.requests("mistral")) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_N1_a_blank_answer_is_one_request(vibe: House, vendors: Vendors, stream: bool) -> None:
    answer = vibe.chat("hi [[SAY: ]]", "vibe/mockm", stream=stream)
    assert (answer.status, answer.text.strip(), answer.finish) == (200, "", "stop")
    assert len(vendors.requests("mistral")) == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", ADVANCING)
def test_A3_the_next_hop_answers(vibe: House, vendors: Vendors, fault: str, stream: bool) -> None:
    name, _, arg = fault.partition(":")
    vendors.scenario("mistral", name, arg or None)
    answer = vibe.chat("hi [[OK]]", "pictures", stream=stream)
    assert (answer.status, answer.headers["X-OLP-Provider-Used"]) == (200, "claude")
    assert code_of(answer) == ("EMPTY_ANSWER" if name == "SAY" else FAULTS[fault])
    assert len(vendors.requests("mistral")) == 1


@pytest.mark.cold_vibe
@pytest.mark.parametrize("fault", ["RESET", "EMPTY:504", "BLOCKED:403", "DROP:3", "SAY: "])
def test_A3_the_next_hop_answers_after_a_process_of_its_own(
    oneshot_house: House, vendors: Vendors, fault: str
) -> None:
    """Streaming: all that it had said before its failure is told with that."""
    oneshot_house.command("/olp/quota/clear")
    name, _, arg = fault.partition(":")
    vendors.scenario("mistral", name, arg or None)
    answer = oneshot_house.chat("hi [[OK]]", "pictures", stream=True)
    assert (answer.status, answer.headers["X-OLP-Provider-Used"]) == (200, "claude")
    assert code_of(answer) == ("EMPTY_ANSWER" if name == "SAY" else FAULTS[fault])
    assert len(vendors.requests("mistral")) == 1
