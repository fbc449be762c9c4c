"""`/api/v1/-/{project}/runs`: submit, explain, render, read, report, stop, resume and delete runs."""

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_context
from runyard.api.if_match import read_expected_revision
from runyard.api.list_parameters import LIST, read_query
from runyard.api.openapi_models import EffectiveResponse, EntityBody, EntityResponse, PageResponse
from runyard.api.openapi_plans import ExplanationResponse, PlanBody, RenderingResponse
from runyard.api.query_parameters import CASCADE, NAME, STRICT, flag, get_parameters, text
from runyard.api.request_bodies import read_body
from runyard.api.responses import (
    entity_response,
    entity_to_json,
    json_response,
    made_response,
    page_response,
    run_to_json,
)
from runyard.api.routing import Routes, get_principal
from runyard.app.document_thread import compute
from runyard.app.errors import Missing
from runyard.app.model import Entity, Json, Run
from runyard.app.runs import (
    delete_run,
    explain_run,
    get_run,
    list_newest_transitions,
    list_place_defaults,
    list_runs,
    render_planned_run,
    report_run,
    resume_run,
    stop_run,
    submit_run,
)
from runyard.app.sessions import Described, EngineViews
from runyard.domain.access import Permission

routes = Routes("/api/v1/-/{project}/runs", tag="runs")
new_projects = Routes("/api/v1/new-projects/{name}/runs", tag="runs")
"""Plans for runs in projects that do not exist yet."""
DESCRIBE = flag("describe", "Ask the engine for the run's objects; takes up to 5 seconds.")
REASON = text("reason", "Why, in your own words; recorded in the transition.")


@routes.get("", permission=Permission.READ, parameters=LIST, response=PageResponse)
async def list_all(request: Request, project: str) -> Response:
    """List runs, newest first, each with its 10 newest transitions; their messages are cut."""
    query = replace(read_query(request, "run"), is_brief=True)
    page, histories = await list_runs(get_context(request).core, query)

    def show(run: Entity) -> Json:
        return run_to_json(run, histories.get(run.uid, ())) if isinstance(run, Run) else entity_to_json(run)

    return page_response(page, number=query.page, size=query.size, show=show)


@routes.post("", permission=Permission.WRITE, body=EntityBody, parameters=(STRICT,), response=EntityResponse)
async def submit(request: Request, project: str) -> Response:
    """Submit a run. Idempotent: the same id with the same request returns the same run."""
    is_strict = get_parameters(request)[STRICT]
    document = await read_body(request)
    core = get_context(request).core
    return entity_response(*await submit_run(core, get_principal(request), project, document, is_strict=is_strict))


@routes.post("/explain", permission=Permission.READ, body=PlanBody, parameters=(STRICT,), response=ExplanationResponse)
async def explain(request: Request, project: str) -> Response:
    """Dry run: the effective spec, who sets each value, and why the run would be refused. Stores nothing.

    `drafts` may define the function and the task that the run refers to, as they would be created; they are found
    before stored ones.
    """
    return await _explain(request, project)


@routes.post("/render", permission=Permission.READ, body=PlanBody, parameters=(STRICT,), response=RenderingResponse)
async def render(request: Request, project: str) -> Response:
    """Dry run: the Kubernetes objects that the run would become. Stores nothing.

    Values of secrets and tokens are empty. The names of the objects end with another hash than those of a stored run.
    A run that would be refused is refused. `drafts` may define its function and task, as for `explain`.
    """
    return await _render(request, project)


@new_projects.post(
    "/explain", permission=Permission.CREATE_PROJECT, body=PlanBody, parameters=(STRICT,), response=ExplanationResponse
)
async def explain_in_new_project(request: Request, name: str) -> Response:
    """`explain` for a run in a project that does not exist yet; it is refused if there is one of that name."""
    return await _explain(request, name, is_new_project=True)


@new_projects.post(
    "/render", permission=Permission.CREATE_PROJECT, body=PlanBody, parameters=(STRICT,), response=RenderingResponse
)
async def render_in_new_project(request: Request, name: str) -> Response:
    """`render` for a run in a project that does not exist yet; it is refused if there is one of that name."""
    return await _render(request, name, is_new_project=True)


