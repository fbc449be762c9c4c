"""What a client says and the server does not use: told in the answer's `status.warnings`, never dropped in silence.

Warnings are part of the answer to that one request; they are not stored with the entity.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from runyard.app.entities.drafts import EntityDraft
from runyard.app.model import Entity, Json
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem

WARNINGS = "warnings"
"""The key of `status` that is ours alone: what clients send back there is what they were told."""
TAKEN = ("message", "metrics")
"""What clients may say of things whose state is ours."""


def take_status(status: Json, *, is_clients: bool) -> Json:
    """What is stored of a status that was written: all of it where it is the clients', a little elsewhere."""
    return {key: value for key, value in status.items() if key != WARNINGS and (is_clients or key in TAKEN)}


def find_unused(entity: Entity, draft: EntityDraft, *, is_clients: bool) -> list[Problem]:
    """What was written of metadata and status, and is not what the entity has now."""
    problems = find_unused_name(draft, name=entity.name)
    return problems if is_clients else problems + find_unused_status(draft, state=entity.state)


def find_unused_name(draft: EntityDraft, *, name: str) -> list[Problem]:
    """A name in the metadata that is not the entity's."""
    named = draft.metadata.get("name")
    if named in (None, name):
        return []
    message = f"is always the entity's name, `{name}`"
    return [Problem(Code.VALUE_UNUSED, ("metadata", "name"), message, value=named)]


def find_unused_status(draft: EntityDraft, *, state: str, taken: Iterable[str] = TAKEN) -> list[Problem]:
    """What was written of a status that is the server's to say, and is not what it says."""
    known = {*taken, WARNINGS, "transitions"}
    problems = [
        Problem(Code.VALUE_UNUSED, ("status", key), "is the server's to say")
        for key in draft.status
        if key not in known
    ]
    if draft.state not in (None, state):
        message = f"is the server's to say; it is `{state}`"
        problems.append(Problem(Code.VALUE_UNUSED, ("status", "state"), message, value=draft.state))
    return problems


def find_kept(
    draft: Mapping[str, Any], *, stored: Mapping[str, Any], shown: Mapping[str, Any], names: Iterable[str]
) -> list[Problem]:
    """Fields of a spec that an update wants otherwise and does not change. A field that it lacks, it does not want."""
    message = "is not changed by an update: what is stored stays; create a new one to change it"
    return [
        Problem(Code.VALUE_UNUSED, ("spec", name), message)
        for name in names
        if draft.get(name) not in (None, {}, [], stored.get(name), shown.get(name))
    ]


def with_warnings(entity: Entity, problems: Sequence[Problem]) -> Entity:
    """The entity for the answer, with the warnings of this request."""
    if not problems:
        return entity
    return replace(entity, status={**entity.status, WARNINGS: [problem.to_dict() for problem in problems]})
