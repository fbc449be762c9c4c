"""Volumes that a project keeps: named, sized, mounted by runs as `shared_volume`. An engine creates the claim."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from runyard.app.audit import audit
from runyard.app.core import Core
from runyard.app.document_thread import compute
from runyard.app.entities import MOST_VOLUMES, begin_volume_deletion, require_project
from runyard.app.errors import Conflict, Duplicate, Missing, NotPossible
from runyard.app.list_query import Query
from runyard.app.locks import lock_of_project
from runyard.app.model import Entity, Principal
from runyard.app.ports import UnitOfWork
from runyard.app.rules import load_current
from runyard.app.volumes.ledger import show_volume
from runyard.app.volumes.volume_specs import apply_policy, read_volume
from runyard.app.volumes.volume_users import find_users
from runyard.spec.problem_codes import Code
from runyard.spec.problems import list_words

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
    core.signals.volumes.set()
    return show_volume(ruled, ())


async def delete_volume(
    core: Core, who: Principal, project: str, name: str, *, expected_revision: int | None = None
) -> None:
    """Delete a volume and its data. Raises `NotPossible` while unfinished or resumable runs use it, and names them.

    A volume that exists nowhere is gone when this returns. Another is DELETING until its claim is gone. All runs are
    checked before the lock is taken, and under the lock only those that changed meanwhile.
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
        if volume.state == "DELETING":
            return
        await begin_volume_deletion(unit, volume, at=core.clock.now(), by=who.name)
        await audit(core, unit, who, "volume.delete", volume)
        await unit.commit()
    core.signals.volumes.set()


async def _require_volume(unit: UnitOfWork, project: str, name: str) -> Entity:
    volume = await unit.entities.find_latest("volume", project=project, name=name)
    if volume is None:
        raise Missing("volume", name)
    return volume


async def _check_unused(unit: UnitOfWork, volume: Entity, *, since: datetime | None) -> None:
    if users := await find_users(unit, volume, since=since):
        message = (
            f"volume {volume.name} is used by runs that have not ended or can be resumed: "
            f"{list_words(sorted(run.id for run in users))}; stop jobs and delete services first"
        )
        raise NotPossible(Code.VOLUME_IN_USE, message)
