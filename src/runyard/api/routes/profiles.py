"""`/api/v1/profiles`: profiles and their revisions."""

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_context
from runyard.api.if_match import read_expected_revision
from runyard.api.openapi_models import AnyBody, ProfileList, ProfileResponse, RevisionList, RevisionResponse
from runyard.api.query_parameters import STRICT, get_parameters
from runyard.api.request_bodies import read_body
from runyard.api.responses import format_time, json_response, made_response
from runyard.api.routing import Routes, get_principal
from runyard.app.model import Json, Revision
from runyard.app.rules import (
    StoredProfile,
    delete_profile,
    get_profile,
    get_revision,
    list_profiles,
    list_revisions,
    put_profile,
)
from runyard.domain.access import Permission
from runyard.domain.effective_spec import to_plain
from runyard.spec.readers import expect_integer
from runyard.spec.run_fields import AdminFields

routes = Routes("/api/v1/profiles", tag="profiles")
MOST_NUMBER = 2**53


@routes.get("", permission=Permission.SIGNED_IN, response=ProfileList, name="list_profiles")
async def list_all(request: Request) -> Response:
    """List the profiles that a run may use, by name."""
    kept = await list_profiles(get_context(request).core)
    return made_response(lambda: [profile_to_json(one) for one in kept], over=[one.revision.document for one in kept])


@routes.get("/{name}", permission=Permission.SIGNED_IN, response=ProfileResponse, name="get_profile")
async def get(request: Request, name: str) -> Response:
    """Get a profile; `warnings` says what the current policy contradicts."""
    return _profile_response(await get_profile(get_context(request).core, name))


@routes.put(
    "/{name}",
    permission=Permission.ADMINISTER,
    body=AnyBody,
    parameters=(STRICT,),
    response=ProfileResponse,
    name="put_profile",
)
async def put(request: Request, name: str) -> Response:
    """Create or replace a profile. `If-Match` names the revision it replaces; `"0"` means that none exists.

    The body is a profile, or `{documents: […]}` if DigitalHub's base objects come with it. Values that contradict the
    policy are reported in `warnings`, and refused with `strict`.
    """
    is_strict = get_parameters(request)[STRICT]
    revision, document = read_expected_revision(request), await read_body(request)
    core, who = get_context(request).core, get_principal(request)
    return _profile_response(
        await put_profile(core, who, name, document, expected_revision=revision, is_strict=is_strict)
    )


@routes.delete("/{name}", permission=Permission.ADMINISTER, name="delete_profile")
async def delete(request: Request, name: str) -> Response:
    """Delete a profile for new runs. Its revisions are kept; runs that use it are not affected."""
    core, who = get_context(request).core, get_principal(request)
    await delete_profile(core, who, name, expected_revision=read_expected_revision(request))
    return json_response({})


@routes.get(
    "/{name}/revisions",
    permission=Permission.ADMINISTER,
    response=RevisionList,
    name="list_profile_revisions",
)
async def list_history(request: Request, name: str) -> Response:
    """List the revisions of a profile, newest first, deletions included."""
    return json_response(
        [revision_to_json(one) for one in await list_revisions(get_context(request).core, "profile", name)]
    )


@routes.get(
    "/{name}/revisions/{revision}",
    permission=Permission.ADMINISTER,
    response=RevisionResponse,
    name="get_profile_revision",
)
async def get_one(request: Request, name: str, revision: str) -> Response:
    """Get one revision of a profile."""
    number = read_revision_number(revision)
    return json_response(revision_to_json(await get_revision(get_context(request).core, "profile", number, name=name)))


def profile_to_json(kept: StoredProfile) -> Json:
    """The profile as written and as parsed."""
    profile = kept.profile
    return {
        "name": profile.id,
        "title": profile.name or profile.id,
        "description": profile.description or "",
        "fields": _fields_to_json(profile.fields),
        "base": {kind: _fields_to_json(fields) for kind, fields in profile.base.items()},
        **revision_to_json(kept.revision),
        "warnings": [problem.to_dict() for problem in kept.warnings],
    }


def revision_to_json(revision: Revision) -> Json:
    """A revision; a deletion has no document."""
    return {
        "revision": revision.revision,
        "user": revision.user,
        "time": format_time(revision.at),
        "is_deleted": revision.document is None,
        **({} if revision.document is None else {"document": revision.document}),
    }


def read_revision_number(given: str) -> int:
    """The number of a revision in a path; raises `Refused`."""
    return expect_integer(given, what="the revision", at_least=1, at_most=MOST_NUMBER)


def _fields_to_json(fields: AdminFields) -> Json:
    set_ = {name: getattr(fields, name) for name in type(fields).model_fields}
    return {name: to_plain(value) for name, value in set_.items() if value is not None}


def _profile_response(kept: StoredProfile) -> Response:
    return json_response(profile_to_json(kept), headers={"ETag": f'"{kept.revision.revision}"'})
