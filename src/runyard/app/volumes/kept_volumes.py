"""Volumes that a project keeps: named, sized, mounted by runs as `shared_volume`. An engine creates the claim."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from runyard.app.audit import audit
from runyard.app.core import Core
from runyard.app.document_thread import compute
from runyard.app.entities import MOST_VOLUMES, make_claim_name, require_project
from runyard.app.errors import Conflict, Duplicate, Missing, NotPossible
from runyard.app.locks import lock_of_project
from runyard.app.model import Entity, Principal, Run
from runyard.app.ports import Query, UnitOfWork
from runyard.app.rules import load_current
from runyard.app.runs import can_be_resumed
from runyard.app.volumes.volume_specs import apply_policy, read_volume
from runyard.domain.lifecycle import State, is_final
from runyard.spec.problem_codes import Code
from runyard.spec.problems import list_words

PAGE_SIZE = 200
SLACK = timedelta(minutes=5)
"""Maximum clock skew between replicas."""


async def create_volume(core: Core, who: Principal, project: str, document: Any) -> Entity:
    """Create a volume within the policy's rules. Raises `Refused`, and `Duplicate` for a used name."""
    volume = await compute(lambda: read_volume(document, core.clock.now(), who, project), over=document)
    async with core.store.begin() as unit:
        await unit.lock(lock_of_project(project))
        await require_project(unit, project)
        if await unit.entities.find_latest("volume", project=project, name=volume.name) is not None:
            raise Duplicate(f"Duplicated entity volume:{volume.name}.")
        known = await unit.entities.find_page(Query(type="volume", project=project, size=1))
        if known.total >= MOST_VOLUMES:
            raise NotPossible(Code.VOLUME_TOO_MANY, f"project {project} has {MOST_VOLUMES} volumes, which is the limit")
        policy = (await load_current(unit)).admin_rules.policy
        ruled = replace(volume, spec=apply_policy(volume, policy))
        await unit.entities.add(ruled)
        await audit(core, unit, who, "volume.create", ruled, details=ruled.spec)
        await unit.commit()
    return ruled


async def get_volume(core: Core, project: str, name: str) -> Entity:
    """By name; raises `Missing`."""
    async with core.store.begin(is_read_only=True) as unit:
        return await _require_volume(unit, project, name)


async def delete_volume(
    core: Core, who: Principal, project: str, name: str, *, expected_revision: int | None = None
) -> None:
    """Delete a volume and its data. Raises `NotPossible` while unfinished or resumable runs use it, and names them.

    All runs are checked before the lock is taken, and under the lock only those that changed meanwhile.
    """
    begun_at = core.clock.now() - SLACK
    async with core.store.begin(is_read_only=True) as unit:
        volume = await _require_volume(unit, project, name)
        await _check_unused(unit, volume, since=None)
    async with core.store.begin() as unit:
        await unit.lock(lock_of_project(project))
        volume = await _require_volume(unit, project, name)
        if expected_revision is not None and volume.revision != expected_revision:
            raise Conflict(f"volume {name} was changed since you read it: read it again")
        await _check_unused(unit, volume, since=begun_at)
        await unit.entities.delete("volume", volume.id, project=project)
        await audit(core, unit, who, "volume.delete", volume)
        await unit.commit()


async def _require_volume(unit: UnitOfWork, project: str, name: str) -> Entity:
    volume = await unit.entities.find_latest("volume", project=project, name=name)
    if volume is None:
        raise Missing("volume", name)
    return volume


async def _check_unused(unit: UnitOfWork, volume: Entity, *, since: datetime | None) -> None:
    claim = make_claim_name(volume.id)
    using: list[str] = []
    for state in (state for state in State if state is State.STOPPED or not is_final(state)):
        number = 0
        while True:
            query = Query(
                type="run",
                project=volume.project,
                state=state,
                updated=None if since is None else (since, None),
                page=number,
                size=PAGE_SIZE,
            )
            content = (await unit.runs.find_page(query)).content
            using += [run.id for run in content if isinstance(run, Run) and _may_use(run, claim)]
            number += 1
            if len(content) < PAGE_SIZE:
                break
    if using:
        message = (
            f"volume {volume.name} is used by runs that have not ended or can be resumed: {list_words(using)}; "
            "stop jobs and delete services first"
        )
        raise NotPossible(Code.VOLUME_IN_USE, message)


def _may_use(run: Run, claim: str) -> bool:
    """A stopped service can be resumed and then needs its volume."""
    return claim in _iter_claims(run) and (not is_final(State(run.state)) or can_be_resumed(run))


def _iter_claims(run: Run) -> Iterator[str]:
    effective = run.find_effective()
    for volume in effective.volumes if effective is not None else ():
        if volume.claim_name is not None:
            yield volume.claim_name
