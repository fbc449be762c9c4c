"""Exec, attach and port-forward into the pods of a run."""

from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TypeVar

from runyard.app.engine import Anchor, Channel, EngineError, EngineRefusal, Session
from runyard.engines.kubernetes.kube_errors import translate_error
from runyard.engines.kubernetes.pod_cache import PodCache
from runyard.engines.kubernetes.session_channels import PortChannel, SessionChannel
from runyard.engines.kubernetes.views import PodView
from runyard.kube import Client, KubeError, NotFound
from runyard.kube.streams import (
    ContainerUnspecified,
    NotRunning,
    UnknownContainer,
    attach_to_pod,
    exec_in_pod,
    forward_port,
)
from runyard.manifests.pod import CONTAINER
from runyard.spec.problem_codes import Code

OPEN_SECONDS = 10.0
"""How long the cluster may take to open a session."""
MOST_LISTED_NAMES = 10
"""How many pods an error lists."""
T = TypeVar("T")


class RunSessions:
    """Opens sessions in containers that run, of one anchor only."""

    def __init__(self, client: Client, cache: PodCache) -> None:
        self._client = client
        self._cache = cache

    async def open_exec(self, anchor: Anchor, session: Session) -> Channel:
        """Start a command in a container; raises `EngineRefusal` if none runs."""
        pod, container = self._choose_container(anchor, session.pod, session.container)
        opening = exec_in_pod(
            self._client,
            pod.metadata.name,
            session.command,
            namespace=pod.metadata.namespace,
            container=container,
            stdin=session.has_stdin,
            tty=session.is_tty,
            deadline_seconds=OPEN_SECONDS,
        )
        stream, stack = await _open(opening, doing="start a command")
        return SessionChannel(stream, stack, has_stdin=session.has_stdin, is_tty=session.is_tty)

    async def open_attach(self, anchor: Anchor, session: Session) -> Channel:
        """Attach to the main process of a container. Runs are rendered without stdin and terminal: only its output."""
        pod, container = self._choose_container(anchor, session.pod, session.container)
        opening = attach_to_pod(
            self._client,
            pod.metadata.name,
            namespace=pod.metadata.namespace,
            container=container,
            deadline_seconds=OPEN_SECONDS,
        )
        stream, stack = await _open(opening, doing="attach to a container")
        return SessionChannel(stream, stack, has_stdin=False, is_tty=False)

    async def open_port(self, anchor: Anchor, port: int, *, pod: str | None = None) -> Channel:
        """Connect to a TCP port of a pod; whether something listens there, `receive` says."""
        found, _ = self._choose_container(anchor, pod, None)
        opening = forward_port(
            self._client,
            found.metadata.name,
            port,
            namespace=found.metadata.namespace,
            deadline_seconds=OPEN_SECONDS,
        )
        connection, stack = await _open(opening, doing="forward a port")
        return PortChannel(connection, stack)

    def _choose_container(self, anchor: Anchor, pod: str | None, container: str | None) -> tuple[PodView, str]:
        """The newest pod with that container running, or the one that was named."""
        objects = self._cache.find(anchor.run_uid)
        if objects is None or objects.anchor.metadata.uid != anchor.uid:
            raise _refuse(f"run {anchor.run_id} has no containers on the cluster")
        name = CONTAINER if container is None else container
        pods = [one for one in objects.pods if pod in (None, one.metadata.name)]
        if not pods and pod is not None:
            known = ", ".join(one.metadata.name for one in objects.pods[-MOST_LISTED_NAMES:]) or "none"
            raise _refuse(f"run {anchor.run_id} has no pod {pod[:253]}; it has {known}")
        running = [one for one in pods if name in _list_running(one)]
        if not running:
            names = sorted({found for one in pods for found in _list_running(one)})
            shown = f"; running: {', '.join(names[:MOST_LISTED_NAMES])}" if names else ""
            raise _refuse(f"container {name[:253]} of run {anchor.run_id} does not run{shown}")
        kept = [one for one in running if not one.metadata.deleted_at]
        return (kept or running)[-1], name


def _list_running(pod: PodView) -> list[str]:
    statuses = (*pod.status.init_containers, *pod.status.containers)
    return [status.name for status in statuses if status.state.running is not None]


async def _open(opening: AbstractAsyncContextManager[T], *, doing: str) -> tuple[T, AsyncExitStack]:
    """Open a stream that outlives this call; if it fails or is cancelled, nothing stays open."""
    async with AsyncExitStack() as stack:
        try:
            stream = await stack.enter_async_context(opening)
        except KubeError as error:
            raise _translate(error, doing=doing) from error
        return stream, stack.pop_all()


def _translate(error: KubeError, *, doing: str) -> EngineError:
    if isinstance(error, NotFound | NotRunning | UnknownContainer | ContainerUnspecified):
        return _refuse(f"the container does not run anymore: {error.message}")
    return translate_error(error, doing=doing)


def _refuse(message: str) -> EngineRefusal:
    return EngineRefusal(Code.RUN_NOT_RUNNING.value, message)
