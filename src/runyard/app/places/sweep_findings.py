"""What a sweep found, kept for people in the database; and the switch that lets a sweep remove anything.

The switch is off in a restored database (a new epoch): it does not know what happened after its backup.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from runyard.app.audit import note_act
from runyard.app.core import Core
from runyard.app.model import Principal
from runyard.app.ports import UnitOfWork

MOST_ORPHANS = 200
"""Orphans that are listed; `count` counts the others too."""
_OFF = "off"


class Verdict(StrEnum):
    """What is done with an anchor that no run knows as its own."""

    ADOPT = "adopt"
    """Its run waits for it: the reconcile loop finds it."""
    REMOVE = "remove"
    """Its run has ended or was deleted."""
    REPORT = "report"
    """Nobody knows whether it is still needed: an admin decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """An anchor that is not its run's, and why it is kept or removed."""

    uid: str
    run_uid: str
    run_id: str
    project: str
    verdict: Verdict
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFindings:
    """What the last complete sweep of a place found: `orphans` that stay, or are to be removed."""

    place: str
    at: str
    """In ISO 8601."""
    is_on: bool
    """Whether anything is removed."""
    count: int = 0
    orphans: tuple[Orphan, ...] = ()
    """At most `MOST_ORPHANS`."""

    def count_verdict(self, verdict: Verdict) -> int:
        """How many of the listed ones have that verdict."""
        return sum(orphan.verdict is verdict for orphan in self.orphans)


async def is_sweeper_on(unit: UnitOfWork) -> bool:
    """Whether sweeps may remove anything in this epoch."""
    return await unit.get_meta("sweeper") != _OFF


async def confirm_epoch(core: Core, who: Principal) -> bool:
    """Let sweeps remove objects of ended and deleted runs again; returns whether they were not allowed to.

    Audited. Idempotent.
    """
    async with core.store.begin() as unit:
        if await is_sweeper_on(unit):
            return False
        epoch = await unit.get_meta("epoch")
        await unit.put_meta("sweeper", "on")
        await note_act(core, unit, who, "epoch.confirm", of=("epoch", epoch))
        await unit.commit()
    return True


async def read_findings(core: Core, places: Sequence[str]) -> list[SweepFindings]:
    """The findings of those places that were swept; `is_on` is as it is now."""
    async with core.store.begin(is_read_only=True) as unit:
        is_on = await is_sweeper_on(unit)
        texts = [await unit.get_meta(_name(place)) for place in places]
    return [replace(_parse(text), is_on=is_on) for text in texts if text is not None]


async def write_findings(core: Core, findings: SweepFindings) -> bool:
    """Keep them for people, unless only the time differs; returns whether they were written."""
    async with core.store.begin(is_read_only=True) as unit:
        known = await unit.get_meta(_name(findings.place))
    if known is not None and replace(_parse(known), at=findings.at) == findings:
        return False
    async with core.store.begin() as unit:
        await unit.put_meta(_name(findings.place), json.dumps(asdict(findings), separators=(",", ":")))
        await unit.commit()
    return True


def _name(place: str) -> str:
    return f"sweep:{place}"


def _parse(text: str) -> SweepFindings:
    values = json.loads(text)
    orphans = tuple(Orphan(**{**orphan, "verdict": Verdict(orphan["verdict"])}) for orphan in values.pop("orphans"))
    return SweepFindings(**values, orphans=orphans)
