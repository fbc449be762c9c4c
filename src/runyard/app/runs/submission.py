"""Submit a run: read, resolve, store. Request, effective spec and provenance commit in one transaction."""

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any
from uuid import uuid4

from runyard.app.audit import audit
from runyard.app.core import Core
from runyard.app.document_thread import compute
from runyard.app.entities import (
    EntityDraft,
    drop_nulls,
    enter_project,
)
from runyard.app.errors import Duplicate
from runyard.app.intake import AHEAD, NewRun
from runyard.app.model import Json, Principal, Run, Transition
from runyard.app.ports import UnitOfWork
from runyard.app.rules import CurrentRules, load_current
from runyard.app.runs.run_decisions import (
    choose_first_state,
    find_profile_revision,
    find_unused_values,
    place_problems,
    read_request,
    read_run_document,
    resolve_request,
    split_problems,
)
from runyard.app.runs.run_queries import list_newest_transitions
from runyard.app.runs.run_requests import RunRequest
from runyard.app.runs.transitions import make_first_transitions
from runyard.domain.effective_document import write_effective
from runyard.domain.lifecycle import State
from runyard.domain.reasons import Reason
from runyard.domain.resolution import Resolution
from runyard.spec.problems import Problem, Refused, cap_problems, limit_nearest
from runyard.spec.registries import REGISTRIES_SECRET

NO_ENGINE_MESSAGE = "no engine is configured: the run is accepted and stored, and nothing starts it"


async def submit_run(
    core: Core,
    who: Principal,
    project: str,
    document: Any,
    *,
    is_strict: bool = False,
    noted: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Run, Sequence[Transition]]:
    """Store a run that may start; returns it with its transitions. Idempotent for the same id and the same request.

    Raises `Duplicate` for the same id with another request, and `Refused` with every problem; with `is_strict`, values
    that would not be used are problems. `noted` is added to the run's metadata.
    """
    # Triggers submit runs too, outside of any request.
    with limit_nearest():
        return await _submit(core, who, project, document, is_strict=is_strict, noted=noted)


async def _submit(
    core: Core, who: Principal, project: str, document: Any, *, is_strict: bool, noted: Mapping[str, Any]
) -> tuple[Run, Sequence[Transition]]:
    document, draft, request, request_hash = await compute(partial(_read_submission, document), over=document)
    async with core.store.begin() as unit:
        # Holds off the deletion of the project and of its kept volumes.
        entered = await enter_project(unit, project)
        # Before any lookup: a retried submit succeeds even if its task or function was deleted since.
        if draft.id is not None and (stored := await unit.runs.find(draft.id, project=project)) is not None:
            return await _take_same(unit, stored, request_hash)
        run_request = await read_request(core, unit, unit.entities, project, document, draft)
        rules = await load_current(unit)
        resolution = await _decide(core, unit, run_request, rules, is_strict=is_strict)
        run = _make_run(core, who, project, run_request, resolution, rules, request=request, request_hash=request_hash)
        place = None if run.is_local else core.intake.find_place()
        run = replace(run, metadata={**run.metadata, **noted}, place=place)
        transitions = _make_transitions(who, run)
        try:
            run = await unit.runs.add(run, transitions, due_in=_choose_due(core, run))
        except Duplicate:
            stored = await unit.runs.find(run.id, project=project)
            if stored is None:
                raise Duplicate(f"Duplicated entity run:{run.id}.") from None
            return await _take_same(unit, stored, request_hash)
        await audit(core, unit, who, "run.submit", run, details={"hash": request_hash})
        if run.place is None:
            await unit.commit()
        else:
            # Before others are told, who would work before it: the engine gets its request first.
            new = NewRun(
                run=run,
                project_created_at=entered.created_at,
                rule_revisions=rules.revisions,
                has_registries=await unit.secrets.find(project, REGISTRIES_SECRET) is not None,
            )
            await core.intake.commit(unit, new)
    core.signals.notify(run.uid)
    if run.place is not None:
        # The loop goes on before the answer is written: the engine works on its request meanwhile.
        await asyncio.sleep(0)
    return run, transitions


