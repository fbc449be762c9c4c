"""Errors that only streams raise; the rest of the tree is in `runyard.kube.errors`.

KubeError
├── ContainerUnspecified       the pod has several containers and none was named
├── UnknownContainer           the pod has no container of that name
├── ContainerWaiting           no log yet: the container, or its pod, has not started
├── PreviousNotFound           no earlier instance of the container
├── LogsUnavailable            the log, or the rest of it, cannot be read any more
│   ├── LogsRotated            lines are missing: the last that was read is no longer in the log
│   └── LogsUnconfirmed        nothing is known to be missing, but the end could not be confirmed
├── LogsUnwatched              the node cannot wait for new lines: it has given those that there were
├── NotRunning                 exec, attach or port-forward need what runs, and pod or container does not
├── CommandNotStarted          the runtime could not start the command
│   └── CommandNotFound        ... because there is no such file
├── HalfCloseUnsupported       the stream is v4, which cannot say that stdin has ended
├── OutputTooLarge             a command wrote more than its caller wants to hold
└── PortForwardFailed          the node could not forward to the port
    └── PortRefused            ... because nothing listens there

The servers say these things in English sentences behind codes that mean something else (400, 500, even 200), and
where a sentence appears depends on the version: as a refused upgrade, or as a Status on an open socket. They are
recognised here and nowhere else; a sentence that is not recognised stays the error it came as.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from runyard.kube.errors import ApiError, KubeError, Unavailable


class ContainerUnspecified(KubeError):
    """The pod has several containers and none was named; the message lists them."""


class UnknownContainer(KubeError):
    """The pod has no container of that name."""


class ContainerWaiting(KubeError):
    """There is no log yet: the container, or its pod, has not started. The message says why."""


class PreviousNotFound(KubeError):
    """The container has no earlier instance."""


GapCause = Literal["rotated", "restarted", "pod deleted", "log removed"]


@dataclass(frozen=True, slots=True)
class LogGap:
    """A span of a container instance's log that cannot be read, and why."""

    since_ns: int | None
    """The last line that was read, or the start of the instance; None: unknown."""
    until_ns: int | None
    """The first line that can be read again, or the end of the instance; None: unknown, it may still run."""
    cause: GapCause
    """`rotated`: the node keeps the newest part of a log only. `restarted`: the container has restarted more than once,
    and the node keeps the last two instances. `pod deleted`: with its logs, or its node is not
    registered; ask for the pod. `log removed`: the node says so."""


class LogsUnavailable(KubeError):
    """The log, or the rest of it, can no longer be read; the message is the node's."""

    def __init__(self, message: str, *, gap: LogGap | None = None) -> None:
        super().__init__(message)
        self.gap = gap
        """What is missing, where the log of one instance was followed."""


class LogsRotated(LogsUnavailable):
    """The last line that was read is no longer in the log: lines after it may be lost, later ones can be read.

    Go on with `since_ns=gap.until_ns`.
    """


class LogsUnconfirmed(LogsUnavailable):
    """The log ended as a complete one does, but it cannot be read again: nothing confirms that it was complete.

    Its `gap` says where lines may be missing. If the instance ended before the answer did, and its last lines were not
    read late, nothing is.
    """

    def __init__(
        self, message: str, *, gap: LogGap | None, ended_ns: int | None = None, late_ns: int | None = None
    ) -> None:
        super().__init__(message, gap=gap)
        self.ended_ns = ended_ns
        """When the server ended the answer, by this machine's clock; None: nobody waited for the last line."""
        self.late_ns = late_ns
        """When the last line was read, if that was late: the log may have been rotated since it was written."""


class LogsUnwatched(Unavailable):
    """The node gave the lines that there were, and cannot wait for new ones: its inotify instances are used up.

    Linux allows 128 per user by default (`fs.inotify.max_user_instances`), and a kubelet needs one per followed log.
    """


class NotRunning(KubeError):
    """The pod or its container has not started, or has ended."""


class CommandNotStarted(KubeError):
    """The container's runtime could not start the command; the message is the runtime's."""


class CommandNotFound(CommandNotStarted):
    """The command is not in the container's PATH, or its path does not exist there."""


class HalfCloseUnsupported(KubeError):
    """The stream is v4.channel.k8s.io, which cannot half-close stdin."""


class OutputTooLarge(KubeError):
    """The command wrote more than the caller's limit; it was abandoned and may still run."""


class PortForwardFailed(KubeError):
    """The node could not forward to the port; the message is the node's."""


class PortRefused(PortForwardFailed):
    """Nothing listens on that port in the pod."""


# The first match counts. Messages of ApiErrors are cut and names may take most of them: where the telling words stand
# behind names, the words before them decide.
_SENTENCES: tuple[tuple[re.Pattern[str], type[KubeError]], ...] = tuple(
    (re.compile(pattern), error_type)
    for pattern, error_type in (
        (r"a container name must be specified for pod ", ContainerUnspecified),
        (r"container \S+ is not valid for pod ", UnknownContainer),
        (r'previous terminated container "', PreviousNotFound),
        (r'container "\S+" in pod "\S+" is terminated', LogsUnavailable),
        (r'container "\S+" in pod "', ContainerWaiting),
        # A kubelet that has just started does not know its pods yet; its 404 is not the apiserver's.
        (r'pod ("\S+" )?does not exist', Unavailable),
        (r'(container|pod) not found \("', NotRunning),
        (r"container \S+ not found in pod ", NotRunning),
        (r"pod \S+ does not have a host assigned", NotRunning),
        (r"container is in CONTAINER_(CREATED|EXITED|UNKNOWN) state", NotRunning),
        (r"cannot exec in a (stopped|paused) container", NotRunning),
        # From the beginning, and without a second try: a search for `x.*y` takes quadratic time.
        (r"(?s)\A(?>.*?executable file ).*?not found in \$PATH", CommandNotFound),
        (r'(?s)\A(?>.*?exec: ")(?>.*?": stat ).*?: no such file or directory', CommandNotFound),
        (r"unable to start container process|OCI runtime exec failed", CommandNotStarted),
    )
)

_MESSAGE_CHARACTERS = 256


def recognise(sentence: str) -> KubeError | None:
    """The error that matches a server's message, or None."""
    for pattern, error_type in _SENTENCES:
        if pattern.search(sentence):
            return error_type(shorten(sentence))
    return None


def shorten(sentence: str) -> str:
    """The end of a sentence: what each layer of Go puts in front says least."""
    return sentence if len(sentence) <= _MESSAGE_CHARACTERS else f"…{sentence[1 - _MESSAGE_CHARACTERS :]}"


@contextmanager
def recognised() -> Iterator[None]:
    """Raise the error that matches a refusal's message, with the refusal as its cause."""
    try:
        yield
    except ApiError as error:
        # Behind a general sentence of its own the apiserver quotes the kubelet's as a cause.
        typed = recognise("; ".join((error.message, *(cause.message for cause in error.causes))))
        if typed is None:
            raise
        typed.request = error.request
        raise typed from error
