"""`…/files/uploads`: a file in several requests, which goes on after a lost connection or a restart of the server."""

import re
from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.content_headers import (
    BINARY,
    guess_media_type,
    read_condition,
    read_length,
    read_media_type,
    read_offset,
)
from runyard.api.context import get_context
from runyard.api.openapi_models import ErrorResponse, FileResponse, UploadCompletion, UploadRequest, UploadResponse
from runyard.api.request_bodies import read_body
from runyard.api.responses import json_response
from runyard.api.routing import Routes, get_principal
from runyard.api.throttle import get_throttle, throttle_key
from runyard.api.transfers import iter_upload
from runyard.app.entities import TYPES
from runyard.app.files import (
    FileUpload,
    UploadPlace,
    append_to_upload,
    begin_upload,
    complete_upload,
    delete_upload,
    file_to_json,
    get_upload,
    list_uploads,
    read_file_path,
    upload_to_json,
)
from runyard.app.model import TYPES_WITH_BYTES, ResumableUpload
from runyard.domain.access import Permission
from runyard.spec.problem_codes import Code
from runyard.spec.readers import Findings, expect_integer, expect_keys, expect_mapping, expect_text, refuse

LARGEST_SIZE = 10**18
_SHA256 = re.compile("[0-9a-fA-F]{64}", re.ASCII)
_BODY = {"required": True, "content": {BINARY: {"schema": {"type": "string", "format": "binary"}}}}
_ERROR = {"content": {"application/json": ErrorResponse}}
_ERRORS = {501: {"description": "This server stores no files.", **_ERROR}}
_CONFLICT = {
    **_ERRORS,
    409: {
        "description": "`upload.offset`: other bytes are stored, as many as `Upload-Offset` says. "
        "`upload.busy`: another request writes; repeat after `Retry-After` seconds.",
        **_ERROR,
    },
    507: {"description": "The file storage is full.", **_ERROR},
}
_BEGIN = {
    **_ERRORS,
    201: {"description": "Begun.", "content": {"application/json": UploadResponse}},
    412: {"description": "`If-Match` or `If-None-Match` does not hold.", **_ERROR},
}
_APPEND = {**_CONFLICT, 411: {"description": "The size is not stated in `Content-Length`.", **_ERROR}}
_COMPLETE = {**_CONFLICT, 412: {"description": "The condition does not hold anymore.", **_ERROR}}


