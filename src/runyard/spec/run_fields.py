"""The fields of a run: `RunFields` for users, `AdminFields` for profiles and base templates. Every field is optional.

Functions, tasks and runs have the same fields; `runyard.domain` decides which value wins.
"""

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runyard.spec.duration import DurationError, parse_duration
from runyard.spec.environment import (
    ENVS_SCHEMA,
    NODE_SELECTOR_SCHEMA,
    SECRETS_SCHEMA,
    SecretUse,
    find_variables_set_twice,
    read_envs,
    read_labels,
    read_node_selector,
    read_plain_text,
    read_secrets,
)
from runyard.spec.kubernetes.placement import (
    AFFINITY_SCHEMA,
    TOLERATIONS_SCHEMA,
    read_affinity,
    read_tolerations,
    read_topology_spread,
)
from runyard.spec.misplaced_fields import find_misplaced
from runyard.spec.names import check_slug
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, find_nearest, list_words, shorten
from runyard.spec.readers import (
    Findings,
    describe_type,
    expect_integer,
    expect_mapping,
    expect_option,
    expect_text,
    fold_keys,
    read_by,
    read_each,
    refuse,
)
from runyard.spec.resources import (
    ADMIN_RESOURCES_SCHEMA,
    RESOURCES_SCHEMA,
    Resources,
    read_admin_resources,
    read_resources,
)
from runyard.spec.services import (
    SERVICE_PORTS_SCHEMA,
    SERVICE_TYPES,
    ServicePort,
    read_readiness_path,
    read_service_name,
    read_service_ports,
    read_service_type,
)
from runyard.spec.volumes import VOLUMES_SCHEMA, Volume, read_image, read_object_name, read_volumes

Model = TypeVar("Model", bound=BaseModel)

Action = Literal["job", "serve", "deploy", "build"]
ACTIONS: tuple[Action, ...] = get_args(Action)
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
DISRUPTIONS = ("ignore", "count")
PYTHON_VERSIONS = tuple(f"PYTHON3_{minor}" for minor in range(10, 15))
LARGEST_ID = 2**31 - 1

_TEXT: dict[str, Any] = {"type": "string"}
_ID: dict[str, Any] = {"type": ["integer", "string"], "minimum": 1, "maximum": LARGEST_ID}
_DURATION: dict[str, Any] = {"type": ["string", "integer"], "examples": ["90s", "2h", "7d"]}
_OBJECT: dict[str, Any] = {"type": "object"}
_SOURCE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "handler": {**_TEXT, "description": "Name of the Python function to call.", "examples": ["main"]},
        "code": {**_TEXT, "description": "The code, as text.", "examples": ["def main(x): return x + 1"]},
        "base64": {**_TEXT, "description": "The code, in base64.", "examples": ["ZGVmIG1haW4oKTogcGFzcwo="]},
        "source": {
            **_TEXT,
            "description": "Address of the code, or path of a local file, which the client sends.",
            "examples": ["git+https://example.org/team/train.git"],
        },
        "init_function": {
            **_TEXT,
            "description": "Name of the function that a service calls once, before its first request.",
            "examples": ["load"],
        },
    },
}
_WORDS: dict[str, Any] = {"type": "array", "items": {"type": ["string", "number", "boolean"]}}
_TOLERATION: dict[str, Any] = {
    "key": "maintenance",
    "operator": "Equal",
    "value": "true",
    "effect": "NoExecute",
    "tolerationSeconds": 300,
}
_NODE_AFFINITY: dict[str, Any] = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}]
    }
}
_SPREAD: dict[str, Any] = {
    "maxSkew": 1,
    "topologyKey": "topology.kubernetes.io/zone",
    "whenUnsatisfiable": "ScheduleAnyway",
}
_KUBERNETES_LIST: dict[str, Any] = {"type": "array", "items": {"type": "object"}}


def _read_duration(given: Any) -> int:
    try:
        return parse_duration(given)
    except (DurationError, TypeError) as error:
        nearest = getattr(error, "suggestion", None)
        raise refuse(
            Code.DURATION_INVALID, str(error), value=given, allowed="90s, 15m, 2h, 7d", suggestion=nearest
        ) from None


