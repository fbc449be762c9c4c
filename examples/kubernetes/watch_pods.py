"""Print the phase of each pod in a namespace, and then every change.

`python examples/watch_pods.py [NAMESPACE]`, with KUBECONFIG set or inside a cluster.
"""

import asyncio
import contextlib
import sys

from runyard.kube import Client, load_config
from runyard.kube.reflector import Reflector
from runyard.kube.resources import PODS


async def main(namespace: str) -> None:
    """Follow until interrupted."""
    async with Client.connect(load_config()) as client, Reflector(client, PODS, namespace=namespace) as reflector:
        await reflector.wait_synced()
        phases: dict[tuple[str, str], str] = {}
        with reflector.subscribe() as changes:
            async for keys in changes:
                for key in keys:
                    pod = reflector.store.find(key)
                    phase = pod["status"]["phase"] if pod else "gone"
                    if phases.get(key) != phase:
                        phases[key] = phase
                        print(key, phase, flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "default"))
