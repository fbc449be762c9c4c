"""The names that completion proposes: asked of the server, for a second at most, and remembered for a few seconds.

They are in one file of the user's cache directory, which only the user can read. A failure is remembered like an
answer, so that a server that is away makes the next key wait no more.
"""

import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runyard.sdk.calls import make_path
from runyard.sdk.contexts import find_path, load_contexts, write_privately
from runyard.sdk.credentials import Credentials, find_credentials
from runyard.sdk.sync.client import Client

MOST_SECONDS = 1.0
"""How long the shell may wait for the server."""
FRESH_SECONDS = 5.0
"""How long an answer is used again."""
MOST_NAMES = 100
"""Names of one kind: runs the newest, others the first of the server's list."""
MOST_NAME_CHARACTERS = 256
MOST_HELP_CHARACTERS = 80
MOST_FILE_BYTES = 1 << 20
DEFAULT_PROJECT = "default"
DEFAULT_TYPE = "artifact"
_LISTED = {"run": "runs", "function": "functions", "secret": "secrets", "config map": "configmaps", "volume": "volumes"}
_WORD = re.compile(r"[\w.+:/@][\w.+:/@-]*", re.ASCII)
"""No shell takes anything of it for more than letters, and no command for an option."""
Names = list[tuple[str, str | None]]


def find_names(kind: str, given: Mapping[str, Any]) -> Names:
    """Names of a kind with a word about each. `given` has the options that are in the line already."""
    if kind == "context":
        contexts = load_contexts(find_path(os.environ))
        return [(name, context.endpoint) for name, context in sorted(contexts.by_name.items())]
    credentials = find_credentials(endpoint=given.get("endpoint"), context=given.get("context"))
    path = _choose_path(kind, given, credentials)
    key = hashlib.sha256(json.dumps([credentials.endpoint, credentials.authorization, path]).encode()).hexdigest()
    file = _find_cache(os.environ)
    known = _read_cache(file)
    if key in known:
        return [(name, text) for name, text in known[key]["names"]]
    names = _ask_in_time(credentials, path)
    _write_cache(file, {**known, key: {"at": time.time(), "names": names}})
    return names


def _choose_path(kind: str, given: Mapping[str, Any], credentials: Credentials) -> str:
    if kind == "profile":
        return "/.well-known/configuration"
    if kind == "project":
        return "/api/v1/projects"
    project = given.get("project") or credentials.project or DEFAULT_PROJECT
    listed = _LISTED.get(kind) or f"{given.get('type_name') or DEFAULT_TYPE}s"
    return make_path("-", project, listed)


def _ask_in_time(credentials: Credentials, path: str) -> Names:
    """The answer, or nothing. On a thread that is left behind, because nothing bounds the look-up of a host's name."""
    found: list[Names] = []

    def ask() -> None:
        try:
            found.append(_ask(credentials, path))
        except Exception:  # noqa: BLE001 - completion is silent
            return

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(MOST_SECONDS)
    return found[0] if found else []


def _ask(credentials: Credentials, path: str) -> Names:
    # Without the refresh token: a thread that is left behind could use it up and lose the next one.
    with Client(
        credentials.endpoint,
        token=credentials.token,
        user=credentials.user,
        password=credentials.password,
        timeout=MOST_SECONDS,
        retry_seconds=0,
    ) as client:
        if not path.startswith("/api/"):
            return list(_iter_names({"name": name} for name in client.list_profiles()))
        page = client.request("GET", path, size=MOST_NAMES)
        return list(_iter_names(page["content"]))


def _iter_names(documents: Any) -> Iterator[tuple[str, str | None]]:
    """What can stand in a line as it is: nobody who names a thing may write commands into the line."""
    for document in list(documents)[:MOST_NAMES]:
        is_run = str(document.get("kind", "")).endswith(":run")
        name, text = str(document.get("id" if is_run else "name", "")), None
        if is_run:
            text = str((document.get("status") or {}).get("state", ""))
        elif isinstance(described := (document.get("metadata") or {}).get("description"), str):
            text = described
        if len(name) <= MOST_NAME_CHARACTERS and _WORD.fullmatch(name):
            yield name, "".join(filter(str.isprintable, text))[:MOST_HELP_CHARACTERS] if text else None


def _find_cache(environ: Mapping[str, str]) -> Path:
    home = environ.get("XDG_CACHE_HOME")
    base = Path(home) if home and home.startswith("/") else Path(environ.get("HOME") or Path.home()) / ".cache"
    return base / "runyard" / "completion.json"


def _read_cache(file: Path) -> dict[str, Any]:
    """What is fresh of it; nothing if it cannot be read."""
    try:
        with file.open("rb") as stream:
            known = json.loads(stream.read(MOST_FILE_BYTES))
        now = time.time()
        return {key: entry for key, entry in known.items() if 0 <= now - entry["at"] <= FRESH_SECONDS}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _write_cache(file: Path, known: Mapping[str, Any]) -> None:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_privately(file, json.dumps(known))
    except OSError:
        return