def _read_user_id(given: Any) -> int:
    is_zero = re.fullmatch("[+-]?0+", given) if isinstance(given, str) else given == 0 and not isinstance(given, bool)
    if is_zero:
        raise refuse(Code.IDENTITY_ROOT, "0 is root; runs may not use root", value=given, allowed=f"1 to {LARGEST_ID}")
    return expect_integer(given, what="the id", at_least=1, at_most=LARGEST_ID)


def read_profile_name(given: Any) -> str:
    """A profile's id."""
    name = expect_text(given, what="a profile's name", most=253)
    if error := check_slug(name):
        raise refuse(Code.PROFILE_NAME, error, value=name)
    return name


def _read_profile(given: Any) -> str | None:
    return None if given == "" else read_profile_name(given)  # DigitalHub's console sends "" where none is chosen


def _read_words(given: Any) -> tuple[str, ...]:
    return read_each(read_plain_text, given, of="words")


def _read_command(given: Any) -> tuple[str, ...]:
    return (expect_text(given, what="the command", most=32_768),) if isinstance(given, str) else _read_words(given)


def _read_working_dir(given: Any) -> str:
    path = expect_text(given, what="the working directory", most=1024)
    if not path.startswith("/"):
        raise refuse(Code.WORKING_DIR_RELATIVE, "must be an absolute path", value=path, suggestion=f"/{path}")
    return path


def _read_replicas(given: Any) -> int:
    return expect_integer(given, what="the number of replicas", at_least=0, at_most=1000)


def _read_backoff(given: Any) -> int:
    return expect_integer(given, what="the number of retries", at_least=0, at_most=100)


def read_pull_policy(given: Any) -> str:
    """When the image is pulled."""
    return expect_option(given, what="pull policy", options=PULL_POLICIES)


def _read_disruptions(given: Any) -> str:
    return expect_option(given, what="way to treat disruptions", options=DISRUPTIONS)


def _read_python_version(given: Any) -> str:
    meant = re.fullmatch(r"(?:python)?3[._]?([0-9]{1,3})(?:\.[0-9]+)?", shorten(given), re.IGNORECASE)
    if given not in PYTHON_VERSIONS and meant is not None:
        minor = min(max(int(meant[1]), 10), 14)
        allowed = ", ".join(PYTHON_VERSIONS)
        raise refuse(
            Code.VALUE_OPTION, "unknown Python version", value=given, allowed=allowed, suggestion=f"PYTHON3_{minor}"
        )
    return expect_option(given, what="Python version", options=PYTHON_VERSIONS)


def _read_values(given: Any) -> Mapping[str, Any]:
    return MappingProxyType(dict(expect_mapping(given, of="names to values")))


def _read_requirements(given: Any) -> tuple[str, ...]:
    return read_each(lambda entry: expect_text(entry, what="a requirement"), given, of="requirements")


def _read_object_names(given: Any) -> tuple[str, ...]:
    return read_each(
        lambda entry: read_object_name(entry.get("name") if isinstance(entry, Mapping) else entry), given, of="names"
    )


def _read_address(given: Any) -> str:
    try:
        return str(ipaddress.ip_address(expect_text(given, what="an address", most=45)))
    except ValueError:
        raise refuse(Code.ADDRESS_INVALID, "is not a valid IP address", value=given) from None


def _read_host_aliases(given: Any) -> tuple[Mapping[str, Any], ...]:
    return read_each(_read_host_alias, given, of="host aliases")


def _read_host_alias(given: Any) -> Mapping[str, Any]:
    findings = Findings()
    alias = expect_mapping(given, of="`ip` and `hostnames`")
    if alias.keys() != {"ip", "hostnames"}:
        raise refuse(Code.HOST_ALIASES_INVALID, "a host alias needs `ip` and `hostnames`", value=given)
    address = findings.read(_read_address, alias["ip"], "ip")
    names = findings.read(lambda value: read_each(read_object_name, value, of="names"), alias["hostnames"], "hostnames")
    findings.finish()
    return {"ip": address, "hostnames": list(names or ())}


