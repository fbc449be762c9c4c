"""Revisions of profiles and the policy. Every one is kept, with its author and time."""

import json
from collections.abc import Sequence
from typing import Any, Literal

from runyard.app.audit import note_act
from runyard.app.core import Core
from runyard.app.errors import Conflict, Missing
from runyard.app.model import Json, Principal, Revision
from runyard.app.ports import UnitOfWork
from runyard.app.rules.current_rules import POLICY_NAME
from runyard.spec.document_size import check_values
from runyard.spec.problem_codes import Code
from runyard.spec.readers import expect_mapping, refuse

Kind = Literal["profile", "policy"]
MOST_VALUES = 20_000
"""Values in a profile or policy, nested ones included: `load_current` parses them again after every change."""


async def list_revisions(core: Core, kind: Kind, name: str = POLICY_NAME) -> Sequence[Revision]:
    """All revisions, newest first, with deletions; raises `Missing` for a profile that never existed."""
    async with core.store.begin(is_read_only=True) as unit:
        found = await unit.revisions.list_history(kind, name)
    if not found and kind == "profile":
        raise Missing(kind, name)
    return found


async def get_revision(core: Core, kind: Kind, number: int, *, name: str = POLICY_NAME) -> Revision:
    """One revision; raises `Missing`."""
    async with core.store.begin(is_read_only=True) as unit:
        found = await unit.revisions.find(kind, name, revision=number)
    if found is None:
        raise Missing(f"revision of {kind}", f"{name} {number}" if kind == "profile" else str(number))
    return found


async def put_revision(
    core: Core, who: Principal, kind: Kind, name: str, document: Json | None, *, expected_revision: int | None
) -> Revision:
    """Add a revision; None deletes. An unchanged document adds none. Raises `Missing`, `Conflict`.

    An expected revision of 0 means that there is none yet.
    """
    async with core.store.begin() as unit:
        newest = await unit.revisions.find(kind, name)
        number = 0 if newest is None else newest.revision
        if expected_revision is not None and expected_revision != number:
            raise _conflict(kind, name)
        if document is None and (newest is None or newest.document is None):
            raise Missing(kind, name)
        if newest is not None and newest.document == document:
            return newest
        revision = await unit.revisions.put(kind, name, document, user=who.name)
        if expected_revision is not None and revision.revision != number + 1:
            # Another writer came between our read and the lock.
            raise _conflict(kind, name)
        await _note(core, unit, who, revision)
        await unit.commit()
    return revision


async def _note(core: Core, unit: UnitOfWork, who: Principal, revision: Revision) -> None:
    action = f"{revision.kind}.{'delete' if revision.document is None else 'put'}"
    details = {"revision": revision.revision}
    await note_act(core, unit, who, action, of=(revision.kind, revision.name), details=details)


def _conflict(kind: Kind, name: str) -> Conflict:
    return Conflict(f"{kind} {name} was changed since you read it: read it again")


def check_storable(document: Any) -> Any:
    """Refuse values that do not survive JSON; YAML has more types."""
    expect_mapping(document, of="fields")
    check_values(document, most=MOST_VALUES)
    try:
        is_same = json.loads(json.dumps(document, allow_nan=False)) == document
    except (TypeError, ValueError):
        is_same = False
    if not is_same:
        raise refuse(Code.DOCUMENT_JSON, "has keys or values that JSON cannot represent")
    return document
