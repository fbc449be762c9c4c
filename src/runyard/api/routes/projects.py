"""`/api/v1/projects`: projects and their shares."""

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_context
from runyard.api.if_match import read_expected_revision
from runyard.api.list_parameters import LIST, read_query
from runyard.api.openapi_models import EntityBody, EntityResponse, PageResponse
from runyard.api.query_parameters import CASCADE, USER, get_parameters, read_name, text
from runyard.api.request_bodies import read_body
from runyard.api.responses import entity_response, json_response, page_response
from runyard.api.routing import Routes, get_principal
from runyard.app.errors import Missing
from runyard.app.identity import delete_share, list_shares, list_visible_projects, put_share
from runyard.app.projects import create_project, delete_project, get_project, list_labels, list_projects, update_project
from runyard.domain.access import Permission
from runyard.spec.problem_codes import Code
from runyard.spec.readers import refuse

routes = Routes("/api/v1", tag="projects")
ROLE = text(
    "role",
    "Role of the user: owner, editor or viewer.",
    reader=read_name,
    schema={"enum": ["owner", "editor", "viewer"]},
)
SHARE_ID = text("id", "Id of the share.")
LABEL = text("label", "Only labels that contain this text.")


@routes.get("/projects", permission=Permission.SIGNED_IN, parameters=LIST, response=PageResponse)
async def list_all(request: Request) -> Response:
    """List the projects that you may see."""
    core, who = get_context(request).core, get_principal(request)
    query = read_query(request, "project", default_sort="name")
    async with core.store.begin(is_read_only=True) as unit:
        visible = await list_visible_projects(unit, who)
    owner = None if visible is None or who.run_id is not None else who.name
    page = await list_projects(core, replace(query, visible_projects=visible, visible_to=owner))
    return page_response(page, number=query.page, size=query.size)


@routes.post("/projects", permission=Permission.CREATE_PROJECT, body=EntityBody, response=EntityResponse)
async def create(request: Request) -> Response:
    """Create a project; you are its owner."""
    return entity_response(
        await create_project(get_context(request).core, get_principal(request), await read_body(request))
    )


@routes.get("/projects/{project}", permission=Permission.READ, response=EntityResponse, is_listing=True)
async def get(request: Request, project: str) -> Response:
    """Get a project and the newest entities in it.

    At most 1000 of each type are listed, and fewer if their metadata would exceed the size of a page. If a limit left
    something out, the header `X-Project-Bounded` says so; lists of the type have the others.
    """
    context = get_context(request)
    view = await get_project(context.core, project, most_bytes=context.limits.page_bytes)
    response = entity_response(view.entity, lists=view.lists)
    if view.bound is not None:
        response.headers["X-Project-Bounded"] = view.bound
    return response


@routes.put("/projects/{project}", permission=Permission.MANAGE, body=EntityBody, response=EntityResponse)
async def update(request: Request, project: str) -> Response:
    """Replace metadata and spec. `If-Match` names the expected revision."""
    revision, document = read_expected_revision(request), await read_body(request)
    core, who = get_context(request).core, get_principal(request)
    return entity_response(await update_project(core, who, project, document, expected_revision=revision))


@routes.delete("/projects/{project}", permission=Permission.MANAGE, parameters=(CASCADE,))
async def delete(request: Request, project: str) -> Response:
    """Delete a project; a project that is not empty only with `cascade`. `If-Match` names the expected revision."""
    is_cascading = get_parameters(request)[CASCADE]
    core, who, revision = get_context(request).core, get_principal(request), read_expected_revision(request)
    await delete_project(core, who, project, is_cascading=is_cascading, expected_revision=revision)
    return json_response({})


@routes.get("/projects/{project}/share", permission=Permission.READ, response=list[dict[str, str]])
async def get_shares(request: Request, project: str) -> Response:
    """List the shares of a project. Its creator is not among them."""
    shares = await list_shares(get_context(request).core, project)
    return json_response([{"id": share.id, "user": share.user, "role": share.role} for share in shares])


@routes.post(
    "/projects/{project}/share", permission=Permission.MANAGE, parameters=(USER, ROLE), response=dict[str, str]
)
async def share(request: Request, project: str) -> Response:
    """Share a project with a user, or with everyone (`*`). The default role is editor."""
    parameters = get_parameters(request)
    user, role = parameters[USER], parameters[ROLE]
    if user is None:
        raise refuse(Code.PARAMETER_MISSING, "`user` is missing", path=("query", "user"))
    made = await put_share(get_context(request).core, get_principal(request), project, user=user, role=role or "editor")
    return json_response({"id": made.id, "user": made.user, "role": made.role})


@routes.delete("/projects/{project}/share", permission=Permission.MANAGE, parameters=(SHARE_ID, USER))
async def unshare(request: Request, project: str) -> Response:
    """Remove a share, by its id or by the name of the user."""
    parameters = get_parameters(request)
    share_id, user = parameters[SHARE_ID], parameters[USER]
    core = get_context(request).core
    if share_id is None:
        known = await list_shares(core, project)
        share_id = next((one.id for one in known if one.user == user), None)
        if share_id is None:
            raise Missing("share", user or "without an id")
    await delete_share(core, get_principal(request), project, share_id)
    return json_response({})


@routes.get("/-/{project}/labels", permission=Permission.READ, parameters=(LABEL,), response=list[str])
async def get_labels(request: Request, project: str) -> Response:
    """List the labels in use in a project."""
    return json_response(await list_labels(get_context(request).core, project, get_parameters(request)[LABEL]))