def _asked(reader: Callable[[Any], Any], schema: Mapping[str, Any]) -> Any:
    return read_by(reader, schema)


class RunFields(BaseModel):
    """The fields that users may set. Each is accepted in several forms and read into one."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    profile: Annotated[str | None, *_asked(_read_profile, _TEXT)] = Field(
        default=None, description="Name of an admin's profile; its values override yours.", examples=["1xa100"]
    )
    resources: Annotated[Resources | None, *_asked(read_resources, RESOURCES_SCHEMA)] = None
    node_selector: Annotated[Mapping[str, str] | None, *_asked(read_node_selector, NODE_SELECTOR_SCHEMA)] = None
    tolerations: Annotated[list[dict[str, Any]] | None, *_asked(read_tolerations, TOLERATIONS_SCHEMA)] = Field(
        default=None,
        description="Tolerations as in a Kubernetes pod; camelCase or snake_case.",
        examples=[[{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}], [_TOLERATION]],
    )
    affinity: Annotated[dict[str, Any] | None, *_asked(read_affinity, AFFINITY_SCHEMA)] = Field(
        default=None,
        description="Affinity as in a Kubernetes pod; camelCase or snake_case.",
        examples=[{"nodeAffinity": _NODE_AFFINITY}],
    )
    runtime_class: Annotated[str | None, *_asked(read_object_name, _TEXT)] = Field(
        default=None, description="Name of a RuntimeClass.", examples=["nvidia"]
    )
    priority_class: Annotated[str | None, *_asked(read_object_name, _TEXT)] = Field(
        default=None, description="Name of a PriorityClass.", examples=["batch-low"]
    )
    volumes: Annotated[tuple[Volume, ...] | None, *_asked(read_volumes, VOLUMES_SCHEMA)] = None
    secrets: Annotated[tuple[SecretUse, ...] | None, *_asked(read_secrets, SECRETS_SCHEMA)] = None
    envs: Annotated[Mapping[str, str] | None, *_asked(read_envs, ENVS_SCHEMA)] = None
    fs_group: Annotated[int | None, *_asked(_read_user_id, _ID)] = Field(
        default=None, description="Group id that owns mounted volumes.", examples=[1000]
    )
    run_as_user: Annotated[int | None, *_asked(_read_user_id, _ID)] = Field(
        default=None, description="User id of the process; never root.", examples=[1000]
    )
    run_as_group: Annotated[int | None, *_asked(_read_user_id, _ID)] = Field(
        default=None, description="Group id of the process.", examples=[1000]
    )
    image: Annotated[str | None, *_asked(read_image, _TEXT)] = Field(
        default=None, description="Container image.", examples=["busybox:1.36"]
    )
    command: Annotated[tuple[str, ...] | None, *_asked(_read_command, {"anyOf": [_TEXT, _WORDS]})] = Field(
        default=None,
        description="Program to start, as a list of words; plain text counts as one word.",
        examples=[["python", "train.py"]],
    )
    args: Annotated[tuple[str, ...] | None, *_asked(_read_words, _WORDS)] = Field(
        default=None, description="Arguments of the program.", examples=[["--epochs", "3"]]
    )
    working_dir: Annotated[str | None, *_asked(_read_working_dir, _TEXT)] = Field(
        default=None, description="Working directory of the program.", examples=["/app"]
    )
    image_pull_policy: Annotated[str | None, *_asked(read_pull_policy, {"enum": list(PULL_POLICIES)})] = Field(
        default=None, description="When the image is pulled."
    )
    replicas: Annotated[int | None, *_asked(_read_replicas, {"type": "integer", "minimum": 0, "maximum": 1000})] = (
        Field(default=None, description="Number of replicas of a service.", examples=[2])
    )
    service_ports: Annotated[tuple[ServicePort, ...] | None, *_asked(read_service_ports, SERVICE_PORTS_SCHEMA)] = None
    service_type: Annotated[str | None, *_asked(read_service_type, {"enum": list(SERVICE_TYPES)})] = Field(
        default=None, description="Type of the Kubernetes Service."
    )
    service_name: Annotated[str | None, *_asked(read_service_name, _TEXT)] = Field(
        default=None, description="Additional, stable name of the service.", examples=["my-model"]
    )
    readiness_path: Annotated[str | None, *_asked(read_readiness_path, _TEXT)] = Field(
        default=None, description="HTTP path that returns 200 once the service is ready.", examples=["/healthz"]
    )
    backoff_limit: Annotated[int | None, *_asked(_read_backoff, {"type": "integer", "minimum": 0, "maximum": 100})] = (
        Field(default=None, description="Number of retries of a failed job.", examples=[2])
    )
    disruptions: Annotated[str | None, *_asked(_read_disruptions, {"enum": list(DISRUPTIONS)})] = Field(
        default=None,
        description="Whether a job's pod that is evicted, preempted or drained uses up a retry: "
        "ignore (the default: another pod is started) or count.",
        examples=["count"],
    )
    timeout: Annotated[int | None, *_asked(_read_duration, _DURATION)] = Field(
        default=None, description="Maximum duration of a job, including the time it is pending."
    )
    pending_timeout: Annotated[int | None, *_asked(_read_duration, _DURATION)] = Field(
        default=None, description="Maximum time that the run may be pending."
    )
    ttl: Annotated[int | None, *_asked(_read_duration, _DURATION)] = Field(
        default=None, description="How long the objects of a finished job are kept."
    )
    grace_period: Annotated[int | None, *_asked(_read_duration, _DURATION)] = Field(
        default=None, description="Time between SIGTERM and SIGKILL when the run is stopped."
    )
    parameters: Annotated[Mapping[str, Any] | None, *_asked(_read_values, _OBJECT)] = Field(
        default=None, description="Arguments of a python function.", examples=[{"x": 41}]
    )
    inputs: Annotated[Mapping[str, Any] | None, *_asked(_read_values, _OBJECT)] = Field(
        default=None,
        description="Input entities of a python function, by argument name.",
        examples=[{"dataset": "store://demo/dataitem/table/rows:1"}],
    )
    init_parameters: Annotated[Mapping[str, Any] | None, *_asked(_read_values, _OBJECT)] = Field(
        default=None, description="Arguments of a python service's init function.", examples=[{"path": "/models/net"}]
    )
    python_version: Annotated[str | None, *_asked(_read_python_version, {"enum": list(PYTHON_VERSIONS)})] = Field(
        default=None, description="Python version of a python function."
    )
    source: Annotated[Mapping[str, Any] | None, *_asked(_read_values, _SOURCE)] = Field(
        default=None,
        description="Code and handler of a function.",
        examples=[{"handler": "main", "code": "def main(x): return x + 1"}],
    )
    requirements: Annotated[tuple[str, ...] | None, *_asked(_read_requirements, {"type": "array", "items": _TEXT})] = (
        Field(default=None, description="Packages that a python function needs.", examples=[["numpy==2.1"]])
    )


class AdminFields(RunFields):
    """The fields that an admin may set in a profile or a base template: those of users, and these."""

    resources: Annotated[Resources | None, *_asked(read_admin_resources, ADMIN_RESOURCES_SCHEMA)] = None
    labels: Annotated[Mapping[str, str] | None, *_asked(read_labels, _OBJECT)] = Field(
        default=None,
        description="Labels of the run's objects, in addition to the platform's.",
        examples=[{"team": "vision"}],
    )
    image_pull_secrets: Annotated[tuple[str, ...] | None, *_asked(_read_object_names, {"type": "array"})] = Field(
        default=None, description="Kubernetes Secrets with registry credentials.", examples=[["registry"]]
    )
    scheduler_name: Annotated[str | None, *_asked(read_object_name, _TEXT)] = Field(
        default=None, description="Scheduler of the pods.", examples=["volcano"]
    )
    service_account: Annotated[str | None, *_asked(read_object_name, _TEXT)] = Field(
        default=None, description="Service account of the pods; its token is not mounted.", examples=["trainer"]
    )
    host_aliases: Annotated[tuple[Mapping[str, Any], ...] | None, *_asked(_read_host_aliases, _KUBERNETES_LIST)] = (
        Field(
            default=None,
            description="Additional entries of /etc/hosts, as in a Kubernetes pod.",
            examples=[[{"ip": "10.0.0.7", "hostnames": ["data.example.org"]}]],
        )
    )
    topology_spread: Annotated[list[dict[str, Any]] | None, *_asked(read_topology_spread, _KUBERNETES_LIST)] = Field(
        default=None, description="topologySpreadConstraints as in a Kubernetes pod.", examples=[[_SPREAD]]
    )


USER_FIELDS: tuple[str, ...] = tuple(RunFields.model_fields)
ADMIN_FIELDS: tuple[str, ...] = tuple(AdminFields.model_fields)

OTHER_NAMES = MappingProxyType(
    {
        "runtime_class_name": "runtime_class",
        "priority_class_name": "priority_class",
        "env": "envs",
        "affinities": "affinity",
        "service_account_name": "service_account",
        "topology_spread_constraints": "topology_spread",
        "termination_grace_period_seconds": "grace_period",
    }
)


def read_run_fields(given: Any) -> RunFields:
    """A user's fields; raises `Refused` with every problem."""
    return read_model(RunFields, given)


