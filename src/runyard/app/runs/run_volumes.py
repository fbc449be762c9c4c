"""Claims of a run that outlive it, and what becomes of them when the run is deleted.

Each has a row in the volume ledger from before the run's release on. A run that was never released leaves none behind.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b

from runyard.app.entities import begin_volume_deletion, change_status
from runyard.app.locks import lock_of_entity, lock_of_project
from runyard.app.model import Run, Transition
from runyard.app.ports import UnitOfWork
from runyard.domain.effective_document import UnknownSchema
from runyard.domain.lifecycle import State, is_final
from runyard.manifests.identity import RunIdentity
from runyard.manifests.names import claim_name
from runyard.spec.volumes import Volume

_RELEASED = frozenset({State.PENDING, State.RUNNING})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVolume:
    """A claim of a run that outlives it."""

    id: str
    """Of its row in the ledger: derived from the run's uid, so that it has only one."""
    claim: str
    volume: Volume


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How far a run has got, from its transitions."""

    was_released: bool
    ended_at: datetime | None


def list_run_volumes(run: Run) -> Sequence[RunVolume]:
    """The claims of the run with lifetime `keep` or seconds. None are known if its spec cannot be read."""
    try:
        effective = run.find_effective()
    except UnknownSchema:
        return ()
    if effective is None or not any(_is_kept(volume) for volume in effective.volumes):
        return ()
    identity = RunIdentity(run_id=run.id, run_uid=run.uid, project=run.project)
    return [
        RunVolume(id=_make_id(run, volume), claim=claim_name(identity, volume=volume.name), volume=volume)
        for volume in effective.volumes
        if _is_kept(volume)
    ]


def read_end(transitions: Iterable[Transition]) -> RunEnd:
    """When a run ended, if it has, and whether it may have been handed to an engine: one that waited for room may."""
    history = list(transitions)
    last = history[-1] if history else None
    ended_at = last.at if last is not None and (is_final(last.state) or last.state is State.DELETING) else None
    return RunEnd(was_released=any(step.state in _RELEASED for step in history), ended_at=ended_at)


async def lock_run_volumes(unit: UnitOfWork, run: Run) -> None:
    """Lock the rows of a run's volumes against those who would add, place or delete them."""
    await unit.lock_shared(lock_of_project(run.project))
    await unit.lock(lock_of_entity("run", run.project, run.id))


async def end_run_volumes(unit: UnitOfWork, run: Run, *, at: datetime) -> bool:
    """Write what becomes of the volumes of a run whose row goes in this unit of work; returns whether it has any.

    Those of a run that was never released are empty, and go. Others are kept, or expire from now on.
    """
    volumes = list_run_volumes(run)
    if not volumes:
        return False
    await lock_run_volumes(unit, run)
    end = read_end(await unit.runs.list_transitions(run.uid))
    for one in volumes:
        await unit.lock(lock_of_entity("volume", run.project, one.id))
        row = await unit.entities.find("volume", one.id, project=run.project)
        if row is None or row.state == "DELETING":
            continue
        if not end.was_released:
            await begin_volume_deletion(unit, row, at=at)
        elif row.status.get("ended_at") is None:
            await unit.entities.replace(change_status(row, make_expiry(one.volume.lifetime, ended_at=at), at=at))
    return True


def make_expiry(lifetime: object, *, ended_at: datetime | None) -> dict[str, str | None]:
    """The fields of a volume's status about the end of its run, and when it expires; None if it does not."""
    if ended_at is None:
        return {"ended_at": None, "expires_at": None}
    expires_at = (ended_at + timedelta(seconds=lifetime)).isoformat() if isinstance(lifetime, int) else None
    return {"ended_at": ended_at.isoformat(), "expires_at": expires_at}


def _is_kept(volume: Volume) -> bool:
    is_new = volume.type == "persistent_volume_claim" and volume.claim_name is None
    return is_new and volume.lifetime not in (None, "run")


def _make_id(run: Run, volume: Volume) -> str:
    return blake2b(f"{run.uid}/{volume.name}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
