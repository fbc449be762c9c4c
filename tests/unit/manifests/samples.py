"""Effective specs built by hand: one for each thing that a run may ask. Inputs are frozen to the bottom."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from runyard.domain.effective_spec import Disk, EffectiveSpec
from runyard.manifests.identity import Owner, RunIdentity
from runyard.spec.environment import SecretUse
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.resources import Sides
from runyard.spec.services import ServicePort
from runyard.spec.volumes import Volume

IDENTITY = RunIdentity(run_id="r1", run_uid="u1", project="vision")
OWNER = Owner("Job", "run-r1-bb82030dbc2bcab", "5b0a3f1e-0000-4000-8000-000000000000")
SECRET_VALUES = {"TOKEN": "t0ken", "kaggle": '{"key": "ü"}', "unused": "not to be seen"}


def freeze(value: Any) -> Any:
    """The same, such that nobody can change it."""
    if isinstance(value, Mapping):
        return MappingProxyType({key: freeze(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in value)
    return value


def make_spec(**fields: Any) -> EffectiveSpec:
    """A container's job, changed by the given fields."""
    given = {"kind": "container", "action": "job", "image": "busybox:1.36", **fields}
    return EffectiveSpec(**{name: freeze(value) for name, value in given.items()})


def make_volume(kind: str, **fields: Any) -> Volume:
    """A volume `data` at `/data`, changed by the given fields."""
    size = {"size": Quantity.parse(fields.pop("size"))} if "size" in fields else {}
    given: dict[str, Any] = {"name": "data", "type": kind, "mount_path": "/data", **size, **fields}
    return Volume(**{name: freeze(value) for name, value in given.items()})


def make_sides(request: str | None = None, limit: str | None = None) -> Sides:
    return Sides(*(None if side is None else Quantity.parse(side) for side in (request, limit)))


def claim(**fields: Any) -> Volume:
    return make_volume("persistent_volume_claim", **{"size": "1Gi", **fields})


