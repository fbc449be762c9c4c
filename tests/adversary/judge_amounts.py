"""Complaints about amounts that Kubernetes would refuse."""

from collections.abc import Iterator

from tests.adversary.facts import AdminInputs, Facts


def iter_amount_complaints(facts: Facts, admin: AdminInputs) -> Iterator[str]:
    for name, limit in facts.limits.items():
        request = facts.requests.get(name)
        if request is not None and request > limit:
            yield f"amounts: {name} requests {request}, limits {limit}"
    for name in ("cpu", "memory", "ephemeral-storage"):
        if name in facts.limits and facts.limits[name].is_zero:
            yield f"amounts: a limit of 0 {name} is no bound"
    for side, amounts in (("requests", facts.requests), ("limits", facts.limits)):
        for name, amount in amounts.items():
            if amount.is_negative or not amount.is_countable:
                yield f"amounts: {side} of {name} is {amount}"
            if "/" in name and (facts.requests.get(name) != facts.limits.get(name) or not amount.is_whole):
                yield f"amounts: {name} is {facts.requests.get(name)}/{facts.limits.get(name)}"
    gpus = [name for name in facts.limits if name in admin.gpu_names]
    if len(gpus) > 1:
        yield f"amounts: GPUs of two names {gpus}"
