"""Fields that a client sent and the server ignores. The answer lists them in `status.warnings`.

Warnings belong to the answer of one request; they are not stored with the entity.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from runyard.app.entities.drafts import EntityDraft
from runyard.app.model import Entity, Json
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, cap_problems

WARNINGS = "warnings"
"""The key of `status` for warnings. Clients send back what they received here; it is dropped."""
TAKEN = ("message", "metrics")
"""Status fields that clients may set where the server sets the state."""


def take_status(status: Json, *, is_clients: bool) -> Json:
    """The part of a status that is stored: all where clients set the state, else only `TAKEN`."""
    return {key: value for key, value in status.items() if key != WARNINGS and (is_clients or key in TAKEN)}


def find_unused(entity: Entity, draft: EntityDraft, *, is_clients: bool) -> list[Problem]:
    """Ignored fields of metadata and status."""
    problems = find_unused_name(draft, name=entity.name)
    return problems if is_clients else problems + find_unused_status(draft, state=entity.state)


def find_unused_name(draft: EntityDraft, *, name: str) -> list[Problem]:
    """A name in the metadata that differs from the entity's name."""
    named = draft.metadata.get("name")
    if named in (None, name):
        return []
    message = f"always the entity's name, `{name}`; ignored"
    return [Problem(Code.VALUE_UNUSED, ("metadata", "name"), message, value=named)]


def find_unused_status(draft: EntityDraft, *, state: str, taken: Iterable[str] = TAKEN) -> list[Problem]:
    """Status fields that only the server sets, if they differ from its values."""
    known = {*taken, WARNINGS, "transitions"}
    problems = [
        Problem(Code.VALUE_UNUSED, ("status", key), "set by the server; ignored")
        for key in draft.status
        if key not in known
    ]
    if draft.state not in (None, state):
        message = f"set by the server, to `{state}`; ignored"
        problems.append(Problem(Code.VALUE_UNUSED, ("status", "state"), message, value=draft.state))
    return problems


def find_kept(
    draft: Mapping[str, Any], *, stored: Mapping[str, Any], shown: Mapping[str, Any], names: Iterable[str]
) -> list[Problem]:
    """Fields of a spec that differ from the stored ones and that an update does not change. Absent fields are fine."""
    message = "an update does not change this field; ignored: create a new version to change it"
    return [
        Problem(Code.VALUE_UNUSED, ("spec", name), message)
        for name in names
        if draft.get(name) not in (None, {}, [], stored.get(name), shown.get(name))
    ]


def with_warnings(entity: Entity, problems: Sequence[Problem]) -> Entity:
    """Add the warnings of this request to the entity in the answer."""
    if not problems:
        return entity
    return replace(
        entity, status={**entity.status, WARNINGS: [problem.to_dict() for problem in cap_problems(problems)]}
    )
