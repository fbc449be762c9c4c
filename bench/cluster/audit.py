"""Requests at the apiserver, counted in its audit log."""

from collections import Counter
from pathlib import Path

import msgspec


class _Reference(msgspec.Struct):
    resource: str = ""
    subresource: str = ""


class _Entry(msgspec.Struct):
    verb: str
    stage: str = ""
    agent: str = msgspec.field(default="", name="userAgent")
    object: _Reference = msgspec.field(default_factory=_Reference, name="objectRef")


_ENTRIES = msgspec.json.Decoder(_Entry)


def count_requests(path: Path, *, agent: str) -> Counter[str]:
    """How often each verb of each resource was asked for by an agent of that name; streams once, when they begin."""
    counts: Counter[str] = Counter()
    with path.open("rb") as lines:
        for line in lines:
            entry = _ENTRIES.decode(line)
            if not entry.agent.startswith(agent) or entry.stage == "ResponseStarted":
                continue
            subresource = f"/{entry.object.subresource}" if entry.object.subresource else ""
            counts[f"{entry.verb} {entry.object.resource}{subresource}"] += 1
    return counts
