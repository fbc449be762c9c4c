"""`python -m bench.contestants.log_follower KUBECONFIG NAMESPACE POD`: follows a log as the engine does.

Prints one line of JSON at the end: bytes and gaps, and the processor time since the log was opened.
"""

import asyncio
import json
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop

from runyard.app.engine import LogChunk, LogSource
from runyard.engines.kubernetes.namespaces import Namespaces
from runyard.engines.kubernetes.run_logs import RunLogs
from runyard.engines.kubernetes.run_objects import AnchorView, GonePod, RunObjects
from runyard.engines.kubernetes.views import PodView
from runyard.kube import Client, Reflector, load_kubeconfig
from runyard.kube.resources import PODS


class OnePod:
    """`engines.kubernetes.pod_cache.PodCache` of one pod, as a watch shows it."""

    def __init__(self, reflector: Reflector[PodView], key: tuple[str, str]) -> None:
        self._reflector = reflector
        self._key = key

    pod_lists = 1

    def find(self, run_uid: str) -> RunObjects | None:
        """No anchor."""

    def find_gone_anchor(self, run_key: str) -> AnchorView | None:
        """No anchor."""

    def list_pods(self, run_uid: str) -> Sequence[PodView]:  # noqa: ARG002 - of the protocol
        """The pod."""
        pod = self._reflector.store.find(self._key)
        return [] if pod is None else [pod]

    def list_gone_pods(self, run_uid: str) -> Sequence[GonePod]:  # noqa: ARG002 - of the protocol
        """None."""
        return []

    def find_pod(self, namespace: str, name: str) -> PodView | None:
        """The pod."""
        return self._reflector.store.find((namespace, name))


async def main(kubeconfig: Path, namespace: str, name: str) -> None:
    """Follow to the end."""
    async with (
        Client.connect(load_kubeconfig(kubeconfig)) as client,
        Reflector(client, PODS, view=PodView, namespace=namespace, field_selector=f"metadata.name={name}") as reflector,
    ):
        await reflector.wait_synced()
        began = _measure()
        size = gaps = 0
        source = LogSource(run_uid="bench", pod=name, container="main")
        namespaces = Namespaces(namespace, "bench")
        async for item in RunLogs(client, OnePod(reflector, (namespace, name)), namespaces).follow_log(source):
            if isinstance(item, LogChunk):
                size += len(item.content)
            else:
                gaps += 1
        sys.stdout.write(json.dumps({"bytes": size, "gaps": gaps, "cpu_seconds": _measure() - began}) + "\n")


def _measure() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