def _iter_scheduling() -> Iterable[tuple[str, EffectiveSpec]]:
    terms = [{"matchExpressions": [{"key": "disktype", "operator": "In", "values": ["ssd", "nvme"]}]}]
    node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    apart = {
        "labelSelector": {"matchLabels": {"runyard.io/project": "vision"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    pod_affinity = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": apart}]}
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    yield "node selector", make_spec(node_selector={"disktype": "ssd", "example.com/pool": "a"})
    tolerations = [
        {"key": "spot", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "gone", "operator": "Equal", "value": "x", "effect": "NoExecute", "tolerationSeconds": 30},
    ]
    yield "tolerations", make_spec(tolerations=tolerations)
    yield "affinity", make_spec(affinity={"nodeAffinity": node_affinity, "podAntiAffinity": pod_affinity})
    yield "topology spread", make_spec(action="deploy", replicas=3, topology_spread=[spread])
    yield "scheduler", make_spec(scheduler_name="runyard-gpu")
    yield "priority class", make_spec(priority_class="urgent")
    yield "runtime class", make_spec(runtime_class="gvisor")
    yield "service account", make_spec(service_account="trainer")
    yield "host aliases", make_spec(host_aliases=[{"ip": "10.1.2.3", "hostnames": ["store", "store.local"]}])


def _iter_volumes() -> Iterable[tuple[str, EffectiveSpec]]:
    gi = Quantity.parse("10Gi")
    yield "disk", make_spec(disk=Disk(size=gi))
    yield "disk with a class", make_spec(disk=Disk(size=gi, storage_class="fast"))
    yield "disk in an empty dir", make_spec(disk=Disk(size=gi, medium="empty_dir"))
    yield "claim", make_spec(volumes=[claim()])
    yield "claim with a class and a sub path", make_spec(volumes=[claim(storage_class="fast", sub_path="a/b")])
    yield "kept claim", make_spec(volumes=[claim(lifetime="keep")])
    yield "claim for a week", make_spec(action="serve", volumes=[claim(lifetime=604800)])
    yield "existing claim", make_spec(volumes=[make_volume("persistent_volume_claim", claim_name="run-x.data")])
    yield "shared volume", make_spec(action="deploy", volumes=[make_volume("shared_volume", claim_name="run-x.data")])
    yield "ephemeral", make_spec(volumes=[make_volume("ephemeral", size="2Gi", storage_class="fast")])
    yield "empty dir", make_spec(volumes=[make_volume("empty_dir")])
    yield "empty dir with a limit", make_spec(volumes=[make_volume("empty_dir", size="1Gi", medium="Memory")])
    yield "shared memory", make_spec(volumes=[make_volume("empty_dir", name="shm", mount_path="/dev/shm", size="64Mi")])
    data = {"config.yaml": "a: 1\n", "empty": ""}
    yield "config map with data", make_spec(volumes=[make_volume("config_map", data=data)])
    two = [make_volume("config_map", data=data), make_volume("config_map", name="b", mount_path="/b", data={"x": "y"})]
    yield "two config maps", make_spec(volumes=two)
    named = make_volume("config_map", config_map="settings", config_map_version="v1", data=data, sub_path="a")
    yield "config map of the project", make_spec(volumes=[named])
    yield "image volume", make_spec(volumes=[make_volume("image", image="registry.example.com/model:7")])
    yield "longest volume name", make_spec(volumes=[claim(name="v" * 63)])


def _iter_identities() -> Iterable[tuple[str, EffectiveSpec]]:
    yield "user", make_spec(run_as_user=1000)
    yield "user, group and fs group", make_spec(run_as_user=1000, run_as_group=3000, fs_group=2000)
    yield "baseline", make_spec(pod_security="baseline", run_as_user=1000)
    yield "secret variable", make_spec(secrets=[SecretUse(name="TOKEN")])
    yield "secret file", make_spec(secrets=[SecretUse(name="kaggle", mount_path="/secrets/kaggle.json")], fs_group=7)
    yield "variables", make_spec(envs={"EMPTY": "", "A": "1", "my.odd-name": "ü $(A) $$"})


def _iter_serving() -> Iterable[tuple[str, EffectiveSpec]]:
    ports = [ServicePort(port=80, target_port=8080), ServicePort(port=443, target_port=8080, name="tls")]
    yield "serve", make_spec(action="serve")
    yield "serve with ports", make_spec(action="serve", service_ports=ports, service_type="NodePort", replicas=2)
    taken = [ServicePort(port=80, target_port=80, name="port81"), ServicePort(port=81, target_port=81)]
    yield "serve with names that clash", make_spec(action="serve", service_ports=taken)
    yield (
        "serve with readiness",
        make_spec(action="serve", readiness_path="/healthz?full=1", service_type="LoadBalancer"),
    )
    yield "serve with an alias", make_spec(action="serve", service_name="main")
    yield "serve with a claim", make_spec(action="serve", volumes=[claim()])
    yield "serve with a pending timeout", make_spec(action="serve", pending_timeout_seconds=90)
    yield "deploy", make_spec(action="deploy", replicas=0)


def _iter_programs() -> Iterable[tuple[str, EffectiveSpec]]:
    yield "job", make_spec()
    yield (
        "command and args",
        make_spec(command=["sh", "-c"], args=["echo $0 $1", "a b", ""], working_dir="/tmp", image_pull_policy="Always"),
    )
    yield "python with a command", make_spec(kind="python", image="python:3.11", command=["python3", "-V"])
    yield "pull secrets", make_spec(image_pull_secrets=["registry-a", "registry-b"])
    times = {"timeout_seconds": 3600, "ttl_seconds": 60, "grace_period_seconds": 0, "pending_timeout_seconds": 90}
    yield "job with times", make_spec(backoff_limit=3, **times)
    resources = {
        "cpu": make_sides("500m", "2"),
        "mem": make_sides("1.5Gi", "1771674010"),
        "ephemeral-storage": make_sides("1G"),
    }
    yield "resources", make_spec(resources=resources)
    yield "gpus", make_spec(gpu=2, gpu_resource="nvidia.com/gpu", resources={"cpu": make_sides(limit="4")})
    extended = {"example.com/nic": make_sides("1", "1"), "hugepages-2Mi": make_sides("4Mi", "4Mi")}
    yield "extended resources", make_spec(resources={"mem": make_sides("1Gi"), **extended})
    yield "no gpus", make_spec(gpu=0, gpu_resource="nvidia.com/gpu")
    labels = {"team": "a", "runyard.io/run": "other", "dhcore/x": "y", "job-name": "z", "pod-template-hash": "1"}
    yield "admin's labels", make_spec(labels={**labels, "app.kubernetes.io/managed-by": "me"}, profile="1xa100")


def _combine() -> EffectiveSpec:
    """A service that uses nearly everything at once."""
    fields = {
        "profile": "1xa100",
        "resources": freeze({"cpu": make_sides("1"), "mem": make_sides("1Gi", "1181116007")}),
        "gpu": 1,
        "gpu_resource": "nvidia.com/gpu",
        "disk": Disk(size=Quantity.parse("5Gi")),
        "volumes": (claim(), make_volume("empty_dir", name="shm", mount_path="/dev/shm")),
        "envs": freeze({"A": "1"}),
        "secrets": (SecretUse(name="TOKEN"), SecretUse(name="kaggle", mount_path="/secrets/kaggle.json")),
        "run_as_user": 1000,
        "fs_group": 2000,
    }
    return replace(SPECS["serve with ports"], service_name="main", **fields)


SPECS: dict[str, EffectiveSpec] = {
    **dict(_iter_programs()),
    **dict(_iter_scheduling()),
    **dict(_iter_volumes()),
    **dict(_iter_identities()),
    **dict(_iter_serving()),
}
SPECS["everything"] = _combine()
