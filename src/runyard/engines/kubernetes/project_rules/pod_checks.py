"""What no policy relaxes: one container, no privileges, no host, no token, no node chosen by hand; and user ids."""

from collections.abc import Iterator

from runyard.engines.kubernetes.project_rules.cel import all_of, any_of, has_path, is_one_of, literal, quote
from runyard.engines.kubernetes.project_rules.checks import Check, check_scalar, make_check
from runyard.engines.kubernetes.project_rules.wall_inputs import WallInputs
from runyard.manifests.workloads import DEFAULT_GRACE_SECONDS
from runyard.spec.denials import PRIORITY_CLASSES
from runyard.spec.launcher import LAUNCHER_LIMITS, LAUNCHER_NAME

_MAIN = "object.spec.containers[0]"
_CONTEXT = "object.spec.securityContext"


def check_pod(inputs: WallInputs) -> Iterator[Check]:
    """The checks of a pod's shape, security and identity."""
    yield from _check_shape(inputs)
    yield from _check_security(inputs)
    yield from _check_identity(inputs)


def _check_shape(inputs: WallInputs) -> Iterator[Check]:
    yield make_check("pod", "containers", None, "size(object.spec.containers) == 1", allowed="one container")
    yield make_check("pod", "init", None, _is_launcher(inputs), allowed="no init container but the platform's launcher")
    debug = "!has(object.spec.ephemeralContainers) || size(object.spec.ephemeralContainers) == 0"
    yield make_check("pod", "debug", None, debug, allowed="no ephemeral containers")
    yield make_check("pod", "resources", None, "!has(object.spec.resources)", allowed="no resources of the whole pod")
    # A pod that exists has a node; only a new one could choose it without the scheduler.
    node = 'request.operation != "CREATE" || !has(object.spec.nodeName) || object.spec.nodeName == ""'
    yield make_check("pod", "node", None, node, allowed="the scheduler chooses the node")


def _is_launcher(inputs: WallInputs) -> str:
    none = "!has(object.spec.initContainers) || size(object.spec.initContainers) == 0"
    launcher = inputs.launcher
    if launcher is None:
        return none
    c = "object.spec.initContainers[0]"
    memory = f"quantity(string(dyn({c}).resources.limits.memory))"
    return any_of(
        none,
        all_of(
            "size(object.spec.initContainers) == 1",
            f"{c}.name == {quote(LAUNCHER_NAME)}",
            f"{c}.image == {quote(launcher.image)}",
            f"has({c}.command) && dyn({c}.command) == dyn({literal(list(launcher.install))})",
            f"!has({c}.args) && !has({c}.restartPolicy)",
            f"{memory}.compareTo(quantity({quote(LAUNCHER_LIMITS['memory'])})) <= 0",
        ),
    )


def _check_security(inputs: WallInputs) -> Iterator[Check]:
    host = " && ".join(f"(!has(object.spec.{field}) || !object.spec.{field})" for field in _HOST)
    yield make_check("pod", "host", None, host, allowed="no network, process or IPC namespace of the node")
    ports = "!has(c.ports) || c.ports.all(p, !has(p.hostPort) || p.hostPort == 0)"
    yield make_check("pod", "ports", None, _each(ports), allowed="no ports of the node")
    privileged = "!has(c.securityContext) || !has(c.securityContext.privileged) || !c.securityContext.privileged"
    yield make_check("pod", "privileged", None, _each(privileged), allowed="not privileged")
    added = (
        "!has(c.securityContext) || !has(c.securityContext.capabilities) || "
        "!has(c.securityContext.capabilities.add) || size(c.securityContext.capabilities.add) == 0"
    )
    yield make_check("pod", "capabilities", None, _each(added), allowed="none is added")
    if inputs.pod_security == "restricted":
        dropped = (
            "has(c.securityContext) && has(c.securityContext.capabilities) && "
            'has(c.securityContext.capabilities.drop) && "ALL" in c.securityContext.capabilities.drop'
        )
        yield make_check("pod", "capabilities", None, _each(dropped), allowed="drop ALL")
        escalation = (
            "has(c.securityContext) && has(c.securityContext.allowPrivilegeEscalation) && "
            "!c.securityContext.allowPrivilegeEscalation"
        )
        yield make_check(
            "pod",
            "escalation",
            None,
            _each(escalation),
            allowed="allowPrivilegeEscalation: false",
        )
    profile = f'{_CONTEXT}.seccompProfile.type in ["RuntimeDefault", "Localhost"]'
    seccomp = all_of(has_path("object", "spec", "securityContext", "seccompProfile"), profile)
    yield make_check("pod", "seccomp", None, seccomp, allowed="seccompProfile RuntimeDefault or Localhost")
    mounted = "has(object.spec.automountServiceAccountToken) && !object.spec.automountServiceAccountToken"
    yield make_check("pod", "token", None, mounted, allowed="automountServiceAccountToken: false")
    accounts = ["default", *inputs.iter_profile_values("service_account")]
    account = f"!has(object.spec.serviceAccountName) || {is_one_of('object.spec.serviceAccountName', accounts)}"
    yield make_check("pod", "account", None, account, allowed=f"one of {', '.join(sorted(set(accounts)))}")


