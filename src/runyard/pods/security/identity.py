"""Checks of *restricted* on the user of a container and privilege escalation."""

from runyard.pods.security.facts import Container, Pod
from runyard.pods.security.violations import Finding, name_containers, name_setters, select_names


def check_privilege_escalation(pod: Pod) -> Finding | None:
    """Since 1.8: containers must disable privilege escalation; unset allows it."""
    names = select_names(pod, lambda container: container.allow_privilege_escalation is not False)
    return _forbid_escalation(names)


def check_privilege_escalation_unless_windows(pod: Pod) -> Finding | None:
    """Since 1.25 Windows pods may leave it unset; true stays forbidden."""
    if not pod.is_windows:
        return check_privilege_escalation(pod)
    return _forbid_escalation(select_names(pod, lambda container: container.allow_privilege_escalation is True))


def check_run_as_non_root(pod: Pod) -> Finding | None:
    """`runAsNonRoot` must be true for the pod or for all containers, and false for none."""
    if setters := name_setters(pod, lambda context: context.run_as_non_root is False):
        return Finding("runAsNonRoot != true", f"{setters} must not set securityContext.runAsNonRoot=false")
    names = [] if pod.context.run_as_non_root else select_names(pod, _leaves_root_open)
    if not names:
        return None
    return Finding(
        "runAsNonRoot != true", f"pod or {name_containers(names)} must set securityContext.runAsNonRoot=true"
    )


def check_run_as_non_root_unless_own_users(pod: Pod) -> Finding | None:
    """Since 1.35 root is allowed in the pod's own user namespace."""
    return None if pod.has_own_users else check_run_as_non_root(pod)


def check_run_as_user(pod: Pod) -> Finding | None:
    """Since 1.23: `runAsUser` must not be 0."""
    setters = name_setters(pod, lambda context: context.run_as_user == 0)
    return Finding("runAsUser=0", f"{setters} must not set runAsUser=0") if setters else None


def check_run_as_user_unless_own_users(pod: Pod) -> Finding | None:
    """Since 1.35 root is allowed in the pod's own user namespace."""
    return None if pod.has_own_users else check_run_as_user(pod)


def _leaves_root_open(container: Container) -> bool:
    return container.context.run_as_non_root is None


def _forbid_escalation(names: list[str]) -> Finding | None:
    if not names:
        return None
    detail = f"{name_containers(names)} must set securityContext.allowPrivilegeEscalation=false"
    return Finding("allowPrivilegeEscalation != false", detail)
