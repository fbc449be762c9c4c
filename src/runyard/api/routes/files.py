"""`…/files/content`: the bytes of files of artifacts, data items and models, stored by this server."""

from collections.abc import AsyncIterator, Iterator

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.content_headers import (
    BINARY,
    is_unchanged,
    make_headers,
    read_condition,
    read_content_type,
    read_digest,
    read_length,
    read_range,
)
from runyard.api.context import get_context
from runyard.api.openapi_models import ErrorResponse, FileResponse
from runyard.api.responses import json_response
from runyard.api.routing import Routes, get_principal
from runyard.api.streams import LimitedStreamingResponse, StreamGuard
from runyard.api.throttle import get_throttle, throttle_key
from runyard.api.transfers import check_transfer, iter_upload
from runyard.app.entities import TYPES
from runyard.app.files import (
    AnyFile,
    FileUpload,
    delete_file,
    file_to_json,
    find_only_file,
    get_file,
    read_file,
    read_file_path,
    upload_file,
)
from runyard.app.model import TYPES_WITH_BYTES
from runyard.domain.access import Permission

_BODY = {"required": True, "content": {BINARY: {"schema": {"type": "string", "format": "binary"}}}}
_CONTENT = {"*/*": {"schema": {"type": "string", "format": "binary"}}}
_ERRORS = {
    410: {"description": "The bytes are lost; upload the file again.", "content": {"application/json": ErrorResponse}},
    501: {"description": "This server stores no files.", "content": {"application/json": ErrorResponse}},
}
_UPLOAD = {
    **_ERRORS,
    411: {"description": "The size is not stated in `Content-Length`.", "content": {"application/json": ErrorResponse}},
    412: {
        "description": "`If-Match` or `If-None-Match` does not hold.",
        "content": {"application/json": ErrorResponse},
    },
    507: {"description": "The file storage is full.", "content": {"application/json": ErrorResponse}},
}
_DOWNLOAD = {
    **_ERRORS,
    200: {"description": "The bytes. `ETag` is their SHA-256 digest in quotes.", "content": _CONTENT},
    206: {"description": "The bytes of `Range`.", "content": _CONTENT},
    304: {"description": "`If-None-Match` names the stored bytes."},
    416: {"description": "`Range` is behind the end.", "content": {"application/json": ErrorResponse}},
}


def _add_routes(routes: Routes, type_name: str) -> None:
    root = "/{id}/files/content"
    path_of_file = f"{root}/{{path:path}}"

    @routes.put(
        path_of_file,
        permission=Permission.PRODUCE,
        body=_BODY,
        response=FileResponse,
        responses=_UPLOAD,
        is_streamed=True,
        name=f"put_{type_name}_file",
    )
    async def put(request: Request, project: str, id: str, path: str) -> Response:  # noqa: A002 - the name in the path
        """Upload a file; the body is its bytes. Nothing is visible before the last byte is stored.

        `Content-Digest: sha-256=:BASE64:` has the bytes checked. `If-None-Match: *` creates only, `If-Match` replaces
        only the file with that ETag. Repeating an upload of the same bytes changes nothing.
        """
        core, who = get_context(request).core, get_principal(request)
        size = read_length(request)
        with get_throttle(request).hold_stream(throttle_key(request, who)):
            upload = FileUpload(
                path=read_file_path(path),
                size=size,
                content_type=read_content_type(request, path),
                sha256=read_digest(request),
                condition=read_condition(request),
            )
            chunks = iter_upload(request, project=project, size=size)
            file = await upload_file(core, who, type_name, project, id, upload, chunks)
        return json_response(file_to_json(file), headers={"ETag": file.tag})

    @routes.get(path_of_file, permission=Permission.READ, responses=_DOWNLOAD, name=f"get_{type_name}_file")
    async def get(request: Request, project: str, id: str, path: str) -> Response:  # noqa: A002 - the name in the path
        """Download a file, or the bytes of `Range`. `If-None-Match` with its ETag is answered by 304."""
        core = get_context(request).core
        return _respond(request, project, await get_file(core, type_name, project, id, read_file_path(path)))

    @routes.get(root, permission=Permission.READ, responses=_DOWNLOAD, name=f"get_{type_name}_only_file")
    async def get_only(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
        """Download the file of an entity that has a single one. It is the `spec.path` of entities created without."""
        core = get_context(request).core
        return _respond(request, project, await find_only_file(core, type_name, project, id))

    @routes.delete(path_of_file, permission=Permission.PRODUCE, responses=_ERRORS, name=f"delete_{type_name}_file")
    async def delete(request: Request, project: str, id: str, path: str) -> Response:  # noqa: A002 - the name in the path
        """Delete a file and its bytes."""
        core, who = get_context(request).core, get_principal(request)
        await delete_file(core, who, type_name, project, id, read_file_path(path))
        return json_response({})


def _respond(request: Request, project: str, file: AnyFile) -> Response:
    headers = make_headers(file)
    if is_unchanged(request, file):
        return Response(status_code=304, headers=headers)
    core, part = get_context(request).core, read_range(request, file)
    start, size = (0, file.size) if part is None else (part.start, part.size)
    if part is not None:
        headers["Content-Range"] = f"bytes {part.start}-{part.last}/{file.size}"
    chunks = _iter_download(
        read_file(core, file, start=start, size=size), StreamGuard(request, project=project, permission=Permission.READ)
    )
    return LimitedStreamingResponse(
        chunks,
        request=request,
        who=get_principal(request),
        media_type=file.content_type,
        headers=headers,
        status=200 if part is None else 206,
        length=size,
    )


async def _iter_download(chunks: AsyncIterator[bytes], guard: StreamGuard) -> AsyncIterator[bytes]:
    """The bytes. Raises `Forbidden` if the access is lost meanwhile: the connection is closed before the end."""
    async for chunk in chunks:
        yield chunk
        await check_transfer(guard)


def make_file_routes() -> Iterator[Routes]:
    """The routes of every type whose files the server stores."""
    for name in TYPES_WITH_BYTES:
        plural = TYPES[name].plural
        routes = Routes(f"/api/v1/-/{{project}}/{plural}", tag=plural)
        _add_routes(routes, name)
        yield routes
