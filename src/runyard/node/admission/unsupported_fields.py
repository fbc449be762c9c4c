"""Fields of a pod that the virtual node cannot honour; each refusal names the field.

A field that is only a wish (preferred affinity, `ScheduleAnyway`) is ignored. A priority orders the queue and evicts
nobody. Gangs belong to a queue such as Kueue, which holds pods back by scheduling gates.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from runyard.node.admission.refusal import Refusal
from runyard.pods.fields import Part, read_part
from runyard.spec.kubernetes.affinity import REQUIRED
from runyard.spec.problems import format_path, shorten

ALLOWED_VOLUMES = frozenset({"configMap", "secret", "emptyDir", "projected", "downwardAPI"})
ALLOWED_PROJECTIONS = frozenset({"configMap", "secret", "downwardAPI", "serviceAccountToken"})
_LOCAL_VOLUMES = frozenset({"hostPath", "persistentVolumeClaim", "ephemeral", "csi", "nfs", "iscsi", "fc"})
_API_ACCESS = "kube-api-access-"
_GANG_LABELS = (
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
    "pod-group.scheduling.sigs.k8s.io/name",
)
_GANG_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")


def check_fields(pod: Mapping[str, Any], spec: Part, *, allows_tokens: bool = False) -> Iterator[Refusal]:
    """Yield a refusal for each unsupported field. Raises `UnreadablePod`."""
    yield from _check_volumes(spec)
    if not allows_tokens:
        yield from _check_tokens(spec)
    yield from _check_gangs(read_part(pod), spec)
    yield from _check_relations(spec)
    yield from _check_system(spec)
    yield from _check_claims(spec)


def _refuse(path: tuple[str | int, ...], why: str) -> Refusal:
    return Refusal("UnsupportedField", f"{format_path(path)}: {why}")


def _check_volumes(spec: Part) -> Iterator[Refusal]:
    for volume in spec.read_parts("volumes"):
        for kind in volume.values:
            if kind == "name" or kind in ALLOWED_VOLUMES or volume.values[kind] is None:
                continue
            why = "local storage is not available at the provider" if kind in _LOCAL_VOLUMES else "not supported"
            name = shorten(volume.read_text("name"))
            yield _refuse((*volume.path, kind), f"{why} (volume {name}; allowed: {', '.join(sorted(ALLOWED_VOLUMES))})")
        projected = volume.find_part("projected")
        for source in projected.read_parts("sources") if projected else ():
            for kind in source.values:
                if kind not in ALLOWED_PROJECTIONS and source.values[kind] is not None:
                    yield _refuse(
                        (*source.path, kind), f"not supported (allowed: {', '.join(sorted(ALLOWED_PROJECTIONS))})"
                    )


def _check_tokens(spec: Part) -> Iterator[Refusal]:
    """The volume that every pod gets is left out at the provider; other tokens were asked for."""
    for volume in spec.read_parts("volumes"):
        projected = volume.find_part("projected")
        if projected is None or volume.read_text("name").startswith(_API_ACCESS):
            continue
        for source in projected.read_parts("sources"):
            if source.values.get("serviceAccountToken") is not None:
                why = "tokens of this cluster are not handed to the provider unless its agent allows it"
                yield _refuse((*source.path, "serviceAccountToken"), why)


def _check_gangs(pod: Part, spec: Part) -> Iterator[Refusal]:
    why = "gangs are not supported by this node; use a queue such as Kueue"
    if spec.find_part("schedulingGroup") is not None:
        yield _refuse(("spec", "schedulingGroup"), why)
    metadata = pod.find_part("metadata")
    if metadata is None:
        return
    for field, keys in (("labels", _GANG_LABELS), ("annotations", _GANG_ANNOTATIONS)):
        given = metadata.read_text_map(field)
        for key in keys:
            if key in given:
                yield _refuse(("metadata", field, key), why)


def _check_relations(spec: Part) -> Iterator[Refusal]:
    affinity = spec.find_part("affinity")
    for name in ("podAffinity", "podAntiAffinity"):
        rules = affinity.find_part(name) if affinity else None
        if rules is not None and rules.read_parts(REQUIRED):
            yield _refuse(
                (*rules.path, REQUIRED), "not supported; this node has no topology. Preferred terms are ignored"
            )
    for constraint in spec.read_parts("topologySpreadConstraints"):
        if constraint.read_text("whenUnsatisfiable") != "ScheduleAnyway":
            yield _refuse(
                (*constraint.path, "whenUnsatisfiable"), "only ScheduleAnyway is allowed; this node has no topology"
            )


def _check_system(spec: Part) -> Iterator[Refusal]:
    if spec.find_flag("hostUsers") is False:
        yield _refuse(("spec", "hostUsers"), "own user namespaces are not supported; leave it out")
    system = spec.find_part("os")
    if system is not None and system.read_text("name") not in ("", "linux"):
        yield _refuse(("spec", "os", "name"), "only linux is supported")
    lists = ("containers", "initContainers", "ephemeralContainers")
    for owner in (spec, *(part for name in lists for part in spec.read_parts(name))):
        context = owner.find_part("securityContext")
        if context is not None and context.find_part("windowsOptions") is not None:
            yield _refuse((*context.path, "windowsOptions"), "only linux is supported")


def _check_claims(spec: Part) -> Iterator[Refusal]:
    why = "dynamic resource allocation is not supported; ask for GPUs by nvidia.com/gpu"
    if spec.read_parts("resourceClaims"):
        yield _refuse(("spec", "resourceClaims"), why)
    for name in ("containers", "initContainers"):
        for container in spec.read_parts(name):
            resources = container.find_part("resources")
            if resources is not None and resources.read_parts("claims"):
                yield _refuse((*resources.path, "claims"), why)