_HOST = ("hostNetwork", "hostPID", "hostIPC")
_PER_CONTAINER = (
    *("runAsUser", "runAsGroup", "runAsNonRoot", "seLinuxOptions", "windowsOptions", "procMount", "seccompProfile"),
    "appArmorProfile",
)


def _check_identity(inputs: WallInputs) -> Iterator[Check]:
    """Never root; user and groups are set for the whole pod, where the rules apply to them."""
    root = all_of(
        has_path("object", "spec", "securityContext", "runAsNonRoot"),
        f"{_CONTEXT}.runAsNonRoot",
        *(f"(!has({_CONTEXT}.{field}) || {_CONTEXT}.{field} != 0)" for field in ("runAsUser", "runAsGroup", "fsGroup")),
    )
    yield make_check("pod", "root", None, root, allowed="runAsNonRoot: true, and no id 0")
    own = " && ".join(f"!has(c.securityContext.{field})" for field in _PER_CONTAINER)
    containers = _each(f"has(c.securityContext) ? ({own}) : true")
    groups = f"!has({_CONTEXT}.supplementalGroups) && !has({_CONTEXT}.sysctls)"
    yield make_check("pod", "identity", None, all_of(containers, groups), allowed="user and group of the whole pod")
    for name, field in (("run_as_user", "runAsUser"), ("run_as_group", "runAsGroup"), ("fs_group", "fsGroup")):
        value = f"{_CONTEXT}.{field}"
        yield from check_scalar(inputs, name, value=value, is_set=has_path("object", "spec", "securityContext", field))
    yield from check_scalar(
        inputs,
        "grace_period",
        value="object.spec.terminationGracePeriodSeconds",
        is_set="has(object.spec.terminationGracePeriodSeconds)",
        blank=DEFAULT_GRACE_SECONDS if _allows_default_grace(inputs) else None,
        has_maximum=True,
    )
    yield from _check_classes(inputs)
    yield from check_scalar(
        inputs,
        "image_pull_policy",
        value=f"{_MAIN}.imagePullPolicy",
        is_set=f"has({_MAIN}.imagePullPolicy)",
        is_filled=True,
        platforms=("Always", "IfNotPresent") if inputs.can_be_blank("image_pull_policy") else (),
    )


def _allows_default_grace(inputs: WallInputs) -> bool:
    """A smaller `max` fills blanks, so that the apiserver's default never stands in a pod."""
    return all(limit >= DEFAULT_GRACE_SECONDS for limit in _list_bounds(inputs, "grace_period"))


def _list_bounds(inputs: WallInputs, name: str) -> list[int]:
    return [rule.max for _, rule in inputs.iter_rules(name) if rule.max is not None]


def _check_classes(inputs: WallInputs) -> Iterator[Check]:
    value, is_set = "object.spec.runtimeClassName", "has(object.spec.runtimeClassName)"
    yield from check_scalar(inputs, "runtime_class", value=value, is_set=is_set)
    value = "object.spec.priorityClassName"
    is_set = 'has(object.spec.priorityClassName) && object.spec.priorityClassName != ""'
    default = () if inputs.defaults.priority_class is None else (inputs.defaults.priority_class,)
    yield from check_scalar(inputs, "priority_class", value=value, is_set=is_set, platforms=default)
    rule = inputs.platform_wide.rules.get("priority_class")
    lifted = [] if rule is None else [*(rule.allowed or ()), *(rule.options or ())]
    admins = is_one_of(value, [*inputs.list_values("priority_class"), *default, *lifted])
    reserved = " || ".join(f"{value}.startsWith({quote(pattern.rstrip('*'))})" for pattern in PRIORITY_CLASSES)
    denial = any_of(f"!({is_set})", admins, f"!({reserved})")
    yield make_check("priority_class", "default", None, denial, allowed=f"none of {', '.join(PRIORITY_CLASSES)}")


def _each(condition: str) -> str:
    """Whether it holds for every container `c`."""
    inits = f"!has(object.spec.initContainers) || object.spec.initContainers.all(c, {condition})"
    return f"object.spec.containers.all(c, {condition}) && ({inits})"
