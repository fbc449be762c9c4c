"""Forget a place: a cluster that is gone for good, with everything that ran there.

Without this, its runs wait for ever: absence at another place proves nothing.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from runyard.app.audit import note_act
from runyard.app.core import Core
from runyard.app.entities import change_status, find_place
from runyard.app.errors import Missing, NotPossible
from runyard.app.model import Entity, Principal, Run
from runyard.app.ports import PlaceUse
from runyard.app.projects import find_projects_by_place, forget_project_places
from runyard.app.run_rows import RunRemover
from runyard.app.runs import Change, Move, write_changes
from runyard.app.volumes import change_volume, list_volumes_in_state
from runyard.domain.lifecycle import FINAL, State
from runyard.domain.reasons import Reason
from runyard.spec.problem_codes import Code

RUNS_AT_ONCE = 100
"""How many runs are written in one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """How many runs, volumes and projects were changed."""

    ended: int = 0
    """Had not ended; they are ERROR now, or STOPPED if somebody had stopped them."""
    released: int = 0
    """Had ended before."""
    deleted: int = 0
    """Were being deleted; they are gone now."""
    volumes: int = 0
    """Lost with the place; those that were being deleted can go now."""
    projects: int = 0
    """Were prepared at the place; those that were being deleted can go now."""
    left: int = 0
    """Could not be changed now: others have locked them, or their logs cannot be deleted. Repeat the command."""


async def list_places(core: Core) -> Sequence[PlaceUse]:
    """The places that runs, volumes or projects have, or live servers serve, by name. For people, not for loops."""
    async with core.store.begin(is_read_only=True) as unit:
        uses = {use.place: use for use in await unit.runs.list_places()}
    volumes = Counter(find_place(volume) for volume in await _list_volumes(core))
    projects = await find_projects_by_place(core)
    return [
        replace(
            uses.get(place) or PlaceUse(place=place, runs=0, unsettled=0, replicas=0),
            volumes=volumes[place],
            projects=len(projects.get(place, ())),
        )
        for place in sorted(uses.keys() | projects.keys() | {place for place in volumes if place is not None})
    ]


async def forget_place(core: Core, who: Principal, place: str) -> Forgotten:
    """End or delete all runs of a place that is gone for good, as if nothing existed for them anywhere. Audited.

    Its volumes are lost. Idempotent. Raises `Missing` if no run, volume or project has that place, and `NotPossible`
    if a live server serves it.
    """
    use = next((use for use in await list_places(core) if use.place == place), None)
    if use is None:
        raise Missing("place", place)
    if use.replicas:
        raise NotPossible(Code.PLACE_SERVED, f"{use.replicas} live servers serve {place}: stop them first")
    volumes = [volume for volume in await _list_volumes(core) if find_place(volume) == place]
    remover = RunRemover(core.store, core.logs)
    ended = released = deleted = seen = 0
    after = ""
    while True:
        async with core.store.begin() as unit:
            page = await unit.runs.list_placed(place, after=after, limit=RUNS_AT_ONCE)
            runs = await unit.runs.lock_observed(page)
            deleting = [run.key for run in runs if run.state == State.DELETING]
            changes = [(run, _end(run, core, place)) for run in runs if run.state != State.DELETING]
            await write_changes(core, unit, who, changes)
            await unit.commit()
        ended += sum(bool(change.moves) for _, change in changes)
        released += sum(not change.moves for _, change in changes)
        deleted += len(await remover.remove(deleting))
        for run, _ in changes:
            core.signals.notify(run.uid)
        seen += len(page)
        if len(page) < RUNS_AT_ONCE:
            break
        after = page[-1]
    for volume in volumes:
        await change_volume(core, volume, lambda stored: _lose(stored, core, place))
    projects = await forget_project_places(core, place)
    forgotten = Forgotten(
        ended=ended,
        released=released,
        deleted=deleted,
        volumes=len(volumes),
        projects=projects,
        left=seen - ended - released - deleted,
    )
    await _note(core, who, place, forgotten)
    return forgotten


def _end(run: Run, core: Core, place: str) -> Change:
    state = State(run.state)
    nothing_exists = {"place": None, "anchor_uid": None, "settled_at": run.settled_at or core.clock.now()}
    if state in FINAL:
        return Change(action="run.forget", values=nothing_exists, due_in=None)
    message = f"{place} is gone for good, with everything that ran there"
    target = State.STOPPED if state is State.STOP else State.ERROR
    move = Move(state=target, reason=Reason.PLACE_FORGOTTEN, message=message)
    return Change(action="run.forget", moves=(move,), values=nothing_exists, due_in=None)


async def _list_volumes(core: Core) -> list[Entity]:
    listed = [await list_volumes_in_state(core, state) for state in ("CREATED", "READY", "ERROR", "DELETING")]
    return [volume for volumes in listed for volume in volumes]


def _lose(volume: Entity, core: Core, place: str) -> Entity | None:
    if find_place(volume) != place:
        return None
    values = {"place": None, "phase": "lost", "mounted_by": None}
    if volume.state == "DELETING":
        return change_status(volume, values, at=core.clock.now())
    message = f"{place} is gone for good, with the data of the volume"
    why = {"reason": Reason.PLACE_FORGOTTEN.value, "message": message}
    return change_status(volume, {**values, **why}, at=core.clock.now(), state="ERROR")


async def _note(core: Core, who: Principal, place: str, forgotten: Forgotten) -> None:
    details = {name: getattr(forgotten, name) for name in ("ended", "released", "deleted", "volumes", "projects")}
    async with core.store.begin() as unit:
        await note_act(core, unit, who, "place.forget", of=("place", place), details=details)
        await unit.commit()
