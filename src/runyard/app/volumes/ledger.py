"""The volume ledger as users see it: owner, size and class asked for and real, users, last mount, expiry.

What the engine finds is in the rows, written by the volume loop: reading the ledger calls no engine. A page costs the
same few queries however many volumes it has.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from runyard.app.core import Core
from runyard.app.engine import VolumeState
from runyard.app.engine_calls import call_engine
from runyard.app.entities import find_owner_uid, get_claim, require_project
from runyard.app.errors import Missing, NotSupported
from runyard.app.list_query import Page, Query
from runyard.app.model import Entity, Json
from runyard.app.ports import MountingRun
from runyard.app.volumes.volume_users import list_users
from runyard.spec.problem_codes import Code

MOST_SHOWN_USERS = 20
"""How many runs the ledger names per volume; `in_use_count` counts all that were read."""
MOST_ORPHANS = 1000
"""How many orphaned claims are listed."""
_PAGE_SIZE = 1000


@dataclass(frozen=True, slots=True)
class Orphans:
    """Claims at a place that carry our installation's label, and that no volume of the ledger knows."""

    place: str
    claims: Sequence[VolumeState]
    count: int


async def list_volumes(core: Core, query: Query) -> Page:
    """One page of a project's volumes, as the ledger shows them."""
    async with core.store.begin(is_read_only=True) as unit:
        project = query.project or ""
        await require_project(unit, project)
        page = await unit.entities.find_page(query)
        users = await list_users(unit, project, page.content)
    return replace(page, content=tuple(show_volume(one, users.get(one.id, ())) for one in page.content))


async def get_volume(core: Core, project: str, name: str) -> Entity:
    """By name, as the ledger shows it; raises `Missing`."""
    async with core.store.begin(is_read_only=True) as unit:
        volume = await unit.entities.find_latest("volume", project=project, name=name)
        if volume is None:
            raise Missing("volume", name)
        users = await list_users(unit, project, [volume])
    return show_volume(volume, users.get(volume.id, ()))


def show_volume(volume: Entity, users: Sequence[MountingRun]) -> Entity:
    """The volume with the ledger's view as its status."""
    stored = volume.status
    mounted = set(stored.get("mounted_by", ()))
    named = {run.uid: run.id for run in users}
    using: list[Json] = [
        *({"id": run_id, "uid": uid, "is_mounted": uid in mounted} for uid, run_id in named.items()),
        # Not unfinished anymore, or not known: the engine still has it mounted.
        *({"uid": uid, "is_mounted": True} for uid in sorted(mounted - named.keys())),
    ]
    owner: Json = {"user": volume.user}
    if (owner_uid := find_owner_uid(volume)) is not None:
        owner |= {"run": stored["run"].get("id"), "run_uid": owner_uid}
    view = {key: value for key, value in stored.items() if key not in ("mounted_by", "run")}
    return replace(
        volume,
        status={
            **view,
            "claim_name": get_claim(volume),
            "owner": owner,
            "lifetime": volume.spec.get("lifetime", "keep"),
            "in_use_by": using[:MOST_SHOWN_USERS],
            "in_use_count": len(using),
        },
    )


async def list_orphans(core: Core) -> Orphans:
    """Claims that no volume of the ledger knows. Nothing removes them: an admin decides.

    Asks the engine. Raises `NotSupported` without one, and `EngineUnavailable`.
    """
    engine = core.engine
    if engine is None:
        raise NotSupported(Code.ENGINE_NONE, "this server has no engine: ask an operator to configure one")
    # Claims first, then rows: a row is written before its claim is created.
    found = await call_engine(engine.list_volumes())
    known = await _list_known(core)
    orphans = sorted(
        (one for one in found if one.volume_id is None or (one.project, one.volume_id) not in known),
        key=lambda one: (one.project, one.claim),
    )
    return Orphans(place=str(engine.place), claims=orphans[:MOST_ORPHANS], count=len(orphans))


async def _list_known(core: Core) -> set[tuple[str, str]]:
    """Project and id of every volume."""
    known: set[tuple[str, str]] = set()
    after: tuple[str, str] | None = None
    async with core.store.begin(is_read_only=True) as unit:
        while True:
            page = await unit.entities.list_brief("volume", after=after, limit=_PAGE_SIZE)
            known.update((volume.project, volume.id) for volume in page)
            if len(page) < _PAGE_SIZE:
                return known
            after = (page[-1].id, page[-1].project)
