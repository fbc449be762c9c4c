"""The official client's `SharedInformer`, which runs in a thread."""

# mypy: disable-error-code="no-untyped-call"

from concurrent.futures import Future
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.informer import DELETED, MODIFIED, SharedInformer


class Official:
    """A SharedInformer with a handler that counts."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self.failed: Future[None] = Future()
        self._events = 0
        config.load_kube_config(str(kubeconfig))
        self._informer = SharedInformer(client.CoreV1Api().list_namespaced_pod, namespace=namespace)
        for kind in (MODIFIED, DELETED):
            self._informer.add_event_handler(kind, self._count)
        self._informer.start()

    def _count(self, _pod: Any) -> None:
        self._events += 1

    def size(self) -> int:
        return len(self._informer.cache.list_keys())

    def events(self) -> int:
        return self._events


def start(kubeconfig: Path, namespace: str) -> Official:
    return Official(kubeconfig, namespace)
