"""The file of contexts, one per server, written by `runyard login`: mode 0600, and replaced as a whole."""

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from runyard.sdk.errors import ConfigurationError

MOST_FILE_BYTES = 1 << 20
FILE_VARIABLE = "RUNYARD_CONTEXTS"
_FIELDS = ("endpoint", "user", "token", "token_id", "project")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A server and how to sign in there."""

    endpoint: str
    user: str | None = None
    token: str | None = field(default=None, repr=False)
    token_id: str | None = None
    """The id of the token, if `runyard login` created it: `runyard logout` revokes it."""
    project: str | None = None
    """The project of commands that name none."""


@dataclass(frozen=True, slots=True)
class Contexts:
    """All contexts by name, and the current one."""

    current: str | None = None
    by_name: Mapping[str, Context] = field(default_factory=dict)

    def put(self, name: str, context: Context) -> "Contexts":
        """With that context, which becomes the current one."""
        return Contexts(name, {**self.by_name, name: context})

    def drop(self, name: str) -> "Contexts":
        """Without that context."""
        left = {other: context for other, context in self.by_name.items() if other != name}
        return Contexts(None if self.current == name else self.current, left)

    def choose(self, name: str) -> "Contexts":
        """With that one as the current."""
        return Contexts(name, self.by_name)


def find_path(environ: Mapping[str, str]) -> Path:
    """Where the file is: `RUNYARD_CONTEXTS`, or `runyard/contexts.json` in the user's configuration directory."""
    if given := environ.get(FILE_VARIABLE):
        return Path(given)
    home = environ.get("XDG_CONFIG_HOME")
    base = Path(home) if home and home.startswith("/") else Path(environ.get("HOME") or Path.home()) / ".config"
    return base / "runyard" / "contexts.json"


def load_contexts(path: Path) -> Contexts:
    """Read the file; none if it does not exist. Raises `ConfigurationError`."""
    try:
        with path.open("rb") as stream:
            content = stream.read(MOST_FILE_BYTES + 1)
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        found = json.loads(content[:MOST_FILE_BYTES])
        contexts = {str(name): _read_context(given) for name, given in found["contexts"].items()}
        current = found.get("current")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigurationError(f"{path}: is not a file of contexts; move it away and sign in again") from None
    return Contexts(current if current in contexts else None, contexts)


def save_contexts(path: Path, contexts: Contexts) -> None:
    """Write the file: readable by its owner alone, and never half of it."""
    shown = {name: _to_json(context) for name, context in contexts.by_name.items()}
    content = json.dumps({"current": contexts.current, "contexts": shown}, indent=2) + "\n"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_privately(path, content)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror or error}") from None


def write_privately(path: Path, content: str) -> None:
    """Replace a file atomically by one with mode 0600."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)  # made with mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _read_context(given: Mapping[str, Any]) -> Context:
    known = {name: str(given[name]) for name in _FIELDS if given.get(name) is not None}
    return Context(**known)


def _to_json(context: Context) -> dict[str, str]:
    return {name: value for name, value in asdict(context).items() if value is not None}
