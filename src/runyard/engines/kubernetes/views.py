"""What the engine keeps of each object of a run: narrow structs, decoded from the wire.

Every active run costs one anchor and its pods in memory, so a view names only fields that an observation reads. Texts
that most objects have in common, such as types of conditions and times of the same second, are kept once (`_intern`).
"""

import sys
from typing import Any, TypeVar

import msgspec

from runyard.kube import Malformed, Metadata, View

LONGEST_EVENT_BYTES = 1024
"""How much of the message of an event is kept. Kubernetes' own components write at most as much."""

V = TypeVar("V", bound=View)

ABSENT = ""
"""Times and names are empty where Kubernetes omits them.

A time that Kubernetes does not know, but cannot omit, is null: those fields are `str | None`. A view that cannot be
decoded would blind the reflector for all objects.
"""


def _intern(struct: msgspec.Struct, *names: str) -> None:
    """Share the texts of these fields with all structs that have the same ones."""
    for name in names:
        if text := getattr(struct, name):
            msgspec.structs.force_setattr(struct, name, sys.intern(text))


class RunLabels(msgspec.Struct, frozen=True, gc=False):
    """The labels by which objects know their run (`manifests.metadata`)."""

    run_uid: str = msgspec.field(default=ABSENT, name="runyard.io/run-uid")
    run: str = msgspec.field(default=ABSENT, name="runyard.io/run")
    project: str = msgspec.field(default=ABSENT, name="runyard.io/project")
    action: str = msgspec.field(default=ABSENT, name="runyard.io/action")
    volume: str = msgspec.field(default=ABSENT, name="runyard.io/volume")
    volume_id: str = msgspec.field(default=ABSENT, name="runyard.io/volume-id")

    def __post_init__(self) -> None:
        _intern(self, "project", "action")


class RunAnnotations(msgspec.Struct, frozen=True, gc=False):
    """The annotations of an anchor. `run_uid`, `run` and `project` are there if their labels had to be hashed."""

    generation: str = msgspec.field(default="0", name="runyard.io/generation")
    wish: str = msgspec.field(default="hold", name="runyard.io/wish")
    ttl: str = msgspec.field(default=ABSENT, name="runyard.io/ttl")
    replicas: str = msgspec.field(default=ABSENT, name="runyard.io/replicas")
    run_uid: str = msgspec.field(default=ABSENT, name="runyard.io/run-uid")
    run: str = msgspec.field(default=ABSENT, name="runyard.io/run")
    project: str = msgspec.field(default=ABSENT, name="runyard.io/project")

    def __post_init__(self) -> None:
        _intern(self, "generation", "wish", "ttl")


_NO_LABELS = RunLabels()
_NO_ANNOTATIONS = RunAnnotations()


class Condition(msgspec.Struct, frozen=True, gc=False):
    """One condition of a Job, Deployment, pod or node."""

    type: str
    status: str = "Unknown"
    reason: str = ABSENT
    message: str = ABSENT
    since: str | None = msgspec.field(default=None, name="lastTransitionTime")

    def __post_init__(self) -> None:
        _intern(self, "type", "status", "reason", "since")


class PodMetadata(Metadata, frozen=True, gc=False):
    """Of a pod, Service or claim of a run."""

    labels: RunLabels = _NO_LABELS
    created_at: str = msgspec.field(default=ABSENT, name="creationTimestamp")
    deleted_at: str = msgspec.field(default=ABSENT, name="deletionTimestamp")

    def __post_init__(self) -> None:
        _intern(self, "created_at")


class AnchorMetadata(PodMetadata, frozen=True, gc=False):
    """Of a Job or Deployment."""

    annotations: RunAnnotations = _NO_ANNOTATIONS
    generation: int = 0
    """Kubernetes' own count of changes of the spec, which a controller compares with what it has observed."""


class FailurePolicy(msgspec.Struct, frozen=True, gc=False):
    """A Job that has one ignores disrupted pods; `manifests` renders no other."""


class JobSpec(msgspec.Struct, frozen=True, gc=False):
    """What the engine changes of a Job, and what decides about retries."""

    suspend: bool = False
    backoff_limit: int = msgspec.field(default=6, name="backoffLimit")
    deadline_seconds: int | None = msgspec.field(default=None, name="activeDeadlineSeconds")
    failure_policy: FailurePolicy | None = msgspec.field(default=None, name="podFailurePolicy")


