"""The checks of each level and Kubernetes version, and the verdict for a pod."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal, get_args

from runyard.pods.security import host, identity, kernel, profiles, volumes
from runyard.pods.security.completion import complete_pod
from runyard.pods.security.facts import Pod
from runyard.pods.security.pod_reader import read_pod, read_template
from runyard.pods.security.violations import Finding, Violation
from runyard.spec.problems import shorten

Level = Literal["privileged", "baseline", "restricted"]
_Form = Callable[[Pod], Finding | None]
_Checks = tuple[tuple[str, _Form], ...]

LATEST_MINOR = 36
"""The newest Kubernetes version that these checks were compared with; `latest` means this one."""


@dataclass(frozen=True, slots=True)
class _Check:
    """One of the plugin's checks: its versions, each with its first minor version."""

    name: str
    since: Mapping[int, _Form]
    replaces: str | None = None
    """The check of *baseline* that this check of *restricted* replaces."""

    def find_form(self, minor: int) -> _Form | None:
        """The check of a minor version, or None if that version has none."""
        return next((self.since[first] for first in sorted(self.since, reverse=True) if first <= minor), None)


_BASELINE = (
    _Check("appArmorProfile", {0: profiles.check_apparmor}),
    _Check("capabilities_baseline", {0: kernel.check_added_capabilities}),
    _Check("hostNamespaces", {0: host.check_host_namespaces}),
    _Check("hostPathVolumes", {0: volumes.check_host_path_volumes}),
    _Check("hostPorts", {0: host.check_host_ports}),
    _Check("hostProbesAndHostLifecycle", {34: host.check_handler_hosts}),
    _Check("privileged", {0: host.check_privileged}),
    _Check("procMount", {0: kernel.check_proc_mount, 35: kernel.check_proc_mount_unless_own_users}),
    _Check("seLinuxOptions", {minor: partial(profiles.check_selinux, minor=minor) for minor in (0, 31)}),
    _Check("seccompProfile_baseline", {0: profiles.check_seccomp_annotations, 19: profiles.check_seccomp}),
    _Check("sysctls", {minor: partial(kernel.check_sysctls, minor=minor) for minor in (0, 27, 29, 32)}),
    _Check("windowsHostProcess", {0: host.check_host_process}),
)
_RESTRICTED = (
    _Check(
        "allowPrivilegeEscalation",
        {8: identity.check_privilege_escalation, 25: identity.check_privilege_escalation_unless_windows},
    ),
    _Check(
        "capabilities_restricted",
        {22: kernel.check_all_capabilities_dropped, 25: kernel.check_all_capabilities_dropped_unless_windows},
        replaces="capabilities_baseline",
    ),
    _Check("procMount_restricted", {35: kernel.check_proc_mount}, replaces="procMount"),
    _Check("restrictedVolumes", {0: volumes.check_volume_kinds}, replaces="hostPathVolumes"),
    _Check(
        "runAsNonRoot",
        {0: identity.check_run_as_non_root, 35: identity.check_run_as_non_root_unless_own_users},
    ),
    _Check("runAsUser", {23: identity.check_run_as_user, 35: identity.check_run_as_user_unless_own_users}),
    _Check(
        "seccompProfile_restricted",
        {19: profiles.check_seccomp_required, 25: profiles.check_seccomp_required_unless_windows},
        replaces="seccompProfile_baseline",
    ),
)


def check_pod_security(pod: Mapping[str, Any], *, level: Level, version: str = "latest") -> tuple[Violation, ...]:
    """The violations that the PodSecurity plugin reports for a Pod, in its order and words; empty if it is admitted.

    Raises `UnreadablePod`, a ValueError, for unreadable or unknown fields, and ValueError for an unknown level or
    version: fails closed.
    """
    checks = _get_checks(level, parse_version(version))
    return _judge(complete_pod(read_pod(pod)), checks) if checks else ()


def check_template_security(
    template: Mapping[str, Any], *, level: Level, version: str = "latest"
) -> tuple[Violation, ...]:
    """The violations of the PodTemplateSpec of a Job or Deployment, in the words of the plugin's warning.

    The verdict is that for its pods; raises the same as `check_pod_security`.
    """
    checks = _get_checks(level, parse_version(version))
    return _judge(read_template(template), checks) if checks else ()


def parse_version(version: object) -> int:
    """The minor version of `1.31`, `v1.31` or `latest`."""
    if version == "latest":
        return LATEST_MINOR
    # YAML reads an unquoted 1.30 as the number 1.3, which would be another version.
    match = re.fullmatch(r"v?1\.(0|[1-9][0-9]?)", version, re.ASCII) if isinstance(version, str) else None
    if not match or int(match[1]) > LATEST_MINOR:
        raise ValueError(f"version: unknown version {shorten(version)}; allowed: 1.0 to 1.{LATEST_MINOR}, or latest")
    return int(match[1])


def _get_checks(level: Level, minor: int) -> _Checks:
    """The checks of a level by name, in the plugin's order: *baseline* first, each level by name."""
    if level not in get_args(Level):
        raise ValueError(f"level: unknown level {shorten(level)}; allowed: {', '.join(get_args(Level))}")
    return () if level == "privileged" else _select_checks(level, minor)


@cache
def _select_checks(level: Level, minor: int) -> _Checks:
    chosen = {check.name: form for check in _BASELINE if (form := check.find_form(minor))}
    if level == "restricted":
        for check in _RESTRICTED:
            if form := check.find_form(minor):
                chosen.pop(check.replaces or "", None)
                chosen[check.name] = form
    return tuple(chosen.items())


def _judge(pod: Pod, checks: _Checks) -> tuple[Violation, ...]:
    findings = ((name, check(pod)) for name, check in checks)
    return tuple(Violation(name, finding.reason, finding.detail) for name, finding in findings if finding)
