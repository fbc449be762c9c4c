"""`/api/v1/policy`: the rules that hold for runs, their history, and what other rules would have done."""

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
from runyard.app.model import Json
from runyard.app.rules import StoredPolicy, delete_policy, get_policy, get_revision, list_revisions, put_policy
from runyard.app.runs import rehearse_candidate
from runyard.domain.access import Permission
from runyard.spec import denials
from runyard.spec.policy import BUILT_IN

routes = Routes("/api/v1/policy", tag="policy")


@routes.get("", permission=Permission.SIGNED_IN, response=PolicyResponse, name="get_policy")
async def get(request: Request) -> Response:
    """The rules that hold now: the admin's, and under them the built-in ones."""
    return _policy_response(await get_policy(get_context(request).core))


@routes.put(
    "",
    permission=Permission.ADMINISTER,
    body=AnyBody,
    parameters=(STRICT,),
    response=PolicyResponse,
    name="put_policy",
)
async def put(request: Request) -> Response:
    """Replace it, for runs to come. `If-Match` names the revision it replaces, `"0"` that there is none.

    What does nothing, and which profiles it stands against, is told in `warnings`, and refused with `strict`.
    """
    is_strict = get_parameters(request)[STRICT]
    revision, document = read_expected_revision(request), await read_body(request)
    core, who = get_context(request).core, get_principal(request)
    return _policy_response(await put_policy(core, who, document, expected_revision=revision, is_strict=is_strict))


@routes.delete("", permission=Permission.ADMINISTER, name="delete_policy")
async def delete(request: Request) -> Response:
    """Back to the built-in rules alone; the revisions stay."""
    core, who = get_context(request).core, get_principal(request)
    await delete_policy(core, who, expected_revision=read_expected_revision(request))
    return json_response({})


@routes.get("/revisions", permission=Permission.ADMINISTER, response=RevisionList, name="list_policy_revisions")
async def list_history(request: Request) -> Response:
    """All that it ever was, newest first, its deletions too."""
    return json_response([revision_to_json(one) for one in await list_revisions(get_context(request).core, "policy")])


@routes.get(
    "/revisions/{revision}",
    permission=Permission.ADMINISTER,
    response=RevisionResponse,
    name="get_policy_revision",
)
async def get_one(request: Request, revision: str) -> Response:
    """What it was at one revision."""
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
    """Play the runs of a time span against another policy or other profiles. Nothing but an audit entry is stored."""
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
    """What holds where no admin says anything, and what nobody may ask unless a policy allows it."""
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
            "tolerations": list(denials.CONTROL_PLANE_TAINTS),
            "priority_class": list(denials.PRIORITY_CLASSES),
            "service_type": list(denials.SERVICE_TYPES),
            "envs": list(denials.ENVS),
        },
    }
