"""The arguments of `func.run(…)` and `project.new_function(…)`, typed. A type checker refuses unknown ones; so do we.

Every TypedDict can be written as a dict or called like a class: `Volume(name="data", mount_path="/data")`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from runyard.sdk.errors import ArgumentError
from runyard.spec.problems import find_nearest

Action = Literal["job", "serve", "deploy", "build"]
Amount = str | int | float
Variables = Mapping[str, str]


class Sides(TypedDict, total=False):
    """A resource by its two sides."""

    requests: Amount
    limits: Amount


class Resources(TypedDict, total=False):
    """Hardware of a run: `{"cpu": "8"}`, or `{"cpu": {"requests": "8", "limits": "12"}}`."""

    cpu: Amount | Sides
    mem: Amount | Sides
    gpu: Amount | Sides
    disk: Amount | Sides


class VolumeSpec(TypedDict, total=False):
    """The options of a volume."""

    size: str
    size_limit: str
    medium: str
    claim_name: str
    storage_class: str
    lifetime: str
    name: str
    data: Mapping[str, str]
    read_only: bool
    image: str


class Volume(TypedDict, total=False):
    """A volume of a run."""

    volume_type: Literal[
        "persistent_volume_claim", "config_map", "secret", "empty_dir", "ephemeral", "shared_volume", "image"
    ]
    name: str
    mount_path: str
    spec: VolumeSpec


class Env(TypedDict):
    """An environment variable."""

    name: str
    value: str


class NodeSelector(TypedDict):
    """A label that the node must have."""

    key: str
    value: str


class Toleration(TypedDict, total=False):
    """A toleration as in a Kubernetes pod."""

    key: str
    operator: str
    value: str
    effect: str
    toleration_seconds: int


class ServicePort(TypedDict, total=False):
    """A port of a service."""

    port: int
    target_port: int


class Source(TypedDict, total=False):
    """The code of a function."""

    source: str
    handler: str
    init_function: str
    code: str
    base64: str
    lang: str


class RunArguments(TypedDict, total=False):
    """Everything that a run may ask for; docs/users/resources.md explains each field."""

    profile: str
    resources: Resources
    node_selector: Sequence[NodeSelector] | Variables
    tolerations: Sequence[Toleration]
    affinity: Mapping[str, Any]
    runtime_class: str
    priority_class: str
    volumes: Sequence[Volume]
    secrets: Sequence[str]
    envs: Sequence[Env] | Variables
    fs_group: int | str
    run_as_user: int | str
    run_as_group: int | str
    image: str
    command: str | Sequence[str]
    args: Sequence[str | int | float | bool]
    working_dir: str
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"]
    replicas: int
    service_ports: Sequence[ServicePort | int]
    service_type: str
    service_name: str
    readiness_path: str
    backoff_limit: int
    disruptions: Literal["ignore", "count"]
    timeout: int | str
    pending_timeout: int | str
    ttl: int | str
    grace_period: int | str
    parameters: Mapping[str, Any]
    inputs: Mapping[str, Any]
    init_parameters: Mapping[str, Any]
    python_version: str
    source: Source
    requirements: Sequence[str]


class FunctionArguments(RunArguments, total=False):
    """What a function may have: its code, and defaults for its runs."""

    code: str
    code_src: str
    base64: str
    handler: str
    init_function: str
    lang: str
    base_image: str


RUN_ARGUMENTS = tuple(RunArguments.__annotations__)
FUNCTION_ARGUMENTS = tuple(FunctionArguments.__annotations__)


def check_arguments(given: Iterable[str], *, known: Iterable[str], of: str) -> None:
    """Refuse unknown arguments, each with the nearest known one. Raises `ArgumentError`."""
    allowed = tuple(known)
    unknown = [name for name in given if name not in allowed]
    if not unknown:
        return
    words = []
    for name in unknown:
        nearest = find_nearest(name, allowed)
        words.append(f"unknown argument `{name}`" + (f"; did you mean `{nearest}`?" if nearest else ""))
    hint = "" if all("did you mean" in each for each in words) else f"; allowed: {', '.join(allowed)}"
    raise ArgumentError(f"{of}: {', '.join(words)}{hint}")


def to_spec(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as JSON: what is None is left out; an entity is sent as its key."""
    return {name: _to_json(value) for name, value in arguments.items() if value is not None}


def _to_json(value: Any) -> Any:
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if isinstance(key := getattr(value, "key", None), str):
        return key
    if isinstance(value, Mapping):
        return {str(name): _to_json(each) for name, each in value.items()}
    if isinstance(value, Iterable):
        return [_to_json(each) for each in value]
    raise ArgumentError(
        f"a value of type {type(value).__name__} cannot be sent; allowed: text, numbers, lists, mappings"
    )
