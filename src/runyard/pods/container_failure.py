"""Why a container cannot run, from the pod's status: a stable code, and what to do about it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

IMAGE_ROOT = "image.root"


@dataclass(frozen=True, slots=True)
class Failure:
    """A cause that no waiting will mend, and the nearest remedy."""

    code: str
    """Dotted and stable: `image.root`."""
    container: str
    message: str
    suggestion: str | None = None


def find_failure(pod: Mapping[str, Any]) -> Failure | None:
    """The first container that can never start, or None; whatever cannot be read says nothing."""
    for status in _iter_statuses(pod):
        waiting = (status.get("state") or {}).get("waiting") or {}
        message = str(waiting.get("message") or "")
        if waiting.get("reason") == "CreateContainerConfigError" and _runs_as_root(message):
            return Failure(
                IMAGE_ROOT,
                str(status.get("name", "")),
                "the image runs as root, which the platform does not run",
                "run_as_user: 1000, or an image with a user of its own",
            )
    return None


def _runs_as_root(message: str) -> bool:
    """The kubelet's words; it has others where the image names its user instead of numbering it."""
    return "runAsNonRoot" in message and ("image will run as root" in message or "non-numeric user" in message)


def _iter_statuses(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    status = pod.get("status")
    for name in ("initContainerStatuses", "containerStatuses"):
        entries = status.get(name) if isinstance(status, Mapping) else None
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, Mapping):
                yield entry
