"""Why an image cannot be pulled, in the words of the registry and of the container runtime."""

import re
from dataclasses import dataclass
from enum import StrEnum

LONGEST_PULL_MESSAGE = 4096
"""How many characters of the message of a failed pull are read."""
PULL_FAILURES = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "RegistryUnavailable",
        "ImageInspectError",
        "SignatureValidationFailed",
    }
)
"""The reasons of a container that waits for its image in vain."""

_WRAPPERS = (
    re.compile(r'Back-off pulling image "[^"]{0,1024}"(?:: )?'),
    re.compile(r"(?:ErrImagePull|RegistryUnavailable): "),
    re.compile(r"rpc error: code = [A-Za-z]{1,30} desc = "),
    re.compile(r'failed to pull and unpack image "[^"]{0,1024}": '),
    re.compile(r'failed to resolve (?:reference|image) "[^"]{0,1024}": '),
    re.compile(r'Failed to pull image "[^"]{0,1024}": '),
)
_REFUSED = ("unauthorized", "denied", "forbidden", "authentication required", "authorization", "credentials")
_UNREACHABLE = (
    *("dial tcp", "no such host", "timeout", "connection refused", "connection reset", "unreachable"),
    *("x509", "tls:", "server gave http response", ": eof", "too many requests"),
)


class PullKind(StrEnum):
    """What keeps the image away."""

    MISSING = "missing"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class PullFailure:
    """A failed pull: its kind, and what the registry said."""

    kind: PullKind
    words: str


def read_pull_failure(message: str) -> PullFailure:
    """What the message of a failed pull says, without the runtime's wrappers around it."""
    words = message[:LONGEST_PULL_MESSAGE].strip()
    for wrapper in _WRAPPERS:
        found = wrapper.match(words)
        if found is not None:
            words = words[found.end() :]
    lower = words.lower()
    if any(word in lower for word in _REFUSED):
        return PullFailure(PullKind.REFUSED, words)
    if re.search(r"status(?: code)?[^0-9]{0,40}(?:429|5\d\d)", lower) or any(word in lower for word in _UNREACHABLE):
        return PullFailure(PullKind.UNREACHABLE, words)
    return PullFailure(PullKind.MISSING, words)
