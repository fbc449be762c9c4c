"""DigitalHub's settings as a policy: an admin who moves over brings the environment that configured its Core."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from runyard.spec.digitalhub.takeover import move_problem
from runyard.spec.environment import read_plain_text
from runyard.spec.names import check_dns_subdomain, check_qualified_name
from runyard.spec.policy import Policy, read_policy
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem, Refused, find_nearest, list_words
from runyard.spec.readers import Findings, expect_option, refuse
from runyard.spec.run_fields import PULL_POLICIES
from runyard.spec.services import SERVICE_TYPES

_PLAIN: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "K8S_RESOURCE_CPU_DEFAULT": ("resources.cpu", "default"),
        "K8S_RESOURCE_CPU_LIMIT": ("resources.cpu.limit", "default"),
        "K8S_RESOURCE_MEM_DEFAULT": ("resources.mem", "default"),
        "K8S_RESOURCE_MEM_LIMIT": ("resources.mem.limit", "default"),
        "K8S_RESOURCE_MEM_TOLERATION": ("platform", "mem_tolerance"),
        "K8S_RESOURCE_GPU_KEY": ("platform", "gpu_resources"),
        "K8S_RESOURCE_PVC_DEFAULT": ("volumes.size", "default"),
        "K8S_RESOURCE_PVC_LIMIT": ("volumes.size", "max"),
        "K8S_RESOURCE_PVC_STORAGE_CLASS": ("volumes.storage_class", "default"),
        "K8S_RESOURCE_EPHEMERAL_DEFAULT": ("resources.ephemeral-storage", "default"),
        "K8S_RESOURCE_EPHEMERAL_LIMIT": ("resources.ephemeral-storage.limit", "default"),
        "K8S_RESOURCE_EPHEMERAL_STORAGE_CLASS": ("resources.disk.storage_class", "default"),
        "K8S_EMPTY_DIR_SIZE": ("volumes.size_limit", "default"),
        "K8S_SEC_USER": ("run_as_user", "default"),
        "K8S_SEC_GROUP": ("run_as_group", "default"),
        "K8S_JOB_DEADLINE": ("timeout", "default"),
        "K8S_IMAGE_PULL_POLICY": ("image_pull_policy", "default"),
        "K8S_SERVICE_TYPE": ("service_type", "default"),
        "K8S_REGISTRY_SECRET": ("platform", "image_pull_secrets"),
        "IMAGE_REGISTRY_SECRET": ("platform", "image_pull_secrets"),
    }
)
"""Settings that are one clause of a policy."""

_ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        "K8S_NAMESPACE": "the namespace is the server's own setting",
        "K8S_ENABLE_LOGS": "logs are always kept",
        "K8S_ENABLE_METRICS": "usage is read wherever the cluster has metrics",
        "K8S_ENABLE_RESULTS": "a run's objects are shown as long as they exist; nothing is dumped into its status",
        "K8S_INIT_IMAGE": "there is no init container, so nothing takes its place",
        "K8S_EMPTY_DIR_MEDIUM": "the medium is said in the volume's `spec.medium`",
        "K8S_RESOURCE_WORKFLOW_STORAGE_CLASS": "there are no workflows here, so nothing takes its place",
        "K8S_RESOURCE_WORKFLOW_ACCESS_MODE": "there are no workflows here, so nothing takes its place",
        "DH_CONFIG_COMMON_MAPS": "variables for every run stand in the policy: `envs: {default: …}`",
        "DH_CONFIG_COMMON_SECRETS": "a project's secrets are named in `secrets`; none reaches a run unasked",
        "K8S_TEMPLATES": "template files are loaded as profiles; they are given as files, not by a setting",
        "K8S_JOB_SUSPEND": "every job begins suspended and is released by the platform",
        "K8S_CUSTOM_API_GROUPS": "no custom resources are made, so nothing takes its place",
        "MONITORS_DELAY": "the cluster is watched, not polled, so nothing takes its place",
        "LOGS_MAX_LENGTH": "how much of a log is kept is the server's own setting",
        "BUILDER_FRAMEWORK": "how images are built is the server's own setting",
        "IMAGE_REGISTRY": "the registry of built images is the server's own setting",
        "LOKI_URL": "logs are kept by the platform itself; nothing is read from Loki",
    }
)
"""Settings that say nothing that a policy could say, and what takes their place."""

_FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "LOKI_": _ELSEWHERE["LOKI_URL"],
        "KANIKO_": _ELSEWHERE["BUILDER_FRAMEWORK"],
        "BUILDKIT_": _ELSEWHERE["BUILDER_FRAMEWORK"],
    }
)
_JUDGED = ("K8S_SEC_DISABLE_ROOT", "K8S_SEC_SECCOMP_PROFILE")
_KNOWN = (*_PLAIN, *_ELSEWHERE, *_JUDGED)


@dataclass(slots=True)
class _Draft:
    """A policy in the making, and which setting each of its clauses comes from."""

    content: dict[str, dict[str, Any]] = field(default_factory=dict)
    origins: dict[Path, str] = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings)
    warnings: list[Problem] = field(default_factory=list)

    def put(self, field_name: str, clause: str, value: Any, *, setting: str) -> None:
        self.content.setdefault(field_name, {})[clause] = value
        self.origins[*field_name.split("."), clause] = setting

    def warn(self, code: Code, setting: str, message: str, **details: Any) -> None:
        self.warnings.append(Problem(code, (setting,), message, **details))

    def find_setting(self, path: Path) -> str | None:
        """The setting that a clause of the policy, or something within it, comes from."""
        lengths = range(len(path), 0, -1)
        return next((self.origins[path[:length]] for length in lengths if path[:length] in self.origins), None)


def read_settings(values: Mapping[str, str]) -> tuple[Policy, list[Problem]]:
    """The policy that DigitalHub's settings amount to, and warnings; raises `Refused` with every bad value.

    An empty value is blank. What is not said is not set: DigitalHub's own defaults do not come along.
    """
    draft = _Draft()
    strangers: list[str] = []
    for name, given in values.items():
        if name == "IMAGE_REGISTRY_SECRET" and values.get("K8S_REGISTRY_SECRET"):
            draft.warn(Code.SETTING_ELSEWHERE, name, "is not used: K8S_REGISTRY_SECRET goes before it")
            continue
        value = draft.findings.read(_read_text, given, name)
        if not value:
            continue
        if name in _PLAIN:
            _put_plain(name, value, draft)
        elif name in _JUDGED:
            draft.findings.read(lambda value, name=name: _judge(name, value, draft), value, name)  # type: ignore[misc]
        elif reason := _ELSEWHERE.get(name) or _find_family(name):
            draft.warn(Code.SETTING_ELSEWHERE, name, f"is not used: {reason}")
        elif name.startswith("K8S_"):
            nearest = find_nearest(name, _KNOWN)
            draft.warn(Code.SETTING_UNKNOWN, name, "no such setting of DigitalHub is known", suggestion=nearest)
        else:
            strangers.append(name)
    _add_notes(values, strangers, draft)
    return _finish(draft), draft.warnings


def _put_plain(name: str, value: str, draft: _Draft) -> None:
    field_name, clause = _PLAIN[name]
    read = draft.findings.read(_READERS.get(name, _read_as_given), value, name)
    if read is None:
        return
    draft.put(field_name, clause, read, setting=name)
    if name == "K8S_SERVICE_TYPE" and read == "LoadBalancer":
        # An `allowed` list refuses what it does not name, and DigitalHub's users may choose the others as well.
        draft.put(field_name, "allowed", ["ClusterIP", "NodePort", "LoadBalancer"], setting=name)


def _judge(name: str, value: str, draft: _Draft) -> None:
    """Settings that the platform decides itself."""
    if name == "K8S_SEC_SECCOMP_PROFILE":
        expect_option(value, what="another seccomp profile", options=["RuntimeDefault"])
        return
    is_disabled = expect_option(value.lower(), what="the value", options=["true", "false"]) == "true"
    if not is_disabled:
        draft.warn(Code.SETTING_ROOT, name, "root is never run here, whatever this says", value=value)


def _add_notes(values: Mapping[str, str], strangers: list[str], draft: _Draft) -> None:
    if values.get("K8S_RESOURCE_MEM_LIMIT"):
        message = "DigitalHub uses it only without a memory request; here it is the limit of every run that says none"
        draft.warn(Code.SETTING_WIDER, "K8S_RESOURCE_MEM_LIMIT", message)
    ephemeral = values.get("K8S_RESOURCE_EPHEMERAL_STORAGE_CLASS")
    if ephemeral and ephemeral != values.get("K8S_RESOURCE_PVC_STORAGE_CLASS"):
        message = "holds for `resources.disk` alone; ephemeral volumes take the class of K8S_RESOURCE_PVC_STORAGE_CLASS"
        draft.warn(Code.SETTING_NARROWER, "K8S_RESOURCE_EPHEMERAL_STORAGE_CLASS", message)
    if strangers:
        message = f"not settings for Kubernetes, and not read: {list_words(sorted(strangers))}"
        draft.warnings.append(Problem(Code.SETTING_STRANGER, (), message))


def _finish(draft: _Draft) -> Policy:
    policy = Policy()
    try:
        policy = read_policy(draft.content)
    except Refused as refused:
        for problem in refused.problems:
            setting = draft.find_setting(problem.path)
            draft.findings.problems.append(move_problem(problem, (setting,)) if setting else problem)
    draft.findings.finish()
    return policy


def _find_family(name: str) -> str | None:
    return next((reason for prefix, reason in _FAMILIES.items() if name.startswith(prefix)), None)


def _read_text(given: Any) -> str:
    return "" if given is None else read_plain_text(given).strip()


def _read_as_given(value: str) -> Any:
    return value


def _read_seconds(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,10}", value):
        raise refuse(Code.NUMBER_INVALID, "must be a number of seconds", value=value, allowed="such as 259200")
    return int(value)


def _read_name(value: str) -> str:
    if error := check_dns_subdomain(value):
        raise refuse(Code.NAME_INVALID, error, value=value)
    return value


def _read_gpu_key(value: str) -> list[str]:
    if error := check_qualified_name(value):
        raise refuse(Code.NAME_INVALID, error, value=value)
    return [value]


def _read_service_type(value: str) -> str:
    service_type = expect_option(value, what="the service type", options=SERVICE_TYPES)
    if service_type == "ExternalName":
        raise refuse(Code.SETTING_EXTERNAL, "cannot be a default: it would have to name a host", value=value)
    return service_type


_READERS: Mapping[str, Callable[[str], Any]] = MappingProxyType(
    {
        "K8S_JOB_DEADLINE": _read_seconds,
        "K8S_RESOURCE_GPU_KEY": _read_gpu_key,
        "K8S_RESOURCE_PVC_STORAGE_CLASS": _read_name,
        "K8S_RESOURCE_EPHEMERAL_STORAGE_CLASS": _read_name,
        "K8S_REGISTRY_SECRET": lambda value: [_read_name(value)],
        "IMAGE_REGISTRY_SECRET": lambda value: [_read_name(value)],
        "K8S_IMAGE_PULL_POLICY": lambda value: expect_option(value, what="the pull policy", options=PULL_POLICIES),
        "K8S_SERVICE_TYPE": _read_service_type,
    }
)
