"""Checks on the security profiles of containers: seccomp, AppArmor, SELinux."""

from collections.abc import Set

from runyard.pods.security.facts import Container, Pod, SecurityContext, SelinuxOptions
from runyard.pods.security.violations import (
    Finding,
    choose,
    name_containers,
    name_setters,
    quote_as_go,
    quote_each,
    select_names,
)

CONFINING_PROFILES = frozenset({"RuntimeDefault", "Localhost"})
APPARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD_ANNOTATION = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER_ANNOTATION = "container.seccomp.security.alpha.kubernetes.io/"
_SELINUX_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
_SELINUX_TYPES_SINCE_31 = _SELINUX_TYPES | {"container_engine_t"}


def check_seccomp_annotations(pod: Pod) -> Finding | None:
    """*Baseline* before 1.19, when seccomp was set by annotations."""
    keys = {_SECCOMP_POD_ANNOTATION, *(_SECCOMP_CONTAINER_ANNOTATION + container.name for container in pod.containers)}
    forbidden = sorted(
        f"{key}={quote_as_go(pod.annotations[key])}"
        for key in keys & pod.annotations.keys()
        if not _confines(pod.annotations[key], names=("runtime/default", "docker/default"))
    )
    if not forbidden:
        return None
    noun = choose("annotation", "annotations", count=len(forbidden))
    return Finding("seccompProfile", f"forbidden {noun} {', '.join(forbidden)}")


def check_seccomp(pod: Pod) -> Finding | None:
    """*Baseline* since 1.19: no unconfined seccomp profile."""
    setters = name_setters(pod, _sets_loose_seccomp)
    if not setters:
        return None
    kinds = sorted({context.seccomp_type or "" for context in pod.contexts if _sets_loose_seccomp(context)})
    detail = f"{setters} must not set securityContext.seccompProfile.type to {quote_each(kinds)}"
    return Finding("seccompProfile", detail)


def check_seccomp_required(pod: Pod) -> Finding | None:
    """*Restricted* since 1.19: the pod or every container must set a confining seccomp profile."""
    if loose := check_seccomp(pod):
        return loose
    names = [] if pod.context.seccomp_type is not None else select_names(pod, _lacks_seccomp)
    if not names:
        return None
    must = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Finding("seccompProfile", f"pod or {name_containers(names)} {must}")


def check_seccomp_required_unless_windows(pod: Pod) -> Finding | None:
    """Since 1.25 Windows pods may leave it unset; an unconfined profile stays forbidden."""
    return check_seccomp(pod) if pod.is_windows else check_seccomp_required(pod)


def check_apparmor(pod: Pod) -> Finding | None:
    """No unconfined AppArmor profile, by field or by annotation."""
    values = sorted({context.apparmor_type or "" for context in pod.contexts if _sets_loose_apparmor(context)})
    setters = [name_setters(pod, _sets_loose_apparmor)] if values else []
    forbidden = sorted(
        f"{key}={quote_as_go(value)}"
        for key, value in pod.annotations.items()
        if key.startswith(APPARMOR_ANNOTATION) and not _confines(value, names=("", "runtime/default"))
    )
    if forbidden:
        setters.append(choose("annotation", "annotations", count=len(forbidden)))
        values += forbidden
    if not setters:
        return None
    return Finding(
        choose("forbidden AppArmor profile", "forbidden AppArmor profiles", count=len(values)),
        f"{' and '.join(setters)} must not set AppArmor profile type to {quote_each(values)}",
    )


def check_selinux(pod: Pod, *, minor: int) -> Finding | None:
    """Only SELinux types for containers; no user, no role."""
    types = _SELINUX_TYPES_SINCE_31 if minor >= 31 else _SELINUX_TYPES
    setters = name_setters(pod, lambda context: _loosens_selinux(context.selinux, types))
    if not setters:
        return None
    options = [context.selinux for context in pod.contexts if context.selinux]
    bad = []
    if bad_types := sorted({option.type for option in options} - types):
        bad.append(f"{choose('type', 'types', count=len(bad_types))} {quote_each(bad_types)}")
    if any(option.user for option in options):
        bad.append("user may not be set")
    if any(option.role for option in options):
        bad.append("role may not be set")
    return Finding("seLinuxOptions", f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(bad)}")


def _confines(annotation: str, *, names: tuple[str, ...]) -> bool:
    return annotation in names or annotation.startswith("localhost/")


def _sets_loose_seccomp(context: SecurityContext) -> bool:
    return context.seccomp_type is not None and context.seccomp_type not in CONFINING_PROFILES


def _lacks_seccomp(container: Container) -> bool:
    return container.context.seccomp_type is None


def _sets_loose_apparmor(context: SecurityContext) -> bool:
    return context.apparmor_type is not None and context.apparmor_type not in CONFINING_PROFILES


def _loosens_selinux(options: SelinuxOptions | None, types: Set[str]) -> bool:
    return options is not None and bool(options.type not in types or options.user or options.role)
