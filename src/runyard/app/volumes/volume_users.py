"""Which runs use a volume: those that have not ended, or can be resumed, and name its claim or own it."""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime

from runyard.app.entities import find_owner_uid, get_claim
from runyard.app.model import Entity
from runyard.app.ports import MountingRun, UnitOfWork
from runyard.app.runs import RESUMABLE
from runyard.domain.lifecycle import State, is_final

PAGE_SIZE = 200
MOST_MOUNTING_RUNS = 2000
"""How many runs of a project that mount claims are read to show who uses its volumes."""


async def find_users(unit: UnitOfWork, volume: Entity, *, since: datetime | None = None) -> list[MountingRun]:
    """The runs that use a volume; with `since` only those that were changed since then."""
    claim, owner = get_claim(volume), find_owner_uid(volume)
    return [
        run
        async for run in _iter_mounting(unit, volume.project, since=since)
        if (claim in list_claims(run) or run.uid == owner) and _is_using(run)
    ]


async def list_users(unit: UnitOfWork, project: str, volumes: Sequence[Entity]) -> Mapping[str, list[MountingRun]]:
    """The runs that use the volumes, by the volume's id; of the project's first `MOST_MOUNTING_RUNS` runs."""
    claims = {get_claim(volume): volume.id for volume in volumes}
    owners = defaultdict[str, list[str]](list)
    for volume in volumes:
        if (uid := find_owner_uid(volume)) is not None:
            owners[uid].append(volume.id)
    users = defaultdict[str, list[MountingRun]](list)
    number = 0
    async for run in _iter_mounting(unit, project, since=None):
        number += 1
        if number > MOST_MOUNTING_RUNS:
            break
        named = {claims[claim] for claim in list_claims(run) if claim in claims} | set(owners.get(run.uid, ()))
        for volume_id in named if _is_using(run) else ():
            users[volume_id].append(run)
    return users


async def _iter_mounting(unit: UnitOfWork, project: str, *, since: datetime | None) -> AsyncIterator[MountingRun]:
    after = ""
    while True:
        page = await unit.runs.list_mounting(project=project, since=since, after=after, limit=PAGE_SIZE)
        for run in page:
            yield run
        if len(page) < PAGE_SIZE:
            return
        after = page[-1].uid


def list_claims(run: MountingRun) -> Iterator[str]:
    """The claims that a run names. From the document itself: one of a newer release counts, too."""
    for volume in run.effective.get("volumes", ()):
        if (claim := volume.get("claim_name")) is not None:
            yield claim


def _is_using(run: MountingRun) -> bool:
    """A stopped service can be resumed and then needs its volume."""
    return not is_final(State(run.state)) or (run.state == State.STOPPED and run.effective.get("action") in RESUMABLE)
