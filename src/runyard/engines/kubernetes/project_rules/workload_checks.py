"""Rules over Jobs, Deployments and Services. Their pods are checked as pods."""

from collections.abc import Iterator

from runyard.engines.kubernetes.project_rules.cel import any_of, is_one_of
from runyard.engines.kubernetes.project_rules.checks import Check, check_scalar, make_check
from runyard.engines.kubernetes.project_rules.wall_inputs import WallInputs
from runyard.manifests.workloads import DEADLINE_MARGIN_SECONDS, DEFAULT_GRACE_SECONDS
from runyard.spec.denials import SERVICE_TYPES
from runyard.spec.figures import format_figure


def check_job(inputs: WallInputs) -> Iterator[Check]:
    """The checks of a new Job. Later changes are not checked: stopping a Job sets its retries to 0."""
    yield from check_scalar(
        inputs,
        "backoff_limit",
        value="object.spec.backoffLimit",
        is_set="has(object.spec.backoffLimit)",
        platforms=(0,),
    )
    ttl = "object.spec.ttlSecondsAfterFinished"
    yield from (
        check
        for check in check_scalar(inputs, "ttl", value=ttl, is_set=f"has({ttl})", has_maximum=True)
        # An anchor gets its TTL when its log is stored, so a new Job may lack it.
        if check.rule in ("ttl.max", "ttl.min", "ttl.options")
    )
    grace = (
        "(has(object.spec.template.spec.terminationGracePeriodSeconds) ? "
        f"object.spec.template.spec.terminationGracePeriodSeconds : {DEFAULT_GRACE_SECONDS})"
    )
    deadline = "object.spec.activeDeadlineSeconds"
    for scope, rule in inputs.iter_rules("timeout"):
        if rule.max is not None:
            most = f"has({deadline}) && {deadline} <= {rule.max} + {grace} + {DEADLINE_MARGIN_SECONDS}"
            allowed = (
                f"at most {format_figure('timeout', rule.max)}, with grace period and {DEADLINE_MARGIN_SECONDS} s more"
            )
            yield make_check("timeout", "max", scope, most, allowed=allowed)
        if rule.required:
            yield make_check("timeout", "required", scope, f"has({deadline})")


def check_deployment(inputs: WallInputs) -> Iterator[Check]:
    """The checks of Deployments, ReplicaSets and StatefulSets, and of scaling them. Fewer replicas always pass."""
    field = "object.spec.replicas"
    fewer = f'request.operation == "UPDATE" && has(oldObject.spec.replicas) && {field} <= oldObject.spec.replicas'
    for scope, rule in inputs.iter_rules("replicas"):
        if rule.max is not None:
            # Held back and stopped services have 0 replicas, whatever the policy's minimum.
            expression = any_of(f"!has({field})", f"{field} <= {rule.max}", fewer)
            yield make_check("replicas", "max", scope, expression, allowed=f"at most {rule.max}")


def check_service(inputs: WallInputs) -> Iterator[Check]:
    """The checks of Services: types, and no addresses of others."""
    value, is_set = "object.spec.type", "has(object.spec.type)"
    rule = inputs.platform_wide.rules.get("service_type")
    lifted = [] if rule is None else [*(rule.allowed or ()), *(rule.options or ())]
    usual = [*inputs.list_values("service_type"), *(one for one in lifted if one in SERVICE_TYPES)]
    denial = any_of(f"!{is_set}", is_one_of(value, usual), f"!({is_one_of(value, SERVICE_TYPES)})")
    yield make_check("service_type", "default", None, denial, allowed=f"none of {', '.join(SERVICE_TYPES)}")
    addresses = "!has(object.spec.externalIPs) || size(object.spec.externalIPs) == 0"
    yield make_check("service", "addresses", None, addresses, allowed="no externalIPs")
    yield from check_scalar(
        inputs, "service_type", value=value, is_set=is_set, platforms=("ClusterIP",), is_filled=True
    )
