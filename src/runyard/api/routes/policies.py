"""`/api/v1/policy`: the policy, its revisions, and rehearsals of other rules."""

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_context
from runyard.api.if_match import read_expected_revision
from runyard.api.openapi_models import (
    AnyBody,
    PolicyResponse,
    RehearsalBody,
    RehearsalResponse,
    RevisionList,
    RevisionResponse,
)
from runyard.api.query_parameters import STRICT, get_parameters
from runyard.api.request_bodies import read_body
from runyard.api.responses import json_response
from runyard.api.routes.profiles import read_revision_number, revision_to_json
from runyard.api.routing import Routes, get_principal
from runyard.app.identity import list_visible_projects
from runyard.app.model import Json
from runyard.app.rules import StoredPolicy, delete_policy, get_policy, get_revision, list_revisions, put_policy
from runyard.app.runs import rehearse_candidate
from runyard.domain.access import Permission
from runyard.spec import denials
from runyard.spec.policy import BUILT_IN

routes = Routes("/api/v1/policy", tag="policy")


@routes.get("", permission=Permission.SIGNED_IN, response=PolicyResponse, name="get_policy")
async def get(request: Request) -> Response:
    """Get the current policy: the admin's rules, and the built-in ones beneath them.

    Of the rules for single projects you get those of projects that you are a member of; admins get all.
    """
    core = get_context(request).core
    async with core.store.begin(is_read_only=True) as unit:
        visible = await list_visible_projects(unit, get_principal(request))
    return _policy_response(await get_policy(core, visible_projects=visible))


@routes.put(
    "",
    permission=Permission.ADMINISTER,
    body=AnyBody,
    parameters=(STRICT,),
    response=PolicyResponse,
    name="put_policy",
)
async def put(request: Request) -> Response:
    """Replace the policy for future runs. `If-Match` names the revision it replaces; `"0"` means that none exists.

    Rules without effect, and profiles that the policy contradicts, are reported in `warnings`, and refused with
    `strict`.
    """
    is_strict = get_parameters(request)[STRICT]
    revision, document = read_expected_revision(request), await read_body(request)
    core, who = get_context(request).core, get_principal(request)
    return _policy_response(await put_policy(core, who, document, expected_revision=revision, is_strict=is_strict))


@routes.delete("", permission=Permission.ADMINISTER, name="delete_policy")
async def delete(request: Request) -> Response:
    """Delete the policy: only the built-in rules remain. Its revisions are kept."""
    core, who = get_context(request).core, get_principal(request)
    await delete_policy(core, who, expected_revision=read_expected_revision(request))
    return json_response({})


@routes.get("/revisions", permission=Permission.ADMINISTER, response=RevisionList, name="list_policy_revisions")
async def list_history(request: Request) -> Response:
    """List the revisions of the policy, newest first, deletions included."""
    return json_response([revision_to_json(one) for one in await list_revisions(get_context(request).core, "policy")])


@routes.get(
    "/revisions/{revision}",
    permission=Permission.ADMINISTER,
    response=RevisionResponse,
    name="get_policy_revision",
)
async def get_one(request: Request, revision: str) -> Response:
    """Get one revision of the policy."""
    number = read_revision_number(revision)
    return json_response(revision_to_json(await get_revision(get_context(request).core, "policy", number)))


@routes.post(
    "/rehearse",
    permission=Permission.ADMINISTER,
    body=RehearsalBody,
    response=RehearsalResponse,
    name="rehearse_policy",
)
async def rehearse(request: Request) -> Response:
    """Rehearse another policy or other profiles against the runs of a time range. Stores only an audit entry."""
    outcome = await rehearse_candidate(get_context(request).core, get_principal(request), await read_body(request))
    return json_response(outcome.to_dict())


def _policy_response(kept: StoredPolicy) -> Response:
    number = 0 if kept.revision is None else kept.revision.revision
    held = {"revision": number, "is_deleted": True} if kept.revision is None else revision_to_json(kept.revision)
    content = {
        "is_built_in": kept.revision is None or kept.revision.document is None,
        "document": {},
        **held,
        "built_in": _describe_built_in(),
        "warnings": [problem.to_dict() for problem in kept.warnings],
    }
    return json_response(content, headers={"ETag": f'"{number}"'})


def _describe_built_in() -> Json:
    """The defaults without a policy, and what is denied unless a policy allows it."""
    platform = BUILT_IN.platform
    return {
        **{name: {"default": str(rule.default)} for name, rule in BUILT_IN.rules.items()},
        "platform": {
            "pod_security": platform.pod_security,
            "mem_tolerance": str(platform.mem_tolerance),
            "gpu_resources": list(platform.gpu_resources or ()),
            "disk_medium": platform.disk_medium,
            "image_pull_secrets": list(platform.image_pull_secrets or ()),
            "python_images": dict(platform.python_images or {}),
        },
        "denied": {
            "tolerations": list(denials.RESERVED_TAINTS),
            "priority_class": list(denials.PRIORITY_CLASSES),
            "service_type": list(denials.SERVICE_TYPES),
            "envs": list(denials.ENVS),
        },
    }
