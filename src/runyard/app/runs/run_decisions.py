"""What submit, explain and render decide alike: the document as it is read, resolved, and what is wrong with it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from runyard.app.core import Core
from runyard.app.document_thread import compute
from runyard.app.entities import EntityDraft, find_unused_name, find_unused_status, read_draft, read_restored_draft
from runyard.app.ports import EntityLookup, UnitOfWork
from runyard.app.rules import CurrentRules, load_current
from runyard.app.runs.run_requests import RunRequest, load_inventory, read_drafted_request, read_run_request
from runyard.domain.lifecycle import State
from runyard.domain.resolution import NOT_USED, Resolution
from runyard.domain.resolve_inputs import Request
from runyard.manifests.renderability import resolve_run
from runyard.spec.digitalhub.original_fields import ORIGINAL
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused
from runyard.spec.readers import to_snake_case


def read_run_document(given: Any) -> tuple[Any, EntityDraft]:
    """The document and its draft; with the fields of `spec.original`, if a client submits a response as a new run."""
    draft = read_draft(given)
    if ORIGINAL not in (given.get("spec") or {}):
        return given, draft
    document = {**given, "spec": read_restored_draft(given, "run").spec}
    return document, read_draft(document)


async def read_request(
    core: Core, unit: UnitOfWork, entities: EntityLookup, project: str, document: Any, draft: EntityDraft
) -> RunRequest:
    """Read the request. If fields cannot be read, also refuse what resolving the others would refuse."""
    try:
        return await read_drafted_request(entities, project, draft)
    except Refused as refused:
        more = await _find_more(core, unit, entities, project, document, refused.problems)
        raise Refused([*refused.problems, *more]) from None


async def _find_more(
    core: Core, unit: UnitOfWork, entities: EntityLookup, project: str, document: Any, found: Sequence[Problem]
) -> list[Problem]:
    """The refusals of the run without its unreadable fields, so that all problems are named in one answer."""
    unread = {str(problem.path[1]) for problem in found if problem.path[:1] == ("spec",) and len(problem.path) > 1}
    if not all(problem.path[:1] == ("spec",) and len(problem.path) > 1 for problem in found):
        return []
    spec = {key: value for key, value in (document.get("spec") or {}).items() if key not in unread}
    try:
        run_request = await read_run_request(entities, project, {**document, "spec": spec})
    except Refused:
        return []
    if run_request.request is None:
        return []
    rules = await load_current(unit)
    resolution = await resolve_request(core, unit, run_request.request, rules, over=run_request.specs)
    names = {to_snake_case(key) for key in unread}
    if "profile" in names:
        names |= {"image", "command"}  # the unreadable profile may set them
    more = [problem for problem in resolution.refusals if problem.path[:1] and problem.path[0] not in names]
    return place_problems(more, run_request.draft.kind)


async def resolve_request(
    core: Core, unit: UnitOfWork, request: Request, rules: CurrentRules, *, over: Any
) -> Resolution:
    """Resolve it by the current rules and what its project has. `over`: see `compute`."""
    inventory = await load_inventory(unit, request, rules.admin_rules)
    engine = core.engine
    return await compute(
        lambda: resolve_run(
            request,
            rules.admin_rules,
            inventory,
            is_started=engine is not None,
            has_launcher=engine is not None and engine.platform.launcher is not None,
        ),
        over=over,
    )


def place_problems(problems: Iterable[Problem], kind: str) -> list[Problem]:
    """The problems as they are in a run document: fields are under `spec`, and `kind` names the action."""
    return [
        replace(problem, path=("kind",), value=kind, allowed=None)
        if problem.path == ("action",)
        else problem.under("spec")
        for problem in problems
    ]


def split_problems(resolution: Resolution, *, is_strict: bool) -> tuple[Sequence[Problem], Sequence[Problem]]:
    """Warnings and refusals. Strict refuses values that are not used, and a run that nothing here can start."""
    codes = {*NOT_USED, Code.LAUNCHER_MISSING} if is_strict else set()
    promoted = [problem for problem in resolution.warnings if problem.code in codes]
    warnings = [problem for problem in resolution.warnings if problem not in promoted]
    return warnings, [*resolution.refusals, *promoted]


def find_unused_values(run_request: RunRequest) -> list[Problem]:
    """A problem for each field of the document that a new run does not use."""
    draft = run_request.draft
    if "transitions" in draft.status:  # a response sent back: its status belongs to the run that it described
        return find_unused_name(draft, name=draft.name or run_request.id)
    # Every client sends the state CREATED for a new run; that is no wish.
    said = replace(draft, state=None) if draft.state == State.CREATED else draft
    unused = find_unused_status(said, state=choose_first_state(run_request), taken=())
    return [*find_unused_name(draft, name=draft.name or run_request.id), *unused]


def choose_first_state(run_request: RunRequest) -> State:
    """The state in which the run is stored."""
    return State.CREATED if run_request.is_local else State.READY


def find_profile_revision(resolution: Resolution, rules: CurrentRules) -> int | None:
    """The revision of the profile that the run was resolved with."""
    return None if resolution.profile is None else rules.profile_revisions.get(resolution.profile.id)
