"""What a first hop that is no use costs: a second, whichever CLI it is and however it fails."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .conftest import Clis
from .house import Answer, House, configuration, serving
from .test_answers import MODELS, VENDOR, WORDS
from .vendors.client import Vendors

NEXT = {"claude": "codex", "codex": "claude", "vibe": "claude"}
CHAINS = {f"from-{cli}": [MODELS[cli], MODELS[other]] for cli, other in NEXT.items()}
COSTS_S = 1.0
TRIES = 3
"""The least of so many counts: what is measured is OLP, not what else the machine has to do."""

FAILURES = {
    "a 403 page": ("BLOCKED", "403"),
    "an empty 504": ("EMPTY", "504"),
    "a blank answer": ("SAY", " "),
}


@pytest.fixture(scope="module")
def chains_house(
    clis: Clis, vendor_process: Vendors, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    found = {name: clis.need(name) for name in MODELS}
    config = configuration(found, vendor_process, breaker={"threshold": 1000})
    config["chains"] = CHAINS
    with serving(config, tmp_path_factory.mktemp("chains")) as house:
        yield house


def seconds(house: House, cli: str, model: str) -> tuple[float, Answer]:
    """One request with all CLIs of the chain waiting."""
    house.wait_until_ready([cli, NEXT[cli]])
    began = time.monotonic()
    answer = house.chat("hi", model)
    return time.monotonic() - began, answer


def costs_little(house: House, vendors: Vendors, cli: str, asked: int) -> None:
    """The second CLI serves, within a second of what it takes alone; each vendor is asked once
    (the first one `asked` times)."""
    other = NEXT[cli]
    alone = min(seconds(house, cli, MODELS[other])[0] for _ in range(TRIES))
    took = []
    for _ in range(TRIES):
        began = len(vendors.requests(VENDOR[cli])), len(vendors.requests(VENDOR[other]))
        spent, answer = seconds(house, cli, f"from-{cli}")
        took.append(spent)
        assert answer.status == 200, answer.body
        assert (answer.text, answer.finish) == (WORDS, "stop")
        assert answer.headers["X-OLP-Provider-Used"] == other
        assert answer.headers["X-OLP-Fallback-Hops"] == "1"
        ended = len(vendors.requests(VENDOR[cli])), len(vendors.requests(VENDOR[other]))
        assert [b - a for a, b in zip(began, ended, strict=True)] == [asked, 1]
        if spent - alone <= COSTS_S:
            return
    pytest.fail(f"{min(took):.2f} s after {alone:.2f} s alone")


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("cli", NEXT)
def test_A3_a_first_hop_that_fails_costs_a_second(
    chains_house: House, vendors: Vendors, cli: str, failure: str
) -> None:
    vendors.scenario(VENDOR[cli], *FAILURES[failure])
    costs_little(chains_house, vendors, cli, asked=1)


@pytest.mark.parametrize("cli", NEXT)
def test_A3_a_closed_port_costs_a_second(
    clis: Clis, vendors: Vendors, tmp_path: Path, cli: str
) -> None:
    found = {name: clis.need(name) for name in (cli, NEXT[cli])}
    with closed_port() as nobody:
        config = configuration(found, vendors, breaker={"threshold": 1000})
        config["chains"] = {f"from-{cli}": CHAINS[f"from-{cli}"]}
        config["providers"][cli] = configuration(found, nobody)["providers"][cli]
        with serving(config, tmp_path) as house:
            costs_little(house, vendors, cli, asked=0)


@contextmanager
def closed_port() -> Iterator[Vendors]:
    """The address of a vendor that nobody listens at, and nobody will."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield Vendors(f"http://127.0.0.1:{held.getsockname()[1]}")