@routes.get("/{id}", permission=Permission.READ, parameters=(NAME, DESCRIBE), response=EntityResponse)
async def get(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
    """Get a run with its 100 newest transitions, newest first. With `name`, only if that is its name.

    After the end of a run that an engine executed, `status.logs.state` is `draining` or `complete`.

    With `describe`, `status.k8s` has the objects of the run as the engine sees them now. If the engine cannot say,
    `status.k8s_error` has the reason and message, and the rest of the run is shown. Both are absent for a run without
    objects.
    """
    parameters = get_parameters(request)
    wanted = parameters[NAME]
    run, transitions = await get_run(get_context(request).core, project, id)
    if wanted not in (None, run.name):
        raise Missing("run", f"{wanted}:{id}")
    if parameters[DESCRIBE]:
        views: EngineViews = request.app.state.engine_views
        run = _add_description(run, await views.describe(run))
    return entity_response(run, transitions)


@routes.get("/{id}/effective", permission=Permission.READ, response=EffectiveResponse)
async def get_effective(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
    """Get the effective spec of a run and who set each value, as resolved when it was submitted.

    What the cluster adds to blanks is that of now, with `cluster` as its owner.
    """
    core = get_context(request).core
    run, _ = await get_run(core, project, id)
    effective = await compute(run.find_effective, over=run.effective)
    additions = await list_place_defaults(core, project, effective)

    def make() -> Json:
        return {
            "run": run.id,
            "effective": None if effective is None else effective.to_dict(),
            "provenance": [*run.list_provenance(), *additions],
            "warnings": list(run.warnings),
            "request": run.request,
            "request_hash": run.request_hash,
            "profile_revision": run.profile_revision,
            "policy_revision": run.policy_revision,
        }

    return made_response(make, over=(run.effective, run.provenance, run.request, run.warnings))


@routes.put("/{id}", permission=Permission.REPORT, body=EntityBody, response=EntityResponse)
async def report(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
    """Report results and metadata; for a run that its client executes, also state and spec.

    A state that is older than the stored one is ignored.
    """
    revision, document = read_expected_revision(request), await read_body(request)
    core, who = get_context(request).core, get_principal(request)
    return await _run_response(request, await report_run(core, who, project, id, document, expected_revision=revision))


@routes.delete("/{id}", permission=Permission.WRITE, parameters=(CASCADE,), response=EntityResponse)
async def delete(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
    """Delete a run and everything it created."""
    core, who, revision = get_context(request).core, get_principal(request), read_expected_revision(request)
    return entity_response(await delete_run(core, who, project, id, expected_revision=revision))


@routes.post("/{id}/stop", permission=Permission.WRITE, parameters=(REASON,), response=EntityResponse)
async def stop(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
    """Stop a run, from any state that is not final."""
    words, core, who = get_parameters(request)[REASON], get_context(request).core, get_principal(request)
    return await _run_response(request, await stop_run(core, who, project, id, words=words))


@routes.post("/{id}/resume", permission=Permission.WRITE, parameters=(REASON,), response=EntityResponse)
async def resume(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
    """Resume a stopped service."""
    words, core, who = get_parameters(request)[REASON], get_context(request).core, get_principal(request)
    return await _run_response(request, await resume_run(core, who, project, id, words=words))


async def _explain(request: Request, project: str, *, is_new_project: bool = False) -> Response:
    is_strict, core = get_parameters(request)[STRICT], get_context(request).core
    who, document = get_principal(request), await read_body(request)
    found = await explain_run(core, who, project, document, is_strict=is_strict, is_new_project=is_new_project)
    return json_response(
        {
            "effective": found.effective,
            "provenance": list(found.provenance),
            "warnings": list(found.warnings),
            "refusals": list(found.refusals),
            "profile_revision": found.profile_revision,
            "policy_revision": found.policy_revision,
        }
    )


async def _render(request: Request, project: str, *, is_new_project: bool = False) -> Response:
    is_strict, core = get_parameters(request)[STRICT], get_context(request).core
    who, document = get_principal(request), await read_body(request)
    found = await render_planned_run(core, who, project, document, is_strict=is_strict, is_new_project=is_new_project)
    return json_response(
        {
            "objects": list(found.objects),
            "warnings": list(found.warnings),
            "profile_revision": found.profile_revision,
            "policy_revision": found.policy_revision,
        }
    )


async def _run_response(request: Request, run: Run) -> Response:
    """The run with its newest transitions."""
    async with get_context(request).core.store.begin(is_read_only=True) as unit:
        return entity_response(run, await list_newest_transitions(unit, run))


def _add_description(run: Run, described: Described) -> Run:
    """The run as it is shown, with what the engine says; nothing of it is stored."""
    if described.error is not None:
        error = {"reason": described.error.code, "message": str(described.error)}
        return replace(run, status={**run.status, "k8s_error": error})
    return run if described.objects is None else replace(run, status={**run.status, "k8s": described.objects})