class JobStatus(msgspec.Struct, frozen=True, gc=False):
    """What the Job controller counted."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0
    started_at: str = msgspec.field(default=ABSENT, name="startTime")
    completed_at: str = msgspec.field(default=ABSENT, name="completionTime")
    conditions: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        _intern(self, "started_at")


class JobView(View, frozen=True, gc=False):
    """A Job that is an anchor."""

    metadata: AnchorMetadata
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def has_ended(self) -> bool:
        """Whether it has no pods left to run, by the word of its controller."""
        return any(one.type in ("Complete", "Failed") and one.status == "True" for one in self.status.conditions)


class DeploymentSpec(msgspec.Struct, frozen=True, gc=False):
    """What the engine changes of a Deployment."""

    replicas: int = 1


class DeploymentStatus(msgspec.Struct, frozen=True, gc=False):
    """What the Deployment controller counted."""

    observed_generation: int = msgspec.field(default=0, name="observedGeneration")
    replicas: int = 0
    ready_replicas: int = msgspec.field(default=0, name="readyReplicas")
    updated_replicas: int = msgspec.field(default=0, name="updatedReplicas")
    conditions: tuple[Condition, ...] = ()


class DeploymentView(View, frozen=True, gc=False):
    """A Deployment that is an anchor."""

    metadata: AnchorMetadata
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """A container that has not started, and why."""

    reason: str = ABSENT
    message: str = ABSENT


class Running(msgspec.Struct, frozen=True, gc=False):
    """A container that runs."""

    started_at: str | None = msgspec.field(default=None, name="startedAt")

    def __post_init__(self) -> None:
        _intern(self, "started_at")


class Terminated(msgspec.Struct, frozen=True, gc=False):
    """How an instance of a container ended."""

    exit_code: int = msgspec.field(default=0, name="exitCode")
    signal: int = 0
    reason: str = ABSENT
    message: str = ABSENT
    container_id: str = msgspec.field(default=ABSENT, name="containerID")
    started_at: str | None = msgspec.field(default=None, name="startedAt")
    finished_at: str | None = msgspec.field(default=None, name="finishedAt")


class ContainerState(msgspec.Struct, frozen=True, gc=False):
    """At most one of the three is set."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


_NO_STATE = ContainerState()


class ContainerStatus(msgspec.Struct, frozen=True, gc=False):
    """A container, and its instance before the current one."""

    name: str
    state: ContainerState = _NO_STATE
    last_state: ContainerState = msgspec.field(default=_NO_STATE, name="lastState")
    restart_count: int = msgspec.field(default=0, name="restartCount")
    container_id: str = msgspec.field(default=ABSENT, name="containerID")
    """Of the newest instance; empty if none was ever created."""
    is_ready: bool = msgspec.field(default=False, name="ready")

    def __post_init__(self) -> None:
        _intern(self, "name")


class ResourceAmounts(msgspec.Struct, frozen=True, gc=False):
    """As the spec writes them; those that messages have figures for."""

    cpu: str = ABSENT
    memory: str = ABSENT
    disk: str = msgspec.field(default=ABSENT, name="ephemeral-storage")
    nvidia_gpu: str = msgspec.field(default=ABSENT, name="nvidia.com/gpu")
    amd_gpu: str = msgspec.field(default=ABSENT, name="amd.com/gpu")


class ContainerResources(msgspec.Struct, frozen=True, gc=False):
    """Of one container."""

    limits: ResourceAmounts = ResourceAmounts()
    requests: ResourceAmounts = ResourceAmounts()


class Container(msgspec.Struct, frozen=True, gc=False):
    """What an observation needs of a container's spec: out of memory is told with limit and request."""

    name: str
    image: str = ABSENT
    resources: ContainerResources = ContainerResources()

    def __post_init__(self) -> None:
        _intern(self, "name", "image")


class PodSpec(msgspec.Struct, frozen=True, gc=False):
    """Where a pod runs, and its containers."""

    node_name: str = msgspec.field(default=ABSENT, name="nodeName")
    restart_policy: str = msgspec.field(default="Always", name="restartPolicy")
    containers: tuple[Container, ...] = ()

    def __post_init__(self) -> None:
        _intern(self, "node_name", "restart_policy")


class PodStatus(msgspec.Struct, frozen=True, gc=False):
    """What the kubelet says of a pod."""

    phase: str = "Pending"
    reason: str = ABSENT
    message: str = ABSENT
    host_ip: str = msgspec.field(default=ABSENT, name="hostIP")
    started_at: str = msgspec.field(default=ABSENT, name="startTime")
    conditions: tuple[Condition, ...] = ()
    init_containers: tuple[ContainerStatus, ...] = msgspec.field(default=(), name="initContainerStatuses")
    containers: tuple[ContainerStatus, ...] = msgspec.field(default=(), name="containerStatuses")

    def __post_init__(self) -> None:
        _intern(self, "phase", "host_ip", "started_at")


class PodView(View, frozen=True, gc=False):
    """A pod of a run."""

    metadata: PodMetadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class ServicePortView(msgspec.Struct, frozen=True, gc=False):
    """One port of a Service."""

    port: int
    name: str = ABSENT
    target_port: int | str = msgspec.field(default=0, name="targetPort")
    node_port: int = msgspec.field(default=0, name="nodePort")


