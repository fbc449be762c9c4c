"""Planted bypasses of every default denial: changes to objects that were legal, by the ruled field they break."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runyard.spec import denials
from tests.unit.domain.legal_objects import make_job, make_service
from tests.unit.domain.planted_bypasses import CONTAINER, Objects, append_to, find, pod, set_at

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class PlantedDenial:
    """One denied value: how to plant it, the rule that permits it, and the run fields that ask for the same."""

    field: str
    plant: Callable[[Objects], None]
    permitting: Mapping[str, Any]
    asked: Mapping[str, Any]
    make: Callable[[], Objects] = make_job

    @property
    def policies(self) -> dict[str, dict[str, Any]]:
        """Policies under which the value stays denied."""
        return {
            "no policy": {},
            "a policy that names others": {self.field: _OTHERS[self.field]},
            "only the project's policy names it": {"projects": {"vision": {self.field: dict(self.permitting)}}},
        }


_OTHERS: Mapping[str, dict[str, Any]] = {
    "tolerations": {"allowed": [{"key": "spot"}, {"key": "*"}]},
    "service_type": {"options": ["NodePort", "ClusterIP"]},
    "priority_class": {"options": ["batch", "low"]},
    "envs": {"allowed": ["EPOCHS", "HF_TOKEN", "*"]},
    "affinity.namespaces": {"allowed": ["team-*"]},
    "volumes.claim_name": {"allowed": ["other-*"]},
}


def _tolerate(**toleration: str) -> PlantedDenial:
    permitting = {"allowed": [{"key": "spot"}, {"key": toleration.get("key", "")}]}
    plant = append_to("tolerations", value=toleration)
    return PlantedDenial("tolerations", plant, permitting, {"tolerations": [toleration]})


def _serve_as(kind: str) -> PlantedDenial:
    def plant(objects: Objects) -> None:
        for item in objects:
            if item["kind"] == "Service":
                item["spec"]["type"] = kind

    return PlantedDenial("service_type", plant, {"options": ["NodePort", kind]}, {"service_type": kind}, make_service)


def _prioritize(name: str) -> PlantedDenial:
    plant = set_at("priorityClassName", value=name)
    return PlantedDenial("priority_class", plant, {"allowed": ["batch", name]}, {"priority_class": name})


def _name_variable(name: str) -> PlantedDenial:
    """Adds the variable; changes it where the platform sets it."""

    def plant(objects: Objects) -> None:
        env = pod(objects)["containers"][0]["env"]
        env[:] = [entry for entry in env if entry["name"] != name] + [{"name": name, "value": "x"}]

    return PlantedDenial("envs", plant, {"allowed": ["EPOCHS", "HF_TOKEN", name]}, {"envs": {name: "x"}})


def _read_variable_from_secret(name: str) -> PlantedDenial:
    def plant(objects: Objects) -> None:
        reference = {"secretKeyRef": {"name": "run-r1-bb82030dbc2bcab-secrets", "key": name}}
        append_to(*CONTAINER, "env", value={"name": name, "valueFrom": reference})(objects)
        find(objects, "Secret")["data"][name] = "aHVudGVyMg=="

    return PlantedDenial("envs", plant, {"allowed": ["EPOCHS", "HF_TOKEN", name]}, {"secrets": [name]})


def _reach_into(kind: str, rule: str, term: dict[str, Any], pattern: str) -> PlantedDenial:
    term = {"topologyKey": "zone", **term}
    entry = term if rule == _REQUIRED else {"weight": 1, "podAffinityTerm": term}
    plant, asked = set_at("affinity", kind, rule, value=[entry]), {"affinity": {kind: {rule: [entry]}}}
    return PlantedDenial("affinity.namespaces", plant, {"allowed": [pattern]}, asked)


def _spell(pattern: str) -> str:
    """A name that a pattern of `spec.denials` covers."""
    return pattern.replace("*", "x")


PLANTED: Mapping[str, PlantedDenial] = {
    "a keyless toleration": _tolerate(operator="Exists"),
    "a keyless toleration of one effect": _tolerate(operator="Exists", effect="NoExecute"),
    **{f"a toleration of {key}": _tolerate(key=key, operator="Exists") for key in denials.RESERVED_TAINTS},
    "a toleration of one value": _tolerate(key=denials.RESERVED_TAINTS[0], operator="Equal", value="a"),
    **{f"a Service of type {kind}": _serve_as(kind) for kind in denials.SERVICE_TYPES},
    **{f"the priority class {pattern}": _prioritize(_spell(pattern)) for pattern in denials.PRIORITY_CLASSES},
    "the priority class of node agents": _prioritize("system-node-critical"),
    "the priority class of the control plane": _prioritize("system-cluster-critical"),
    **{f"the variable {pattern}": _name_variable(_spell(pattern)) for pattern in denials.ENVS},
    "a platform's variable from a secret": _read_variable_from_secret("DHCORE_ACCESS_TOKEN"),
    "a required affinity to another namespace": _reach_into(
        "podAffinity", _REQUIRED, {"namespaces": ["kube-system"]}, "kube-*"
    ),
    "a preferred anti-affinity to another namespace": _reach_into(
        "podAntiAffinity", _PREFERRED, {"namespaces": ["speech"]}, "speech"
    ),
    "an affinity to all namespaces": _reach_into("podAffinity", _PREFERRED, {"namespaceSelector": {}}, "*"),
    "an existing claim": PlantedDenial(
        "volumes.claim_name",
        set_at("volumes", 1, "persistentVolumeClaim", "claimName", value="datasets"),
        {"allowed": ["data*"]},
        {
            "volumes": [
                {
                    "volume_type": "persistent_volume_claim",
                    "name": "d",
                    "mount_path": "/d",
                    "spec": {"claim_name": "datasets"},
                }
            ]
        },
    ),
}


def strip_scratch_class(objects: Objects) -> Objects:
    """The same objects with a scratch volume that needs no policy: its class is always the policy's."""
    del pod(objects)["volumes"][0]["ephemeral"]["volumeClaimTemplate"]["spec"]["storageClassName"]
    return objects
