"""Drafts: a function and a task that a request defines and that are not stored, for a run that refers to them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runyard.app.core import Core
from runyard.app.entities import check_new, make_entity
from runyard.app.model import Entity, Principal
from runyard.app.ports import EntityLookup
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused
from runyard.spec.readers import Findings, expect_mapping, expect_option

DRAFTS = "drafts"
"""The field of a request that has them, by the name of their type."""
DRAFTED = ("function", "task")
"""The types, in the order in which they refer to each other."""


@dataclass(frozen=True, slots=True)
class DraftedEntities:
    """`EntityLookup` that finds the drafts, and behind them what is stored."""

    stored: EntityLookup
    drafts: dict[str, Entity] = field(default_factory=dict)
    """By type: one of each."""

    async def find(self, entity_type: str, entity_id: str, *, project: str) -> Entity | None:
        """A draft comes before a stored entity of its id."""
        draft = self._find_draft(entity_type, project)
        if draft is not None and draft.id == entity_id:
            return draft
        return await self.stored.find(entity_type, entity_id, project=project)

    async def find_latest(self, entity_type: str, *, project: str, name: str) -> Entity | None:
        """A draft is the newest version of its name."""
        draft = self._find_draft(entity_type, project)
        if draft is not None and draft.name == name:
            return draft
        return await self.stored.find_latest(entity_type, project=project, name=name)

    def _find_draft(self, entity_type: str, project: str) -> Entity | None:
        draft = self.drafts.get(entity_type)
        return draft if draft is not None and draft.project == project else None


def split_drafts(given: Any) -> tuple[Any, Mapping[str, Any]]:
    """The document of the run, and those of its drafts by type. Raises `Refused` for drafts of other types."""
    document = expect_mapping(given, of="an entity's fields")
    if document.get(DRAFTS) is None:
        return document, {}
    findings = Findings()
    drafts = findings.read(lambda written: expect_mapping(written, of="drafts by type"), document[DRAFTS], DRAFTS) or {}
    for name in drafts:
        findings.read(lambda text: expect_option(text, what="draft", options=DRAFTED), name, DRAFTS, name)
    findings.finish()
    run = {key: value for key, value in document.items() if key != DRAFTS}
    return run, {name: drafts[name] for name in DRAFTED if drafts.get(name) is not None}


async def read_drafts(
    core: Core, who: Principal, entities: EntityLookup, project: str, documents: Mapping[str, Any]
) -> tuple[DraftedEntities, list[Problem]]:
    """The drafts, read and checked as if they were created, and all their problems. One with problems is left out."""
    found = DraftedEntities(entities)
    problems: list[Problem] = []
    for name, document in documents.items():
        try:
            entity, _ = await make_entity(core, who, name, project, document)
        except Refused as refused:
            problems += [problem.under(DRAFTS, name) for problem in refused.problems]
            continue
        unknown = [problem.under(DRAFTS, name) for problem in await check_new(found, entity)]
        # A draft with problems is not found by those that refer to it: that is said once, at the draft.
        problems += [problem for problem in unknown if not (problems and problem.code is Code.REFERENCE_UNKNOWN)]
        if not unknown:
            found.drafts[name] = entity
    return found, problems