def _read_submission(given: Any) -> tuple[Any, EntityDraft, Json, str]:
    """The restored document, its draft, what it asks for, and the hash of that."""
    document, draft = read_run_document(given)
    request = canonicalize_request(document)
    return document, draft, request, hash_request(request)


def hash_request(request: Json) -> str:
    """Two submits with the same hash are the same submit. Takes what `canonicalize_request` returns."""
    canonical = json.dumps(request, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def canonicalize_request(document: Any) -> Json:
    """What the client asks for: without status, times, fields that the server sets, and empty values."""
    said = {key: value for key, value in dict(document).items() if key not in ("status", "key", "user")}
    metadata = said.get("metadata")
    if isinstance(metadata, dict):
        times = ("created", "updated", "created_by", "updated_by")
        said["metadata"] = {key: value for key, value in metadata.items() if key not in times}
    return {key: value for key, value in drop_nulls(said).items() if value not in ({}, [])}


async def _take_same(unit: UnitOfWork, stored: Run, request_hash: str) -> tuple[Run, Sequence[Transition]]:
    if stored.request_hash == request_hash:
        return stored, await list_newest_transitions(unit, stored)
    raise Duplicate(f"Duplicated entity run:{stored.id}.")


async def _decide(
    core: Core, unit: UnitOfWork, run_request: RunRequest, rules: CurrentRules, *, is_strict: bool
) -> Resolution | None:
    refusals = find_unused_values(run_request) if is_strict else []
    resolution = None
    if run_request.request is not None:
        resolution = await resolve_request(core, unit, run_request.request, rules, over=run_request.specs)
        _, decided = split_problems(resolution, is_strict=is_strict)
        refusals = [*place_problems(decided, run_request.draft.kind), *refusals]
    if refusals:
        raise Refused(refusals)
    return resolution


def _make_run(
    core: Core,
    who: Principal,
    project: str,
    run_request: RunRequest,
    resolution: Resolution | None,
    rules: CurrentRules,
    *,
    request: Json,
    request_hash: str,
) -> Run:
    now = core.clock.now()
    draft = run_request.draft
    name = draft.name or run_request.id
    is_without_engine = core.engine is None and not run_request.is_local
    return Run(
        type="run",
        project=project,
        kind=draft.kind,
        name=name,
        id=run_request.id,
        uid=uuid4().hex,
        user=who.name,
        created_at=now,
        updated_at=now,
        updated_by=who.name,
        state=choose_first_state(run_request),
        metadata={"version": run_request.id, **draft.metadata, "project": project, "name": name},
        spec=draft.spec,
        extensions=draft.extensions,
        request=request,
        request_hash=request_hash,
        effective=None if resolution is None else write_effective(resolution.spec),
        provenance=() if resolution is None else tuple(leaf.to_dict() for leaf in resolution.leaves),
        warnings=tuple(problem.to_dict() for problem in cap_problems(_list_warnings(run_request, resolution))),
        profile_revision=None if resolution is None else find_profile_revision(resolution, rules),
        policy_revision=rules.policy_revision,
        task=run_request.task_reference,
        function=run_request.function_reference,
        workflow=run_request.workflow_reference,
        is_local=run_request.is_local,
        reason=Reason.ENGINE_NONE if is_without_engine else None,
        message=NO_ENGINE_MESSAGE if is_without_engine else None,
    )


def _choose_due(core: Core, run: Run) -> timedelta | None:
    if run.is_local or core.engine is None:
        return None
    return timedelta(0) if run.place is None else AHEAD


def _list_warnings(run_request: RunRequest, resolution: Resolution | None) -> list[Problem]:
    decided = () if resolution is None else resolution.warnings
    return [*place_problems(decided, run_request.draft.kind), *find_unused_values(run_request)]


def _make_transitions(who: Principal, run: Run) -> tuple[Transition, ...]:
    states = [State.CREATED] if run.is_local else [State.CREATED, State.READY]
    return make_first_transitions(
        states, at=run.created_at, actor=who.name, reason=run.reason or Reason.USER_SUBMIT, message=run.message
    )
