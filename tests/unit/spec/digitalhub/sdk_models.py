"""The models by which released SDKs validate every entity of a response; one failure fails a whole list."""

from enum import Enum
from typing import Annotated, Any

from pydantic import BaseModel, Field

Amount = Annotated[str, Field(pattern=r"[\d]+|^([0-9])+([a-zA-Z])+$")]
ABSENT: Any = None
"""Optional but not nullable, as in the SDKs."""


class OldVolumeType(Enum):
    CLAIM = "persistent_volume_claim"
    EMPTY = "empty_dir"
    EPHEMERAL = "ephemeral"


class VolumeType(Enum):
    CLAIM = "persistent_volume_claim"
    EMPTY = "empty_dir"
    EPHEMERAL = "ephemeral"
    SHARED = "shared_volume"


class VolumeSpec(BaseModel):
    size: str | None = None
    size_limit: str | None = None
    medium: str | None = None


class OldVolume(BaseModel):
    volume_type: OldVolumeType
    name: str
    mount_path: str
    spec: VolumeSpec | None = None


class Volume(BaseModel):
    volume_type: VolumeType
    name: str
    mount_path: str
    spec: VolumeSpec | None = None


class Sides(BaseModel):
    requests: Amount = ABSENT
    limits: Amount = ABSENT


class OldResources(BaseModel):
    cpu: Sides | None = None
    mem: Sides | None = None
    gpu: Sides | None = None


class Resources(BaseModel):
    cpu: Amount | int | None = None
    mem: Amount | int | None = None
    gpu: Amount | int | None = None
    disk: Amount | int | None = None


class Env(BaseModel):
    name: str
    value: str


class NodeSelector(BaseModel):
    key: str
    value: str


class Toleration(BaseModel):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class Requirement(BaseModel):
    key: str
    operator: str
    values: list[str] | None = None


class NodeTerm(BaseModel):
    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelectorTerms(BaseModel):
    node_selector_terms: list[NodeTerm]


class PreferredNode(BaseModel):
    preference: NodeSelectorTerms
    weight: int


class LabelSelector(BaseModel):
    match_expressions: list[Requirement] | None = None
    match_labels: dict[str, str] | None = None


class PodTerm(BaseModel):
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    topology_key: str | None = None


class WeightedPod(BaseModel):
    pod_affinity_term: PodTerm
    weight: int


class NodeAffinity(BaseModel):
    preferred_during_scheduling_ignored_during_execution: list[PreferredNode] | None = None
    required_during_scheduling_ignored_during_execution: NodeSelectorTerms | None = None


class PodAffinity(BaseModel):
    preferred_during_scheduling_ignored_during_execution: list[WeightedPod] | None = None
    required_during_scheduling_ignored_during_execution: list[PodTerm] | None = None


class Affinity(BaseModel):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Common(BaseModel):
    envs: list[Env] | None = None
    secrets: list[str] | None = None
    profile: str | None = None


class Placed(Common):
    """Of the releases that know placement: 0.13 and 0.14."""

    node_selector: list[NodeSelector] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    runtime_class: str | None = None
    priority_class: str | None = None


class OldFields(Placed):
    volumes: list[OldVolume] | None = None
    resources: OldResources | None = None


class Fields14(Placed):
    volumes: list[Volume] | None = None
    resources: Resources | None = None


class Fields15(Common):
    volumes: list[Volume] | None = None
    resources: Resources | None = None


class RunFields(BaseModel):
    """Of python and container runs together, none of which may be null."""

    task: str
    function: str = ABSENT
    workflow: str = ABSENT
    local_execution: bool = False
    source: dict[str, Any] = ABSENT
    image: str = ABSENT
    base_image: str = ABSENT
    image_pull_policy: str = ABSENT
    command: str = ABSENT
    python_version: str = ABSENT
    service_type: str = ABSENT
    service_name: str = ABSENT
    args: list[str] = ABSENT
    requirements: list[Any] = ABSENT
    instructions: list[str] = ABSENT
    service_ports: list[dict[str, Any]] = ABSENT
    replicas: int = ABSENT
    run_as_user: int = ABSENT
    run_as_group: int = ABSENT
    fs_group: int = ABSENT
    inputs: dict[str, Any] = ABSENT
    parameters: dict[str, Any] = ABSENT
    init_parameters: dict[str, Any] = ABSENT


class Run13(RunFields, OldFields):
    """Kind `X+run`."""


class Run14(RunFields, Fields14):
    """Kind `X+action:run`."""


class Run15(RunFields, Fields15):
    """Kind `X+action:run`, of 0.15 and 0.16."""


class ServiceType(Enum):
    EXTERNAL_NAME = "ExternalName"
    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class Port(BaseModel):
    port: int
    target_port: int


class TaskFields(BaseModel):
    function: str
    service_type: ServiceType = ABSENT
    service_ports: list[Port] = ABSENT
    service_name: str = ABSENT
    run_as_user: int = Field(default=ABSENT, ge=0)
    run_as_group: int = Field(default=ABSENT, ge=0)
    fs_group: int = Field(default=ABSENT, ge=1)
    instructions: list[str] = ABSENT


class ReplicasFromZero(BaseModel):
    replicas: int = Field(default=ABSENT, ge=0)


class ReplicasFromOne(BaseModel):
    replicas: int = Field(default=ABSENT, ge=1)


class PullPolicy(Enum):
    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class Language(Enum):
    PYTHON = "python"


class ContainerSource(BaseModel):
    source: str = ABSENT
    handler: str = ABSENT
    code: str = ABSENT
    base64: str = ABSENT
    lang: str = ABSENT


class PythonSource(ContainerSource):
    init_function: str = ABSENT
    lang: Language = Language.PYTHON  # type: ignore[assignment]


class ContainerFunction(BaseModel):
    image: str = ABSENT
    base_image: str = ABSENT
    image_pull_policy: PullPolicy = ABSENT
    command: str = ABSENT
    source: ContainerSource = ABSENT


class PythonFunction(BaseModel):
    source: PythonSource
    python_version: str
    image: str = ABSENT
    base_image: str = ABSENT
    requirements: list[str] = ABSENT


class Task13(TaskFields, OldFields):
    """The common fields of all releases, as 0.13 reads them."""


class Task14(TaskFields, Fields14):
    """The same in 0.14."""


class Task15(TaskFields, Fields15):
    """The same in 0.15 and 0.16."""
