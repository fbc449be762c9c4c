# Generated from ../aio/file_uploads.py by `make sdk`: do not edit.
"""Uploads one file: a broken connection or a restart of the server costs only the bytes that were on their way."""

from dataclasses import dataclass, field
from time import monotonic

from runyard.sdk.calls import Call, FilePart, Json, get, make_path, post
from runyard.sdk.errors import ApiError, Conflict, NotFound, RunyardError, UnexpectedResponse
from runyard.sdk.local_files import LocalFile, hash_file, make_etag, make_file_address, make_upload_headers
from runyard.sdk.local_files import call_directly as to_thread
from runyard.sdk.retry import Attempts, is_passing
from runyard.sdk.sync.transport import Transport
from runyard.sdk.transfer_progress import TransferMeter
from runyard.spec.problem_codes import Code

MOST_WHOLE_BYTES = 8 << 20
"""A file up to this size is sent by one request, again from its beginning if need be."""
MOST_PART_BYTES = 64 << 20
"""What one request appends at most: a proxy that collects requests before it sends them holds as much."""
SLOWEST_DIGEST = 20 << 20
"""Bytes per second that a server reads for the digest when an upload went on after its restart."""


def upload_file(transport: Transport, entity: tuple[str, ...], file: LocalFile, *, meter: TransferMeter) -> None:
    """Upload a file, which is visible after its last byte, if the digest is right. Raises `RunyardError`.

    Goes on where it was when the server was away, for `follow_seconds` without progress.
    """
    meter.begin(file.path, phase="checking")
    size, digest = to_thread(hash_file, file.source, meter.add)
    meter.begin(file.path, phase="uploading")
    upload = FileUpload(transport=transport, entity=entity, file=file, size=size, digest=digest, meter=meter)
    attempts = Attempts(transport.follow_seconds, now=monotonic())
    while True:
        stored = upload.stored
        try:
            upload.go_on()
            break
        except RunyardError as error:
            if not _may_go_on(error):
                raise
            if upload.stored > stored:
                attempts.reset(now=monotonic())
            pause = attempts.find_pause(now=monotonic())
            if pause is None:
                raise
            meter.report_problem(str(error))
            transport.pause(pause)
    meter.end(size)


def _may_go_on(error: RunyardError) -> bool:
    """Whether another attempt may succeed. The server holds an upload for a while for a request that broke off."""
    return is_passing(error) or (isinstance(error, Conflict) and error.code in (Code.UPLOAD_BUSY, Code.UPLOAD_OFFSET))


@dataclass(slots=True, kw_only=True)
class FileUpload:
    """A file on its way, and what is known of it on the server."""

    transport: Transport
    entity: tuple[str, ...]
    file: LocalFile
    size: int
    digest: bytes
    meter: TransferMeter
    stored: int = field(default=0, init=False)
    """Bytes that the server has, as it said last."""
    _id: str | None = field(default=None, init=False)
    _is_whole: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._is_whole = self.size <= MOST_WHOLE_BYTES

    def go_on(self) -> None:
        """Send what the server does not have; returns when the file is visible. Idempotent."""
        if not self._is_whole:
            self._find_place()
        if self._is_whole:
            self._send_whole()
        elif self._id is not None:
            self._append_rest()
            self._complete(self._id)

    def _send_whole(self) -> None:
        self.meter.move_to(0)
        part = FilePart(path=self.file.source, size=self.size, on_sent=self.meter.move_to)
        headers = make_upload_headers(self.size, self.digest)
        self.transport.fetch(Call(method="PUT", path=self._address, file=part, headers=headers))

    def _find_place(self) -> None:
        """Find where to go on: begins an upload, unless one of the same file was begun. Sets `_id` and `stored`.

        Without an id afterwards, the file is either visible or must be sent by one request.
        """
        known = self._find_known()
        if known is None and self._id is not None and self._is_visible():
            self._id = None  # the answer to `complete` was lost
            self.stored = self.size
            return
        found = known or self._begin()
        if found is None:
            return
        self._id, self.stored = str(found["id"]), int(found["offset"])
        self.meter.move_to(self.stored)
        if known is not None:
            # The server may hold the upload for the request that broke off. It would refuse another one at once, but
            # its answer is read only after the whole body was sent: so ask without a body.
            self._append(0)

    def _find_known(self) -> Json | None:
        """The upload of this file that was begun, by this attempt or by one whose answer was lost."""
        wanted = {"path": self.file.path, "size": self.size, "sha256": self.digest.hex()}
        for known in self.transport.fetch(get(*self._uploads)):
            if {name: known.get(name) for name in wanted} == wanted:
                return dict(known)
        return None

    def _begin(self) -> Json | None:
        """Begin an upload; None if the entity's files are where the server cannot append to them."""
        body = {"path": self.file.path, "size": self.size, "sha256": self.digest.hex()}
        try:
            begun: Json = self.transport.fetch(post(*self._uploads, body=body))
        except ApiError as error:
            if error.code != Code.FILES_ELSEWHERE:
                raise
            self._is_whole = True
            return None
        return begun

    def _append_rest(self) -> None:
        while self.stored < self.size:
            before = self.stored
            self._append(min(MOST_PART_BYTES, self.size - before))
            if not before < self.stored <= self.size:
                told = f"{self.stored} of {self.size} bytes, and had {before} before more were sent"
                raise UnexpectedResponse(f"the server says that it has {told}")

    def _append(self, size: int) -> None:
        part = FilePart(path=self.file.source, start=self.stored, size=size, on_sent=self.meter.move_to)
        headers = {
            "Content-Length": str(size),
            "Content-Type": "application/octet-stream",
            "Upload-Offset": str(self.stored),
        }
        path = make_path(*self._uploads, str(self._id))
        answer = self.transport.fetch(Call(method="PATCH", path=path, file=part, headers=headers))
        self.stored = int(answer["offset"])
        self.meter.move_to(self.stored)

    def _complete(self, upload: str) -> None:
        path = make_path(*self._uploads, upload, "complete")
        seconds = self.size / SLOWEST_DIGEST
        self.transport.fetch(Call(method="POST", path=path, body={}, read_seconds=seconds))

    def _is_visible(self) -> bool:
        try:
            answer = self.transport.send(Call(method="HEAD", path=self._address))
        except NotFound:
            return False
        return answer.headers.get("etag") == make_etag(self.digest.hex())

    @property
    def _address(self) -> str:
        return make_file_address(self.entity, self.file.path)

    @property
    def _uploads(self) -> tuple[str, ...]:
        return (*self.entity, "files", "uploads")
