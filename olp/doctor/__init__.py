"""The doctor: checks of this machine, each with a suggested fix.

It prints nothing and changes nothing. `examine` runs all checks; they are in `clis` and `machine`,
and `isolation` proves that the model has no tools in a CLI.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from olp.config import ServerConfig
from olp.core.routing.chains import Catalogue
from olp.doctor import certificate, clis, machine, service
from olp.doctor.finding import Finding, Patient, Say
from olp.doctor.lab import open_lab
from olp.doctor.record import check_record

__all__ = ["Finding", "House", "Patient", "examine"]


@dataclass(frozen=True, slots=True)
class House:
    """What to check. `state` is the state folder, None for the default."""

    server: ServerConfig
    catalogue: Catalogue
    patients: Sequence[Patient]
    state: Path | None


async def examine(house: House, say: Say) -> list[Finding]:
    """Run all checks; returns findings in a fixed order. The CLIs are checked concurrently, and
    each step has a timeout, so that this ends within two minutes in any case.
    """
    say("looking at the machine")
    findings = machine.check_folders(house.state)
    findings.append(await check_record(house.state))
    findings.append(await machine.check_port(house.server))
    findings += certificate.check_certificate(house.server)
    with open_lab() as lab:
        findings.append(await machine.check_processes(lab))
        say(f"trying {', '.join(p.name for p in house.patients if p.installed)}")
        each = await asyncio.gather(*(clis.examine(p, lab, say) for p in house.patients))
    findings.append(clis.check_any(house.patients))
    findings += service.check_service(house.patients)
    findings += [finding for found in each for finding in found]
    patients = {patient.name: patient for patient in house.patients}
    return [*findings, *machine.check_chains(house.catalogue, patients)]
