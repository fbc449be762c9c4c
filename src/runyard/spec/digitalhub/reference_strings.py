"""Keys and reference strings of entities, as DigitalHub writes them.

Keys: `store://P/function/python/f:ID`, `store://P/run/python+job:run/ID:ID`, `store://P`. References: a function is
`python://P/f:ID`, a task `python+job://P/ID`.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from runyard.spec.problem_codes import Code
from runyard.spec.readers import refuse

_SLUG = r"[a-zA-Z0-9._+-]+"
_KIND = r"[a-zA-Z0-9._+:-]+"
_FUNCTION = re.compile(rf"(?P<kind>{_SLUG})://(?P<project>{_SLUG})/(?P<name>{_SLUG})(:(?P<id>{_SLUG}))?")
_TASK = re.compile(rf"(?P<kind>{_SLUG})://(?P<project>{_SLUG})/(?P<id>{_SLUG})")
_KEY = re.compile(
    rf"store://(?P<project>{_SLUG})(/(?P<type>[a-z]+)/(?P<kind>{_KIND}?)/(?P<name>{_SLUG})(:(?P<id>{_SLUG}))?)?"
)
_RUN_KIND = re.compile(r"(?P<function>[a-zA-Z0-9._-]+)\+((?P<action>[a-zA-Z0-9._-]+):)?run")
_TASK_KIND = re.compile(r"(?P<function>[a-zA-Z0-9._-]+)\+(?P<action>[a-zA-Z0-9._-]+)")

NAMED_TYPES = ("function", "workflow", "artifact", "dataitem", "model", "secret", "trigger", "configmap")
"""Types whose keys contain a name; others contain only the id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionReference:
    """`kind://project/name:id`; without id, the newest version."""

    kind: str
    project: str
    name: str
    id: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}://{self.project}/{self.name}" + (f":{self.id}" if self.id else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReference:
    """`kind+action://project/id`."""

    kind: str
    project: str
    id: str

    def __str__(self) -> str:
        return f"{self.kind}://{self.project}/{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """`store://project/type/kind/name:id`; of a project, `store://project`."""

    project: str
    type: str = "project"
    kind: str | None = None
    name: str | None = None
    id: str | None = None

    def __str__(self) -> str:
        if self.type == "project":
            return f"store://{self.project}"
        end = f":{self.id}" if self.id else ""
        return f"store://{self.project}/{self.type}/{self.kind}/{self.name}{end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunKind:
    """The parts of a run's kind: the function's kind and the action, which the old form `X+run` does not have."""

    function: str
    action: str | None


def parse_function_reference(text: str) -> FunctionReference:
    """Parse the reference; raises `Refused`."""
    return FunctionReference(**_match(_FUNCTION, text, "a function", "kind://project/name:id"))


def parse_task_reference(text: str) -> TaskReference:
    """Parse the reference; raises `Refused`."""
    return TaskReference(**_match(_TASK, text, "a task", "kind+action://project/id"))


def parse_key(text: str) -> Key:
    """Parse a key of the server, or of the SDK, which leaves out a run's second id; raises `Refused`."""
    found = _match(_KEY, text, "a key", "store://project/type/kind/name:id")
    if found["type"] is None:
        return Key(project=str(found["project"]))
    if found["type"] not in NAMED_TYPES and found["id"] is None:
        found["id"] = found["name"]
    return Key(**found)


@lru_cache(maxsize=256)
def find_run_kind(text: str) -> RunKind | None:
    """The parts of a run's kind, or None if it is not one."""
    match = _RUN_KIND.fullmatch(text)
    return None if match is None else RunKind(function=match["function"], action=match["action"])


def find_task_kind(text: str) -> tuple[str, str] | None:
    """Function kind and action of `X+action`, or None."""
    match = _TASK_KIND.fullmatch(text)
    return None if match is None or match["action"] == "run" else (match["function"], match["action"])


def _match(pattern: re.Pattern[str], given: object, what: str, form: str) -> dict[str, Any]:
    match = pattern.fullmatch(given) if isinstance(given, str) and len(given) <= 2048 else None
    if match is None:
        raise refuse(Code.REFERENCE_INVALID, f"is not a valid reference of {what}", value=given, allowed=form)
    return match.groupdict()
