"""Files of artifacts, models and data items: stored in the server's own store, and brought here as inputs."""

import base64
import hashlib
import http.client
import itertools
import mimetypes
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from .failures import BadResult, NotPrepared, NotReported
from .run_api import RunApi, expect_object

MOST_FILES = 1000
"""Files of one artifact, or of one input."""
_BLOCK_BYTES = 1 << 20
_KEY = re.compile(r"store://([^/]+)/(artifact|model|dataitem)/([^/]+)/([^/:]+):([^/:]+)")
_PLURALS = {"artifact": "artifacts", "model": "models", "dataitem": "dataitems"}


class EntityFiles:
    """Stores and reads files of a project's entities for one run."""

    def __init__(self, api: RunApi, *, project: str, find_run_key: Callable[[], str]) -> None:
        self._api, self._project, self._find_run_key = api, project, find_run_key

    def store(self, name: str, path: Path, *, type_name: str, kind: str) -> str:
        """Store a file, or a folder with its files, as a new entity; its key. Raises `BadResult`, `NotReported`."""
        files = list(_iter_files(name, path))
        plural, entity_id = _PLURALS[type_name], uuid.uuid4().hex
        run_key = self._find_run_key()
        produced_by = {"type": "produced_by", "dest": f"{run_key}:{run_key.rpartition('/')[2]}"}
        body = {
            "id": entity_id,
            "name": name,
            "kind": kind,
            "project": self._project,
            "metadata": {"project": self._project, "name": name, "relationships": [produced_by]},
            "spec": {},
            "status": {"state": "CREATED"},
        }
        self._create(plural, body)
        for relative, file in files:
            headers = {"Content-Digest": f"sha-256=:{_digest(file)}:"}
            if (guessed := mimetypes.guess_type(file.name)[0]) is not None:
                headers["Content-Type"] = guessed
            self._api.upload(f"/{plural}/{entity_id}/files/content/{quote(relative)}", file, headers=headers)
        return self._finish(f"/{plural}/{entity_id}")

    def bring(self, name: str, value: Any, *, into: Path) -> Any:
        """The local path of an input that is the key of an entity with files here; any other value as it is."""
        matched = _KEY.fullmatch(value) if isinstance(value, str) else None
        if matched is None or matched[1] != self._project:
            return value
        path = f"/{_PLURALS[matched[2]]}/{quote(matched[5], safe='')}/files"
        try:
            listed = self._api.request_in_project("GET", f"{path}/info").document
        except NotReported as error:
            raise NotPrepared(f"input {name} ({value}) cannot be read: {error}") from None
        files = [each for each in listed if _is_stored(each)] if isinstance(listed, list) else []
        if not files:
            return value
        if len(files) > MOST_FILES:
            raise NotPrepared(f"input {name} has {len(files)} files; at most {MOST_FILES} are allowed")
        folder = into / name
        for file in files:
            self._download(f"{path}/content/{quote(file['path'])}", file, folder)
        return folder / files[0]["path"] if len(files) == 1 else folder

    def _create(self, plural: str, body: dict[str, Any]) -> None:
        """Create the entity; a repeated attempt finds that it exists already, by its random id."""
        answer = self._api.request_in_project("POST", f"/{plural}", body=body, accepted=(400, 409))
        message = str(expect_object(answer.document).get("message"))[:500]
        if answer.status >= 300 and "Duplicated entity" not in message:
            raise NotReported(f"the server refused {body['name']}: {message}")

    def _finish(self, path: str) -> str:
        """Mark the entity as ready, once all its files are stored; its key."""
        entity = expect_object(self._api.request_in_project("GET", path).document)
        entity["status"] = {**(entity.get("status") or {}), "state": "READY"}
        self._api.request_in_project("PUT", path, body=entity)
        return str(entity["key"])

    def _download(self, path: str, file: dict[str, Any], folder: Path) -> None:
        target = folder / _check_relative(str(file["path"]))
        target.parent.mkdir(parents=True, exist_ok=True)

        def write(response: http.client.HTTPResponse) -> None:
            expected, free = response.length, shutil.disk_usage(folder).free
            if expected is None or expected > free:
                raise NotPrepared(f"input file {target.name} has {expected} bytes, and the disk has {free} free")
            with target.open("wb") as content:
                shutil.copyfileobj(response, content, _BLOCK_BYTES)
                size = content.tell()
            if size != expected:
                raise http.client.IncompleteRead(b"", expected - size)

        self._api.download(path, write)


def _is_stored(file: Any) -> bool:
    """Whether a listed file has a relative path: others are in a store of the client's."""
    path = file.get("path") if isinstance(file, dict) else None
    return isinstance(path, str) and bool(path) and "://" not in path and not path.startswith("/")


def _check_relative(path: str) -> PurePosixPath:
    relative = PurePosixPath(path)
    if relative.is_absolute() or ".." in relative.parts or "\x00" in path or not relative.parts:
        raise NotPrepared(f"the file {path[:80]} of an input leads out of its folder")
    return relative


def _iter_files(name: str, path: Path) -> Iterator[tuple[str, Path]]:
    if path.is_file():
        yield path.name, path
        return
    if not path.is_dir():
        raise BadResult(f"{name}: there is no file or folder {path}")
    found = (each for each in path.rglob("*") if each.is_file() and not each.is_symlink())
    files = sorted(itertools.islice(found, MOST_FILES + 1))
    if not files:
        raise BadResult(f"{name}: the folder {path} has no files")
    if len(files) > MOST_FILES:
        raise BadResult(f"{name}: the folder {path} has more than {MOST_FILES} files; put them into an archive")
    yield from ((str(each.relative_to(path)), each) for each in files)


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while block := content.read(_BLOCK_BYTES):
            digest.update(block)
    return base64.b64encode(digest.digest()).decode()
