"""The rules of `filling.py` in CEL, for a MutatingAdmissionPolicy whose parameter is the RuntimeClass of the pod.

JSON patches, because an `ApplyConfiguration` fails for pods that have the same environment variable twice. CEL cannot
add up or divide quantities, so amounts are counted in whole millicores and bytes. Variables are evaluated once per pod;
`object` is what the earlier mutations left: a container that got its GPU has `limits` when its cpu is filled.
"""

from collections.abc import Iterator
from typing import Any

from runyard.node.offer import CPU, GPU, LIMIT_ANNOTATIONS, MEMORY

Object = dict[str, Any]

# More than any shape has; larger figures would not fit into an integer.
_MANY_CORES = 10**12
_MANY_BYTES = 10**17


def render_variables() -> list[Object]:
    """The `variables` of the policy."""
    found = {
        "inits": "object.spec.?initContainers.orValue([])",
        "sidecars": "variables.inits.filter(c, c.?restartPolicy.orValue('') == 'Always')",
        "plainInits": "variables.inits.filter(c, c.?restartPolicy.orValue('') != 'Always')",
        "running": "object.spec.containers + variables.sidecars",
        "gpus": f"quantity({_annotation(GPU)}).asInteger()",
        "statesGpu": f"(object.spec.containers + variables.inits).exists(c, {_states('c', GPU)})",
        **dict(_iter_shared(CPU)),
        **dict(_iter_shared(MEMORY)),
    }
    return [{"name": name, "expression": expression} for name, expression in found.items()]


def render_mutations(scheduler_name: str | None) -> list[Object]:
    """The `mutations` of the policy, in their order. `scheduler_name` is a valid name, or None to leave it."""
    first = "i == 0 && variables.gpus > 0 && !variables.statesGpu"
    gpus = _patch("containers", GPU, "string(variables.gpus)")
    scheduler = f"[JSONPatch{{op: 'add', path: '/spec/schedulerName', value: '{scheduler_name}'}}]"
    expressions = [
        *([scheduler] if scheduler_name else []),
        f"object.spec.containers.transformList(i, c, {first}, {gpus})",
        _render_shared(CPU),
        _render_shared(MEMORY),
    ]
    return [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}} for expression in expressions]


def _annotation(resource: str) -> str:
    return f"params.metadata.annotations['{LIMIT_ANNOTATIONS[resource]}']"


def _side(owner: str, side: str) -> str:
    return f"{owner}.?resources.?{side}.orValue({{}})"


def _states(owner: str, resource: str) -> str:
    return f"('{resource}' in {_side(owner, 'limits')} || '{resource}' in {_side(owner, 'requests')})"


def _count(owner: str, resource: str) -> str:
    """The amount that a container states, 0 if it states none."""
    limits, requests = _side(owner, "limits"), _side(owner, "requests")
    text = f"string('{resource}' in {limits} ? {limits}['{resource}'] : {requests}['{resource}'])"
    return f"({_states(owner, resource)} ? {_count_text(text, resource)} : 0)"


def _count_text(text: str, resource: str) -> str:
    figure = f"quantity({text}).asApproximateFloat()"
    if resource == CPU:
        return f"({figure} > {_MANY_CORES}.0 ? {_MANY_CORES * 1000} : int({figure} * 1000.0 + 0.5))"
    whole = f"(quantity({text}).isInteger() ? quantity({text}).asInteger() : int({figure}) + 1)"
    return f"({figure} > {_MANY_BYTES}.0 ? {_MANY_BYTES} : {whole})"


def _iter_shared(resource: str) -> Iterator[tuple[str, str]]:
    """The variables for cpu or memory, by name, in the order of `filling.py`."""

    def name(suffix: str) -> str:
        return f"variables.{resource}{suffix}"

    step = " / 1024 * 1024" if resource == MEMORY else ""
    count, states = _count("c", resource), _states("c", resource)
    share, left_by_inits, left_for_inits = name("Share"), name("LeftByInits"), name("LeftForInits")
    by_inits = f"{left_by_inits} <= 0 ? 0 : {left_by_inits} / {name('OpenSidecars')}{step}"
    found = {
        "OfPod": _states("object.spec", resource),
        "Limit": _count_text(_annotation(resource), resource),
        "Open": f"variables.running.filter(c, !{states}).size()",
        "OpenSidecars": f"variables.sidecars.filter(c, !{states}).size()",
        "Left": f"{name('Limit')} - variables.running.map(c, {count}).sum()",
        "Share": f"{name('OfPod')} || {name('Open')} == 0 || {name('Left')} <= 0 ? 0 : "
        f"{name('Left')} / {name('Open')}{step}",
        "StatedBySidecars": f"variables.sidecars.map(c, {count}).sum()",
        "LeftByInits": f"{name('Limit')} - {name('StatedBySidecars')} - "
        f"([0] + variables.plainInits.map(c, {count})).max()",
        "ShareOfSidecars": f"{name('OpenSidecars')} == 0 ? 0 : [{share}, ({by_inits})].min()",
        "LeftForInits": f"{name('Limit')} - {name('StatedBySidecars')} - "
        f"{name('OpenSidecars')} * {name('ShareOfSidecars')}",
        "Inits": f"{name('OfPod')} || {left_for_inits} <= 0 ? 0 : {left_for_inits}{step}",
    }
    for suffix, expression in found.items():
        yield f"{resource}{suffix}", expression


def _render_shared(resource: str) -> str:
    """The patches for cpu or memory."""
    share = f"variables.{resource}Share"
    sidecars, inits = f"variables.{resource}ShareOfSidecars", f"variables.{resource}Inits"
    amount = f"(c.?restartPolicy.orValue('') == 'Always' ? {sidecars} : {inits})"
    return (
        f"object.spec.containers.transformList(i, c, {share} > 0 && !{_states('c', resource)}, "
        f"{_patch('containers', resource, _write(share, resource))}) + "
        f"object.spec.?initContainers.orValue([]).transformList(i, c, {amount} > 0 && !{_states('c', resource)}, "
        f"{_patch('initContainers', resource, _write(amount, resource))})"
    )


def _write(amount: str, resource: str) -> str:
    return f"string({amount} / 1024) + 'Ki'" if resource == MEMORY else f"string({amount}) + 'm'"


def _patch(list_name: str, resource: str, text: str) -> str:
    """One limit of the container `c` at `i`; the apiserver leaves out `limits` where they are empty."""
    path = f"'/spec/{list_name}/' + string(i) + '/resources/limits'"
    key = resource.replace("~", "~0").replace("/", "~1")
    return (
        f"c.?resources.?limits.hasValue() ? JSONPatch{{op: 'add', path: {path} + '/{key}', value: {text}}} : "
        f"JSONPatch{{op: 'add', path: {path}, value: {{'{resource}': {text}}}}}"
    )