def read_admin_fields(given: Any) -> AdminFields:
    """The fields of a profile or base template; raises `Refused` with every problem."""
    return read_model(AdminFields, given)


def read_model(model: type[Model], given: Any, *, beside: Iterable[str] = ()) -> Model:
    """Any of our models, with keys in camelCase or snake_case; raises `Refused` with every problem.

    `beside` are keys of the document outside the model; the nearest name for an unknown key may be one of them.
    """
    findings = Findings()
    folded, spelling = fold_keys(expect_mapping(given, of="fields"), findings)
    known = set(model.model_fields)
    is_open = model.model_config.get("extra") == "allow"
    misplaced = find_misplaced(folded, known, spelling=spelling)
    for name in [name for name in folded if name not in known]:
        value = folded.pop(name)
        if is_open:
            folded[spelling[name]] = value
            continue
        findings.problems.append(misplaced.get(name) or _unknown_field(spelling[name], name, {*known, *beside}))
    try:
        read = model.model_validate(folded)
    except ValidationError as error:
        findings.problems += [_respell(problem, spelling) for problem in iter_problems(error)]
    else:
        if isinstance(read, RunFields):
            findings.problems += find_variables_set_twice(read.envs, read.secrets)
    findings.finish()
    return read


def _unknown_field(written: str, name: str, known: Iterable[str]) -> Problem:
    meant = OTHER_NAMES.get(name) or find_nearest(name, known)
    return Problem(
        Code.FIELD_UNKNOWN,
        (written,),
        f"unknown field `{written}`",
        allowed=list_words(sorted(known), most=60),
        suggestion=meant,
    )


def _respell(problem: Problem, spelling: Mapping[str, str]) -> Problem:
    first, *rest = problem.path
    written = spelling.get(str(first), first)
    return Problem(problem.code, (written, *rest), problem.message, problem.value, problem.allowed, problem.suggestion)


_FROM_PYDANTIC = {
    "string_type": Code.STRING_TYPE,
    "string_unicode": Code.STRING_UNICODE,
    "dict_type": Code.DICT_TYPE,
}
"""Codes of the errors that pydantic finds itself, in the few fields that no reader of ours reads."""


def iter_problems(error: ValidationError) -> list[Problem]:
    """Pydantic's errors as problems."""
    found: list[Problem] = []
    for entry in error.errors(include_url=False):
        if entry["type"] == "refused":
            found += [problem.under(*entry["loc"]) for problem in entry["ctx"]["problems"].problems]
        else:
            shown = entry["input"] if isinstance(entry["input"], str | int | float) else describe_type(entry["input"])
            found.append(
                Problem(
                    _FROM_PYDANTIC.get(entry["type"], Code.FIELD_INVALID),
                    tuple(entry["loc"]),
                    entry["msg"],
                    value=shown,
                )
            )
    return found
