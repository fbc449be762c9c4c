"""Artifacts, data items and models: their files are uploaded to the server's storage and downloaded from there."""

from asyncio import to_thread
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from time import monotonic
from typing import Any, Literal
from urllib.parse import quote
from uuid import uuid4

import httpx2

from runyard.sdk.aio.transport import AsyncTransport
from runyard.sdk.calls import Call, Json, delete, get, make_path, post, put
from runyard.sdk.connections import is_permanent, make_connection_error
from runyard.sdk.documents import EntityView, Section
from runyard.sdk.errors import ArgumentError, RunyardError, TransferFailed
from runyard.sdk.local_files import (
    LocalFile,
    check_download,
    choose_target,
    hash_file,
    list_local_files,
    make_upload_headers,
)
from runyard.sdk.retry import Attempts

StoredType = Literal["artifact", "dataitem", "model"]
PARTIAL = ".part"
"""The end of the name of a download that is not complete; a later one continues it."""


class AsyncStoredEntity(EntityView):
    """An artifact, a data item or a model."""

    def __init__(self, document: Json, transport: AsyncTransport, *, type_name: StoredType) -> None:
        super().__init__(document)
        self._transport = transport
        self._type = type_name

    @property
    def state(self) -> str:
        """READY when all its files are uploaded."""
        return str(self.status.get("state", "CREATED"))

    async def list_files(self) -> list[Section]:
        """Its files: `path`, `size`, `hash`, and `stored` if the server has the bytes."""
        return [Section(info) for info in await self._transport.fetch(get(*self._path, "files", "info"))]

    async def download(self, destination: str | PathLike[str] = ".", *, overwrite: bool = False) -> Path:
        """Download its files into a folder, checked by their digests. A download that broke off is continued.

        Returns the file, if it is a single one, otherwise the folder. Raises `TransferFailed`.
        """
        folder = Path(destination)
        files = [info for info in await self.list_files() if info.get("stored")]
        if not files:
            raise TransferFailed(
                f"{self._type} {self.name} has no files on the server; its path is {self.spec.get('path')}"
            )
        targets = [choose_target(folder, str(info["path"])) for info in files]
        for target in targets:
            if target.exists() and not overwrite:
                raise ArgumentError(f"{target} exists; use overwrite=True")
        for info, target in zip(files, targets, strict=True):
            await self._download_file(info, target)
        return targets[0] if len(targets) == 1 else folder

    async def delete(self) -> None:
        """Delete it with its files."""
        await self._transport.fetch(delete(*self._path))

    async def upload(self, files: list[LocalFile]) -> None:
        """Upload files, and mark it READY; ERROR if one cannot be uploaded."""
        try:
            for file in files:
                await self._upload_file(file)
        except RunyardError as error:
            await self._set_state("ERROR", message=str(error)[:500])
            raise
        await self._set_state("READY")

    async def _upload_file(self, file: LocalFile) -> None:
        """Upload one file; the server checks its digest, and nothing is visible before the last byte."""
        size, digest = await to_thread(hash_file, file.source)
        headers = make_upload_headers(size, digest)
        await self._transport.fetch(
            Call(method="PUT", path=self._make_address(file.path), file=file.source, headers=headers)
        )

    async def _download_file(self, info: Mapping[str, Any], target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + PARTIAL)
        call = Call(method="GET", path=self._make_address(str(info["path"])))
        etag = f'"{str(info.get("hash", "")).removeprefix("sha256:")}"'
        attempts = Attempts(self._transport.follow_seconds, now=monotonic())
        while True:
            start = part.stat().st_size if part.exists() else 0
            plain = {"Accept-Encoding": "identity"}
            ranged = {"Range": f"bytes={start}-", "If-Range": etag} if 0 < start < int(info.get("size") or 0) else {}
            try:
                await self._receive(replace(call, headers=plain | ranged), part, attempts)
                break
            except httpx2.TransportError as error:
                failure = make_connection_error(error, self._transport.credentials.endpoint)
                pause = None if is_permanent(error) else attempts.find_pause(now=monotonic())
                if pause is None:
                    raise failure from error
                await self._transport.pause(pause)
        try:
            await to_thread(check_download, part, info.get("hash"))
        except TransferFailed:
            part.unlink(missing_ok=True)
            raise
        part.replace(target)

    async def _receive(self, call: Call, part: Path, attempts: Attempts) -> None:
        """Append what comes to the partial file; a whole answer replaces it."""
        async with self._transport.stream(call) as response:
            mode = "ab" if response.status_code == 206 else "wb"
            with part.open(mode) as stream:
                async for chunk in response.aiter_bytes():
                    attempts.reset(now=monotonic())
                    stream.write(chunk)

    async def _set_state(self, state: str, *, message: str | None = None) -> None:
        status = {"state": state} if message is None else {"state": state, "message": message}
        body = {"kind": self.kind, "name": self.name, "id": self.id, "status": status}
        self._document = await self._transport.fetch(put(*self._path, body=body))

    def _make_address(self, path: str) -> str:
        return f"{make_path(*self._path)}/files/content/{quote(path, safe='/')}"

    @property
    def _path(self) -> tuple[str, ...]:
        return ("-", self.project_name, f"{self._type}s", self.id)


async def log_files(
    transport: AsyncTransport,
    project: str,
    type_name: StoredType,
    name: str,
    source: str | PathLike[str],
    *,
    kind: str | None = None,
    metadata: Json | None = None,
    spec: Json | None = None,
) -> AsyncStoredEntity:
    """Create a version of an artifact, data item or model, and upload its files."""
    files = list_local_files(source)
    body = {
        "kind": kind or type_name,
        "name": name,
        "id": uuid4().hex,
        "project": project,
        "metadata": metadata or {},
        "spec": spec or {},
        "status": {"state": "UPLOADING"},
    }
    document = await transport.fetch(post("-", project, f"{type_name}s", body=body))
    entity = AsyncStoredEntity(document, transport, type_name=type_name)
    await entity.upload(files)
    return entity
