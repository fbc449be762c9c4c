"""Saves the state of a namespace after a failed test."""

from pathlib import Path

from testbed.cluster import Cluster
from testbed.errors import TestbedError
from testbed.supervision import last_lines

_LOG_LINES = 200


def write_dump(cluster: Cluster, namespace: str, *, into: Path) -> Path:
    """Write pods, events, container logs and the components' last lines; never raises for a part that fails."""
    into.mkdir(parents=True, exist_ok=True)
    commands = {
        "pods.yaml": ("get", "pods", "-n", namespace, "-o", "yaml"),
        "pods.txt": ("describe", "pods", "-n", namespace),
        "events.txt": ("get", "events", "-n", namespace, "--sort-by=.lastTimestamp"),
        "objects.txt": ("get", "jobs,deployments,services,pvc", "-n", namespace, "-o", "wide"),
        "nodes.txt": ("describe", "nodes"),
    }
    for name, arguments in commands.items():
        (into / name).write_text(_kubectl(cluster, *arguments))
    for pod in _kubectl(cluster, "get", "pods", "-n", namespace, "-o", "name").split():
        text = _kubectl(cluster, "logs", "-n", namespace, pod, "--all-containers", "--prefix", "--tail=500")
        (into / f"{pod.replace('/', '-')}.log").write_text(text)
    for log in sorted(cluster.site.logs.glob("*.log")):
        (into / f"component-{log.name}").write_text(last_lines(log, count=_LOG_LINES) + "\n")
    return into


def _kubectl(cluster: Cluster, *arguments: str) -> str:
    try:
        return cluster.kubectl(*arguments)
    except TestbedError as error:
        return f"{error}\n"
