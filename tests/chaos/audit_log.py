"""The apiserver's audit log: who created, patched and deleted which object."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RUN_LABEL = "runyard.io/run"
RUN_UID_LABEL = "runyard.io/run-uid"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One request that changed something, or tried to."""

    at: str
    """RFC 3339, with microseconds: entries sort by it."""
    user: str
    verb: str
    resource: str
    namespace: str
    name: str
    status: int
    run_id: str | None = None
    """Of a created object, from its label."""
    run_uid: str | None = None
    uid: str | None = None
    """Of a created object."""
    request: Any = None
    """A patch, or the options of a deletion."""

    @property
    def is_done(self) -> bool:
        """Whether the apiserver did it."""
        return 200 <= self.status < 300


VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})


def iter_entries(folder: Path, *, namespace: str) -> Iterator[AuditEntry]:
    """Every write in one namespace, in the order of the log; subresources are left out. Rotated files come first."""
    for path in sorted(folder.glob("audit*.log"), key=lambda file: (file.name == "audit.log", file.name)):
        with path.open("rb") as file:
            for line in file:
                entry = _read(line, namespace=namespace)
                if entry is not None:
                    yield entry


def _read(line: bytes, *, namespace: str) -> AuditEntry | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None  # the apiserver was killed while it wrote the line
    about = event.get("objectRef") or {}
    if event["verb"] not in VERBS or about.get("namespace") != namespace or about.get("subresource"):
        return None
    if event.get("stage") != "ResponseComplete":
        return None
    made = event.get("responseObject") if event["verb"] == "create" else None
    metadata = (made or {}).get("metadata") or {}
    labels = metadata.get("labels") or {}
    return AuditEntry(
        at=event["requestReceivedTimestamp"],
        user=event["user"]["username"],
        verb=event["verb"],
        resource=about["resource"],
        namespace=namespace,
        name=about.get("name") or metadata.get("name", ""),
        status=int((event.get("responseStatus") or {}).get("code", 0)),
        run_id=labels.get(RUN_LABEL),
        run_uid=labels.get(RUN_UID_LABEL),
        uid=metadata.get("uid"),
        request=event.get("requestObject") if event["verb"] != "create" else None,
    )
