"""Fixtures for the doctor's tests: a lab, and patients that are fakes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from olp.config import ProviderConfig
from olp.doctor.finding import Patient
from olp.doctor.lab import Lab, open_lab
from olp.providers import all_providers
from olp.providers.base import ProviderContext
from tests.doctor.fakes import install

MakePatient = Callable[..., Patient]


@pytest.fixture
def lab() -> Iterator[Lab]:
    """A place to run fakes in."""
    with open_lab() as opened:
        yield opened


@pytest.fixture
def patient(tmp_path: Path) -> MakePatient:
    """Makes a patient: `patient("claude", mood="runs", version="1.0.0", login=False)`."""

    def make(
        name: str = "claude",
        mood: str = "good",
        version: str | None = None,
        login: bool = True,
        installed: bool = True,
        enabled: bool = True,
        needed: bool = False,
        environ: dict[str, str] | None = None,
        config: ProviderConfig | None = None,
    ) -> Patient:
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        command: tuple[str, ...] = (name,)
        if installed:
            command = (str(install(tmp_path / "bin", name, mood, version, login)),)
        context = ProviderContext(
            command,
            config or ProviderConfig(),
            {"PATH": "/usr/bin:/bin", **(environ or {})},
            str(home),
            str(tmp_path / "own"),
        )
        return Patient(all_providers()[name], context, installed, enabled, needed)

    return make
