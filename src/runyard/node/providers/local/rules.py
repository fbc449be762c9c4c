"""What the local provider does not do, each said with the field. Pure."""

import os
from collections.abc import Iterator

from runyard.node.providers.provider import Object, ProviderRefused, Workload

MOST_CONTAINERS = 20
MOST_VOLUMES = 100
_VOLUME_KINDS = frozenset({"configMap", "secret", "emptyDir", "projected"})
_PROJECTED_KINDS = frozenset({"configMap", "secret"})
_CONTAINER_FIELDS = {
    "livenessProbe": "probes are not run",
    "readinessProbe": "probes are not run",
    "startupProbe": "probes are not run",
    "lifecycle": "hooks are not run",
    "volumeDevices": "there are no block devices",
    "stdin": "containers have no standard input",
    "tty": "containers have no terminal",
    "restartPolicy": "sidecars and restart rules of single containers are not run",
}
_POD_FIELDS = {
    "ephemeralContainers": "ephemeral containers are not run",
    "shareProcessNamespace": "all processes of this machine share its process namespace",
    "hostAliases": "the hosts file is this machine's",
    "dnsConfig": "name servers are this machine's",
}


def check_workload(workload: Workload) -> None:
    """Raise `ProviderRefused` with every rule that the pod breaks."""
    problems = list(_iter_problems(workload.spec))
    if problems:
        listed = "; ".join(problems)
        raise ProviderRefused(
            "NotSupported", f"the provider `local` runs processes of this machine, and refuses this pod: {listed}"
        )


def _iter_problems(spec: Object) -> Iterator[str]:
    lists = {name: spec.get(name) or [] for name in ("initContainers", "containers")}
    count, volumes = sum(map(len, lists.values())), spec.get("volumes") or []
    if count > MOST_CONTAINERS or len(volumes) > MOST_VOLUMES:
        yield f"{count} containers and {len(volumes)} volumes; allowed: {MOST_CONTAINERS} and {MOST_VOLUMES}"
        return
    for field, reason in _POD_FIELDS.items():
        if spec.get(field):
            yield f"spec.{field}: {reason}"
    yield from _iter_identity_problems(spec.get("securityContext"), "spec.securityContext")
    for name, containers in lists.items():
        for number, container in enumerate(containers):
            yield from _iter_container_problems(container, f"spec.{name}[{number}]")
    for number, volume in enumerate(volumes):
        yield from _iter_volume_problems(volume, f"spec.volumes[{number}]")


def _iter_container_problems(container: Object, path: str) -> Iterator[str]:
    if not container.get("command"):
        yield f"{path}.command is missing: there are no images, so state the program to run"
    for field, reason in _CONTAINER_FIELDS.items():
        if container.get(field):
            yield f"{path}.{field}: {reason}"
    yield from _iter_identity_problems(container.get("securityContext"), f"{path}.securityContext")
    for position, mount in enumerate(container.get("volumeMounts") or []):
        if mount.get("subPathExpr"):
            yield f"{path}.volumeMounts[{position}].subPathExpr is not expanded"


def _iter_identity_problems(context: Object | None, path: str) -> Iterator[str]:
    for field, own in (("runAsUser", os.getuid()), ("runAsGroup", os.getgid())):
        wanted = (context or {}).get(field)
        if wanted is not None and wanted != own:
            yield f"{path}.{field} is {wanted}: commands run as the agent's own, {own}"
    if (context or {}).get("runAsNonRoot") and os.getuid() == 0:
        yield f"{path}.runAsNonRoot: commands run as the agent's own user, which is root"


def _iter_volume_problems(volume: Object, path: str) -> Iterator[str]:
    kinds = sorted(volume.keys() - {"name"})
    for kind in kinds:
        if kind not in _VOLUME_KINDS:
            yield f"{path}.{kind}: allowed are {', '.join(sorted(_VOLUME_KINDS))}"
    for number, source in enumerate((volume.get("projected") or {}).get("sources") or []):
        for kind in source:
            if kind not in _PROJECTED_KINDS:
                yield f"{path}.projected.sources[{number}].{kind}: allowed are {', '.join(sorted(_PROJECTED_KINDS))}"
