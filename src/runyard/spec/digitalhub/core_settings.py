"""Converts the environment variables of a DigitalHub Core into a policy, for admins who migrate."""

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
        "K8S_RESOURCE_CPU_LIMIT": ("resources.cpu.limits", "default"),
        "K8S_RESOURCE_MEM_DEFAULT": ("resources.mem", "default"),
        "K8S_RESOURCE_MEM_LIMIT": ("resources.mem.limits", "default"),
        "K8S_RESOURCE_MEM_TOLERATION": ("platform", "mem_tolerance"),
        "K8S_RESOURCE_GPU_KEY": ("platform", "gpu_resources"),
        "K8S_RESOURCE_PVC_DEFAULT": ("volumes.size", "default"),
        "K8S_RESOURCE_PVC_LIMIT": ("volumes.size", "max"),
        "K8S_RESOURCE_PVC_STORAGE_CLASS": ("volumes.storage_class", "default"),
        "K8S_RESOURCE_EPHEMERAL_DEFAULT": ("resources.ephemeral-storage", "default"),
        "K8S_RESOURCE_EPHEMERAL_LIMIT": ("resources.ephemeral-storage.limits", "default"),
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
"""Settings that become one clause of a policy."""

_ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        "K8S_NAMESPACE": "the namespace is a setting of the server",
        "K8S_ENABLE_LOGS": "logs are always kept",
        "K8S_ENABLE_METRICS": "usage is read if the cluster has metrics",
        "K8S_ENABLE_RESULTS": "a run's objects are shown while they exist; they are not copied into its status",
        "K8S_INIT_IMAGE": "there is no init container",
        "K8S_EMPTY_DIR_MEDIUM": "set the medium in the volume's `spec.medium`",
        "K8S_RESOURCE_WORKFLOW_STORAGE_CLASS": "workflows are not supported",
        "K8S_RESOURCE_WORKFLOW_ACCESS_MODE": "workflows are not supported",
        "DH_CONFIG_COMMON_MAPS": "set variables of every run in the policy: `envs: {default: …}`",
        "DH_CONFIG_COMMON_SECRETS": "a run gets only the secrets that it names in `secrets`",
        "K8S_TEMPLATES": "pass template files as profiles",
        "K8S_JOB_SUSPEND": "every job is created suspended and released by the platform",
        "K8S_CUSTOM_API_GROUPS": "the platform creates no custom resources",
        "MONITORS_DELAY": "the platform watches the cluster instead of polling it",
        "LOGS_MAX_LENGTH": "the log size is a setting of the server",
        "BUILDER_FRAMEWORK": "image builds are configured by settings of the server",
        "IMAGE_REGISTRY": "the registry of built images is a setting of the server",
        "LOKI_URL": "the platform keeps logs itself and does not read Loki",
    }
)
"""Settings that have no equivalent in a policy, and the reason or replacement."""

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
    """A policy under construction, with the setting that each clause comes from."""

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
        """The setting that a clause of the policy comes from."""
        lengths = range(len(path), 0, -1)
        return next((self.origins[path[:length]] for length in lengths if path[:length] in self.origins), None)


def read_settings(values: Mapping[str, str]) -> tuple[Policy, list[Problem]]:
    """The policy equivalent to DigitalHub's settings, and warnings; raises `Refused` with every invalid value.

    An empty value is unset. DigitalHub's defaults for unset values are not applied.
    """
    draft = _Draft()
    strangers: list[str] = []
    for name, given in values.items():
        if name == "IMAGE_REGISTRY_SECRET" and values.get("K8S_REGISTRY_SECRET"):
            draft.warn(Code.SETTING_ELSEWHERE, name, "K8S_REGISTRY_SECRET overrides it; ignored")
            continue
        value = draft.findings.read(_read_text, given, name)
        if not value:
            continue
        if name in _PLAIN:
            _put_plain(name, value, draft)
        elif name in _JUDGED:
            draft.findings.read(lambda value, name=name: _judge(name, value, draft), value, name)  # type: ignore[misc]
        elif reason := _ELSEWHERE.get(name) or _find_family(name):
            draft.warn(Code.SETTING_ELSEWHERE, name, f"ignored: {reason}")
        elif name.startswith("K8S_"):
            nearest = find_nearest(name, _KNOWN)
            draft.warn(Code.SETTING_UNKNOWN, name, "unknown DigitalHub setting; ignored", suggestion=nearest)
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
        # An `allowed` list refuses all other values, and DigitalHub's users may choose these too.
        draft.put(field_name, "allowed", ["ClusterIP", "NodePort", "LoadBalancer"], setting=name)


def _judge(name: str, value: str, draft: _Draft) -> None:
    """Settings for which the platform allows only one value."""
    if name == "K8S_SEC_SECCOMP_PROFILE":
        expect_option(value, what="seccomp profile", options=["RuntimeDefault"])
        return
    is_disabled = expect_option(value.lower(), what="boolean", options=["true", "false"]) == "true"
    if not is_disabled:
        draft.warn(Code.SETTING_ROOT, name, "runs never use root; ignored", value=value)


def _add_notes(values: Mapping[str, str], strangers: list[str], draft: _Draft) -> None:
    if values.get("K8S_RESOURCE_MEM_LIMIT"):
        message = "becomes the limit of every run without one; DigitalHub uses it only without a memory request"
        draft.warn(Code.SETTING_WIDER, "K8S_RESOURCE_MEM_LIMIT", message)
    ephemeral = values.get("K8S_RESOURCE_EPHEMERAL_STORAGE_CLASS")
    if ephemeral and ephemeral != values.get("K8S_RESOURCE_PVC_STORAGE_CLASS"):
        message = "applies to `resources.disk` only; ephemeral volumes use K8S_RESOURCE_PVC_STORAGE_CLASS"
        draft.warn(Code.SETTING_NARROWER, "K8S_RESOURCE_EPHEMERAL_STORAGE_CLASS", message)
    if strangers:
        message = f"ignored, because they do not configure Kubernetes: {list_words(sorted(strangers))}"
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
    service_type = expect_option(value, what="service type", options=SERVICE_TYPES)
    if service_type == "ExternalName":
        raise refuse(Code.SETTING_EXTERNAL, "ExternalName cannot be a default: it needs a host name", value=value)
    return service_type


_READERS: Mapping[str, Callable[[str], Any]] = MappingProxyType(
    {
        "K8S_JOB_DEADLINE": _read_seconds,
        "K8S_RESOURCE_GPU_KEY": _read_gpu_key,
        "K8S_RESOURCE_PVC_STORAGE_CLASS": _read_name,
        "K8S_RESOURCE_EPHEMERAL_STORAGE_CLASS": _read_name,
        "K8S_REGISTRY_SECRET": lambda value: [_read_name(value)],
        "IMAGE_REGISTRY_SECRET": lambda value: [_read_name(value)],
        "K8S_IMAGE_PULL_POLICY": lambda value: expect_option(value, what="pull policy", options=PULL_POLICIES),
        "K8S_SERVICE_TYPE": _read_service_type,
    }
)
