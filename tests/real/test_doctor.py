"""The doctor's self-test on the real CLIs: the flags that OLP gives them hold on these versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from olp.config import ProviderConfig
from olp.doctor.clis import check_version
from olp.doctor.finding import Patient
from olp.doctor.isolation import check_isolation
from olp.doctor.lab import open_lab
from olp.host.find_cli import find_command
from olp.providers import all_providers
from olp.providers.base import ProviderContext

from .conftest import Clis
from .install import NAMES


@pytest.mark.parametrize("name", NAMES)
async def test_M2_the_doctor_finds_it_locked(name: str, clis: Clis, scratch_home: Path) -> None:
    provider = all_providers()[name]
    path = f"{clis.need(name).path.parent}{os.pathsep}{os.environ['PATH']}"
    command = find_command(provider.info, ProviderConfig(), {"PATH": path})
    assert command is not None
    home = str(scratch_home)
    context = ProviderContext(command, ProviderConfig(), {"PATH": path}, home, f"{home}/own")
    patient = Patient(provider, context, installed=True, enabled=True, needed=True)
    with open_lab() as lab:
        finding = await check_isolation(patient, lab)
        version = await check_version(patient, lab)
    assert finding.ok is True, finding.what
    assert "canaries untouched" in finding.what
    assert version.ok is not False, version.what