def _add_collection(routes: Routes, type_name: str) -> None:
    root = "/{id}/files/uploads"

    @routes.post(
        root, permission=Permission.PRODUCE, body=UploadRequest, responses=_BEGIN, name=f"begin_{type_name}_upload"
    )
    async def begin(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
        """Begin an upload of several requests: reserves room for the file.

        `If-None-Match: *` creates only, `If-Match` replaces only the file with that ETag; checked now and at the end.
        """
        core, who = get_context(request).core, get_principal(request)
        upload = _read_upload(request, await read_body(request))
        begun = await begin_upload(core, who, type_name, project, id, upload)
        address = f"{request.url.path}/{begun.blob}"
        return _respond(begun, 0, status=201, headers={"Location": address})

    @routes.get(
        root,
        permission=Permission.READ,
        response=list[dict[str, object]],
        responses=_ERRORS,
        name=f"list_{type_name}_uploads",
    )
    async def list_all(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
        """List the unfinished uploads of this entity."""
        found = await list_uploads(get_context(request).core, type_name, project, id)
        return json_response([upload_to_json(upload, offset) for upload, offset in found])


def _add_upload(routes: Routes, type_name: str) -> None:
    path = "/{id}/files/uploads/{upload}"

    @routes.get(
        path, permission=Permission.READ, response=UploadResponse, responses=_ERRORS, name=f"get_{type_name}_upload"
    )
    async def get(request: Request, project: str, id: str, upload: str) -> Response:  # noqa: A002
        """Say how many bytes are stored: `offset`, and the header `Upload-Offset`."""
        place = UploadPlace(type=type_name, project=project, id=id, upload=upload)
        return _respond(*await get_upload(get_context(request).core, place))

    @routes.patch(
        path,
        permission=Permission.PRODUCE,
        body=_BODY,
        response=UploadResponse,
        responses=_APPEND,
        is_streamed=True,
        name=f"append_to_{type_name}_upload",
    )
    async def append(request: Request, project: str, id: str, upload: str) -> Response:  # noqa: A002
        """Append bytes; `Upload-Offset` says behind how many. If the connection is lost, what came is kept."""
        core, who = get_context(request).core, get_principal(request)
        place = UploadPlace(type=type_name, project=project, id=id, upload=upload)
        offset, size = read_offset(request), read_length(request)
        with get_throttle(request).hold_stream(throttle_key(request, who)):
            chunks = iter_upload(request, project=project, size=size)
            found, stored = await append_to_upload(core, who, place, chunks, offset=offset, size=size)
        return _respond(found, stored)

    @routes.post(
        f"{path}/complete",
        permission=Permission.PRODUCE,
        body=UploadCompletion,
        response=FileResponse,
        responses=_COMPLETE,
        name=f"complete_{type_name}_upload",
    )
    async def complete(request: Request, project: str, id: str, upload: str) -> Response:  # noqa: A002
        """Make the file visible, if its bytes have the SHA-256 digest. Other bytes are deleted."""
        core, who = get_context(request).core, get_principal(request)
        place = UploadPlace(type=type_name, project=project, id=id, upload=upload)
        given = expect_mapping(await read_body(request), of="fields")
        _check_fields(given, ("sha256",))
        file = await complete_upload(core, who, place, sha256=_read_sha256(given.get("sha256")))
        return json_response(file_to_json(file), headers={"ETag": file.tag})

    @routes.delete(path, permission=Permission.PRODUCE, responses=_CONFLICT, name=f"delete_{type_name}_upload")
    async def delete(request: Request, project: str, id: str, upload: str) -> Response:  # noqa: A002
        """Give up an upload; its bytes are deleted."""
        core, who = get_context(request).core, get_principal(request)
        await delete_upload(core, who, UploadPlace(type=type_name, project=project, id=id, upload=upload))
        return json_response({})


def _read_upload(request: Request, given: Any) -> FileUpload:
    fields = expect_mapping(given, of="fields")
    _check_fields(fields, ("path", "size", "sha256", "content_type"))
    for name in ("path", "size"):
        if name not in fields:
            raise refuse(Code.FIELD_MISSING, f"`{name}` is required", path=(name,))
    findings = Findings()
    path = findings.read(lambda text: read_file_path(expect_text(text, what="the path")), fields["path"])
    size = findings.read(_read_size, fields["size"], "size")
    sha256 = findings.read(_read_sha256, fields.get("sha256"))
    findings.finish()
    assert path is not None and size is not None  # noqa: S101, PT018 - read without a finding
    media_type = fields.get("content_type")
    return FileUpload(
        path=path,
        size=size,
        content_type=guess_media_type(path) if media_type is None else _read_media_type(media_type),
        sha256=sha256,
        condition=read_condition(request),
    )


def _read_size(given: Any) -> int:
    return expect_integer(given, what="the size", at_least=0, at_most=LARGEST_SIZE)


def _read_media_type(given: Any) -> str:
    return read_media_type(expect_text(given, what="the media type").strip(), path=("content_type",))


def _read_sha256(given: Any) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str) or not _SHA256.fullmatch(given):
        allowed = "64 hexadecimal digits"
        raise refuse(Code.HEADER_DIGEST, "not a SHA-256 digest", path=("sha256",), value=given, allowed=allowed)
    return given.lower()


def _check_fields(given: Any, known: tuple[str, ...]) -> None:
    findings = Findings()
    expect_keys(given, known, findings)
    findings.finish()


def _respond(
    upload: ResumableUpload, offset: int, *, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """The upload, with what HEAD needs in headers."""
    shown = {"Upload-Offset": str(offset), "Upload-Length": str(upload.size), "Cache-Control": "no-store"}
    return json_response(upload_to_json(upload, offset), status=status, headers={**shown, **(headers or {})})


def make_upload_routes() -> Iterator[Routes]:
    """The routes of every type whose files the server stores."""
    for name in TYPES_WITH_BYTES:
        plural = TYPES[name].plural
        routes = Routes(f"/api/v1/-/{{project}}/{plural}", tag=plural)
        _add_collection(routes, name)
        _add_upload(routes, name)
        yield routes
