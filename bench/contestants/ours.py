"""`runyard.kube.Reflector` with whole objects as dictionaries."""

from pathlib import Path
from typing import Any

from bench.contestants.contestant import run_in_thread
from runyard.kube import Client, load_kubeconfig
from runyard.kube.reflector import Reflector
from runyard.kube.resources import PODS


class Ours:
    """A reflector in an event loop of its own."""

    def __init__(self, kubeconfig: Path, namespace: str, *, options: dict[str, Any]) -> None:
        self._reflector: Reflector[Any] | None = None
        self._kubeconfig, self._namespace, self._options = kubeconfig, namespace, options
        self.failed = run_in_thread(self._run)

    async def _run(self) -> None:
        async with Client.connect(load_kubeconfig(self._kubeconfig)) as client:
            self._reflector = Reflector(client, PODS, namespace=self._namespace, **self._options)
            await self._reflector.run()

    def size(self) -> int:
        return len(self._reflector.store) if self._reflector else 0

    def events(self) -> int:
        return self._reflector.counters.events if self._reflector else 0


def start(kubeconfig: Path, namespace: str) -> Ours:
    return Ours(kubeconfig, namespace, options={})