class ServiceSpec(msgspec.Struct, frozen=True, gc=False):
    """How a Service is reached."""

    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(default=ABSENT, name="clusterIP")
    external_ips: tuple[str, ...] = msgspec.field(default=(), name="externalIPs")
    """None is set by us: an operator may add some."""
    ports: tuple[ServicePortView, ...] = ()


class Ingress(msgspec.Struct, frozen=True, gc=False):
    """One address of a load balancer."""

    ip: str = ABSENT
    hostname: str = ABSENT


class LoadBalancer(msgspec.Struct, frozen=True, gc=False):
    """The addresses that a load balancer has so far."""

    ingress: tuple[Ingress, ...] = ()


class ServiceStatus(msgspec.Struct, frozen=True, gc=False):
    """What the cluster gave a Service."""

    load_balancer: LoadBalancer = msgspec.field(default=LoadBalancer(), name="loadBalancer")


class ServiceView(View, frozen=True, gc=False):
    """A Service of a run."""

    metadata: PodMetadata
    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()


class ClaimSpec(msgspec.Struct, frozen=True, gc=False):
    """What a claim is bound to."""

    storage_class: str | None = msgspec.field(default=None, name="storageClassName")
    volume_name: str = msgspec.field(default=ABSENT, name="volumeName")


class ClaimStatus(msgspec.Struct, frozen=True, gc=False):
    """What a claim has."""

    phase: str = "Pending"
    capacity: dict[str, str] = {}


class ClaimView(View, frozen=True, gc=False):
    """A PersistentVolumeClaim: of a run, or a kept volume."""

    metadata: PodMetadata
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class InvolvedObject(msgspec.Struct, frozen=True, gc=False):
    """What an event is about."""

    kind: str = ABSENT
    name: str = ABSENT
    uid: str = ABSENT


class EventSeries(msgspec.Struct, frozen=True, gc=False):
    """How often an event of the newer API was repeated."""

    count: int = 1
    last_at: str | None = msgspec.field(default=None, name="lastObservedTime")


class EventView(View, frozen=True, gc=False):
    """A warning of a controller, scheduler or kubelet about one object. Events carry no labels of their object."""

    involved: InvolvedObject = msgspec.field(default=InvolvedObject(), name="involvedObject")
    type: str = ABSENT
    reason: str = ABSENT
    message: str = ABSENT
    count: int | None = None
    first_at: str | None = msgspec.field(default=None, name="firstTimestamp")
    last_at: str | None = msgspec.field(default=None, name="lastTimestamp")
    at: str | None = msgspec.field(default=None, name="eventTime")
    series: EventSeries | None = None

    def __post_init__(self) -> None:
        """Keep the beginning of a long message; the apiserver limits it only by the size of the whole object."""
        if len(self.message) * 4 > LONGEST_EVENT_BYTES:
            text = self.message.encode(errors="replace")[:LONGEST_EVENT_BYTES].decode(errors="ignore")
            msgspec.structs.force_setattr(self, "message", text)


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
    """What the control plane says of a node."""

    conditions: tuple[Condition, ...] = ()


class NodeView(View, frozen=True, gc=False):
    """A node, for the readiness that pods on it depend on."""

    status: NodeStatus = NodeStatus()


def read_view(kind: type[V], body: dict[str, Any]) -> V:
    """The view of an object that a request answered with. Raises `Malformed`."""
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise Malformed(f"the answer is not the object that was asked for: {error}") from error


def narrow_pod(pod: PodView) -> PodView:
    """A pod with what its logs are read by, and exit codes: no messages, which may be long, no images, no resources."""
    status = pod.status
    return msgspec.structs.replace(
        pod,
        spec=PodSpec(
            node_name=pod.spec.node_name,
            restart_policy=pod.spec.restart_policy,
            containers=tuple(Container(name=one.name) for one in pod.spec.containers),
        ),
        status=msgspec.structs.replace(
            status,
            message=ABSENT,
            conditions=tuple(msgspec.structs.replace(one, message=ABSENT) for one in status.conditions),
            init_containers=tuple(map(_narrow_container, status.init_containers)),
            containers=tuple(map(_narrow_container, status.containers)),
        ),
    )


def _narrow_container(status: ContainerStatus) -> ContainerStatus:
    return msgspec.structs.replace(
        status, state=_narrow_state(status.state), last_state=_narrow_state(status.last_state)
    )


def _narrow_state(state: ContainerState) -> ContainerState:
    return ContainerState(
        waiting=None if state.waiting is None else msgspec.structs.replace(state.waiting, message=ABSENT),
        running=state.running,
        terminated=None if state.terminated is None else msgspec.structs.replace(state.terminated, message=ABSENT),
    )
