# Generated from ../aio/tasks.py by `make sdk`: do not edit.
"""The tasks of functions: a function has one of each kind, whoever creates it."""

from uuid import uuid4

from runyard.sdk.calls import Json, get, post
from runyard.sdk.errors import AlreadyExists, NotFound
from runyard.sdk.sync.transport import Transport


def find_task(transport: Transport, project: str, kind: str, function: str) -> str | None:
    """The id of the task of a kind of a function, which is named by its reference. Raises `NotFound` for a project."""
    call = get("-", project, "tasks", kind=kind, function=function, size=1)
    content = (transport.fetch(call)).get("content") or []
    return str(content[0]["id"]) if content else None


def ensure_task(transport: Transport, project: str, kind: str, function: str) -> str:
    """The same; creates the task if there is none."""
    found = find_task(transport, project, kind, function)
    if found is not None:
        return found
    call = post("-", project, "tasks", body=draft_task(kind, function), is_safe_to_repeat=True)
    try:
        return str((transport.fetch(call))["id"])
    except AlreadyExists:
        found = find_task(transport, project, kind, function)
        if found is None:
            raise NotFound(f"the {kind} task of {function} is gone", status=404) from None
        return found


def draft_task(kind: str, function: str) -> Json:
    """The document of a new task."""
    return {"kind": kind, "id": uuid4().hex, "spec": {"function": function}}
