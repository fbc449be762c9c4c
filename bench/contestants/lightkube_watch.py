"""lightkube's asynchronous client: its list and then its watch, into a dictionary."""

from pathlib import Path

from lightkube import AsyncClient, KubeConfig
from lightkube.resources.core_v1 import Pod

from bench.contestants.contestant import run_in_thread

PAGE_SIZE = 500


class Lightkube:
    """What its users write by hand, without the recovery from failures that it leaves to them."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self._config, self._namespace = KubeConfig.from_file(str(kubeconfig)), namespace
        self._pods: dict[tuple[str | None, str | None], Pod] = {}
        self._events = 0
        self.failed = run_in_thread(self._run)

    async def _run(self) -> None:
        client = AsyncClient(config=self._config, namespace=self._namespace)
        listed = client.list(Pod, chunk_size=PAGE_SIZE)
        async for pod in listed:
            self._pods[_key(pod)] = pod
        async for kind, pod in client.watch(Pod, resource_version=listed.resourceVersion):
            self._events += 1
            if kind == "DELETED":
                self._pods.pop(_key(pod), None)
            else:
                self._pods[_key(pod)] = pod

    def size(self) -> int:
        return len(self._pods)

    def events(self) -> int:
        return self._events


def _key(pod: Pod) -> tuple[str | None, str | None]:
    metadata = pod.metadata
    return (metadata.namespace, metadata.name) if metadata else (None, None)


def start(kubeconfig: Path, namespace: str) -> Lightkube:
    return Lightkube(kubeconfig, namespace)
