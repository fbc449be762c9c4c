"""Why a container cannot start, from the pod's status: a stable code and a remedy."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

IMAGE_ROOT = "image.root"


@dataclass(frozen=True, slots=True)
class Failure:
    """A permanent failure and its remedy."""

    code: str
    """Dotted and stable: `image.root`."""
    container: str
    message: str
    suggestion: str | None = None


def find_failure(pod: Mapping[str, Any]) -> Failure | None:
    """The failure of the first container that can never start, or None; unreadable parts are skipped."""
    for status in _iter_statuses(pod):
        waiting = (status.get("state") or {}).get("waiting") or {}
        message = str(waiting.get("message") or "")
        if waiting.get("reason") == "CreateContainerConfigError" and is_root_refusal(message):
            return Failure(
                IMAGE_ROOT,
                str(status.get("name", "")),
                "the image runs as root, which is not allowed",
                "run_as_user: 1000, or an image with a non-root user",
            )
    return None


def is_root_refusal(message: str) -> bool:
    """Whether this is the kubelet's message for root; it differs for images with a non-numeric user."""
    return "runAsNonRoot" in message and ("image will run as root" in message or "non-numeric user" in message)


def _iter_statuses(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    status = pod.get("status")
    for name in ("initContainerStatuses", "containerStatuses"):
        entries = status.get(name) if isinstance(status, Mapping) else None
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, Mapping):
                yield entry
