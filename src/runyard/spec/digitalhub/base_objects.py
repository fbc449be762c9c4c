"""DigitalHub's base objects: the fields that a profile's `base` takes from a Job, a Deployment or a Service.

Nothing is ignored silently: keys that the platform sets itself give a warning; keys that would weaken a pod are
refused, and so are unknown ones.
"""

from typing import Any, get_args

from runyard.spec.digitalhub.base_pods import POD_TEMPLATE
from runyard.spec.digitalhub.takeover import Shape, Takeover
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem, find_nearest, shorten
from runyard.spec.profile import BaseKind
from runyard.spec.readers import expect_mapping, refuse
from runyard.spec.run_fields import AdminFields

BASE_KINDS: tuple[BaseKind, ...] = get_args(BaseKind)
UNUSED_KIND = "CronJob"
"""DigitalHub accepts it in a template and ignores it."""


def read_base(given: Any) -> tuple[BaseKind, AdminFields, list[Problem]]:
    """The kind of a base object, its fields, and warnings; raises `Refused` with every problem."""
    document = expect_mapping(given, of="a Kubernetes object")
    kind = _read_kind(document.get("kind"))
    takeover = Takeover()
    takeover.walk(document, _OBJECTS[kind], ())
    return kind, takeover.finish(), takeover.warnings


def _read_kind(given: Any) -> BaseKind:
    for kind in BASE_KINDS:
        if given == kind:
            return kind
    if given == "ConfigMap":
        message = "a ConfigMap cannot be a base object; use the values of its `data` as template files"
        raise refuse(Code.BASE_KIND, message, path=("kind",), value=given, allowed=", ".join(BASE_KINDS))
    raise refuse(
        Code.BASE_KIND,
        "unknown kind of base object",
        path=("kind",),
        value=given,
        allowed=", ".join((*BASE_KINDS, UNUSED_KIND)),
        suggestion=find_nearest(shorten(given), BASE_KINDS),
    )


def _take_service_ports(takeover: Takeover, given: Any, path: Path) -> None:
    ports: list[Any] = []
    for index, entry in enumerate(takeover.open_list(given, path, of="ports")):
        port = dict(takeover.open_mapping(entry, (*path, index), of="a port's fields"))
        if port.pop("protocol", None) not in (None, "TCP"):
            takeover.refuse(
                Code.BASE_PROTOCOL, (*path, index, "protocol"), "only TCP is supported", value=entry["protocol"]
            )
        ports.append({key: value for key, value in port.items() if value is not None})
    takeover.take("service_ports", ports, path)


_JOB = Shape(
    taken={"ttlSecondsAfterFinished": "ttl", "activeDeadlineSeconds": "timeout", "backoffLimit": "backoff_limit"},
    parts={"template": POD_TEMPLATE},
    overwritten=(
        *("parallelism", "completions", "completionMode", "selector", "manualSelector", "suspend"),
        *("podFailurePolicy", "podReplacementPolicy", "backoffLimitPerIndex", "maxFailedIndexes", "managedBy"),
    ),
)
_DEPLOYMENT = Shape(
    taken={"replicas": "replicas"},
    parts={"template": POD_TEMPLATE},
    overwritten=(
        *("selector", "strategy", "revisionHistoryLimit", "progressDeadlineSeconds", "minReadySeconds", "paused"),
    ),
)
_SERVICE = Shape(
    taken={"type": "service_type"},
    readers={"ports": _take_service_ports},
    overwritten=(
        *("selector", "sessionAffinity", "sessionAffinityConfig", "ipFamilies", "ipFamilyPolicy", "clusterIP"),
        *("internalTrafficPolicy", "externalTrafficPolicy", "publishNotReadyAddresses"),
    ),
)


def _object(kind: BaseKind, api_version: str, spec: Shape) -> Shape:
    return Shape(fixed={"apiVersion": api_version, "kind": kind}, parts={"spec": spec}, overwritten=("metadata",))


_OBJECTS: dict[BaseKind, Shape] = {
    "Job": _object("Job", "batch/v1", _JOB),
    "Deployment": _object("Deployment", "apps/v1", _DEPLOYMENT),
    "Service": _object("Service", "v1", _SERVICE),
}
