# Generated from ../aio/stored_files.py by `make sdk`: do not edit.
"""Artifacts, data items and models: their files are uploaded to the server's storage and downloaded from there."""

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from time import monotonic
from typing import Any, Literal
from uuid import uuid4

import httpx2

from runyard.sdk.calls import Call, Json, delete, get, post, put
from runyard.sdk.connections import is_permanent, make_connection_error
from runyard.sdk.documents import EntityView, Section
from runyard.sdk.errors import AlreadyExists, ArgumentError, RunyardError, TransferFailed
from runyard.sdk.html_tables import Listing
from runyard.sdk.local_files import (
    LocalFile,
    check_download,
    choose_target,
    list_local_files,
    make_etag,
    make_file_address,
    measure_files,
)
from runyard.sdk.local_files import call_directly as to_thread
from runyard.sdk.retry import Attempts, is_passing
from runyard.sdk.sync.file_uploads import upload_file
from runyard.sdk.sync.transport import Transport
from runyard.sdk.transfer_progress import OnProgress, TransferMeter

StoredType = Literal["artifact", "dataitem", "model"]
PARTIAL = ".part"
"""The end of the name of a download that is not complete; a later one continues it."""


class StoredEntity(EntityView):
    """An artifact, a data item or a model."""

    def __init__(self, document: Json, transport: Transport, *, type_name: StoredType) -> None:
        super().__init__(document)
        self._transport = transport
        self._type = type_name

    @property
    def state(self) -> str:
        """READY when all its files are uploaded."""
        return str(self.status.get("state", "CREATED"))

    def list_files(self) -> list[Section]:
        """Its files: `path`, `size`, `hash`, and `stored` if the server has the bytes."""
        return Listing(map(Section, self._transport.fetch(get(*self._path, "files", "info"))))

    def download(
        self,
        destination: str | PathLike[str] = ".",
        *,
        overwrite: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Path:
        """Download its files into a folder, checked by their digests. A download that broke off is continued.

        `on_progress` is told how far it is, possibly from another thread. Returns the file, if it is a single one,
        otherwise the folder. Raises `TransferFailed`.
        """
        folder = Path(destination)
        files = [info for info in self.list_files() if info.get("stored")]
        if not files:
            raise TransferFailed(
                f"{self._type} {self.name} has no files on the server; its path is {self.spec.get('path')}"
            )
        targets = [choose_target(folder, str(info["path"])) for info in files]
        for target in targets:
            if target.exists() and not overwrite:
                raise ArgumentError(f"{target} exists; use overwrite=True")
        total = sum(int(info.get("size") or 0) for info in files)
        meter = TransferMeter(on_progress, phase="downloading", total_bytes=total)
        for info, target in zip(files, targets, strict=True):
            self._download_file(info, target, meter)
        return targets[0] if len(targets) == 1 else folder

    def delete(self) -> None:
        """Delete it with its files."""
        self._transport.fetch(delete(*self._path))

    def upload(self, files: list[LocalFile], *, on_progress: OnProgress | None = None) -> None:
        """Upload files, and mark it READY; ERROR if one cannot be uploaded."""
        try:
            meter = TransferMeter(on_progress, phase="uploading", total_bytes=measure_files(files))
            for file in files:
                upload_file(self._transport, self._path, file, meter=meter)
        except RunyardError as error:
            self._set_state("ERROR", message=str(error)[:500])
            raise
        self._set_state("READY")

    def _download_file(self, info: Mapping[str, Any], target: Path, meter: TransferMeter) -> None:
        """Download one file; `is_passing` errors and broken connections are followed by another attempt."""
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + PARTIAL)
        size = int(info.get("size") or 0)
        call = Call(method="GET", path=make_file_address(self._path, str(info["path"])))
        etag = make_etag(str(info.get("hash", "")).removeprefix("sha256:"))
        attempts = Attempts(self._transport.follow_seconds, now=monotonic())
        meter.begin(str(info["path"]), phase="downloading")
        while True:
            start = part.stat().st_size if part.exists() else 0
            plain = {"Accept-Encoding": "identity"}
            ranged = {"Range": f"bytes={start}-", "If-Range": etag} if 0 < start < size else {}
            failure: RunyardError
            try:
                self._receive(replace(call, headers=plain | ranged), part, attempts, meter)
                break
            except httpx2.TransportError as error:
                failure = make_connection_error(error, self._transport.credentials.endpoint)
                pause = None if is_permanent(error) else attempts.find_pause(now=monotonic())
            except RunyardError as error:
                failure = error
                pause = attempts.find_pause(now=monotonic()) if is_passing(error) else None
            if pause is None:
                raise failure
            meter.report_problem(str(failure))
            self._transport.pause(pause)
        try:
            to_thread(check_download, part, info.get("hash"))
        except TransferFailed:
            part.unlink(missing_ok=True)
            raise
        part.replace(target)
        meter.end(size)

    def _receive(self, call: Call, part: Path, attempts: Attempts, meter: TransferMeter) -> None:
        """Append what comes to the partial file; a whole answer replaces it."""
        with self._transport.stream(call) as response:
            with part.open("ab" if response.status_code == 206 else "wb") as stream:
                meter.move_to(stream.tell())
                for chunk in response.iter_bytes():
                    attempts.reset(now=monotonic())
                    stream.write(chunk)
                    meter.add(len(chunk))

    def _set_state(self, state: str, *, message: str | None = None) -> None:
        status = {"state": state} if message is None else {"state": state, "message": message}
        body = {"kind": self.kind, "name": self.name, "id": self.id, "status": status}
        seconds = self._transport.follow_seconds
        self._document = self._transport.fetch(put(*self._path, body=body), retry_seconds=seconds)

    @property
    def _path(self) -> tuple[str, ...]:
        return ("-", self.project_name, f"{self._type}s", self.id)


def log_files(
    transport: Transport,
    project: str,
    type_name: StoredType,
    name: str,
    source: str | PathLike[str],
    *,
    kind: str | None = None,
    metadata: Json | None = None,
    spec: Json | None = None,
    on_progress: OnProgress | None = None,
) -> StoredEntity:
    """Create a version of an artifact, data item or model, and upload its files."""
    files = list_local_files(source)
    path = ("-", project, f"{type_name}s")
    body: Json = {
        "kind": kind or type_name,
        "name": name,
        "id": uuid4().hex,
        "project": project,
        "metadata": metadata or {},
        "spec": spec or {},
        "status": {"state": "UPLOADING"},
    }
    try:
        document = transport.fetch(post(*path, body=body, is_safe_to_repeat=True))
    except AlreadyExists:  # a request that was repeated had arrived
        document = transport.fetch(get(*path, str(body["id"])))
    entity = StoredEntity(document, transport, type_name=type_name)
    entity.upload(files, on_progress=on_progress)
    return entity
