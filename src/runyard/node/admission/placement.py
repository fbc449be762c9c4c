"""Whether a pod's `nodeSelector` and required node affinity match the virtual node."""

from collections.abc import Callable, Iterator, Mapping

from runyard.node.admission.refusal import Refusal
from runyard.pods.fields import Part
from runyard.spec.kubernetes.affinity import NODE_NAME_FIELD, REQUIRED
from runyard.spec.problems import shorten

_Matcher = Callable[[str | None, tuple[str, ...]], bool]


def check_placement(spec: Part, *, node_name: str, labels: Mapping[str, str]) -> Iterator[Refusal]:
    """Yield a refusal for what does not match. Raises `UnreadablePod`."""
    for key, value in spec.read_text_map("nodeSelector").items():
        if labels.get(key) != value:
            has = f"it is {shorten(labels[key])} there" if key in labels else "the node has no such label"
            message = f"spec.nodeSelector asks for {shorten(key)}={shorten(value)}, but {has}"
            yield Refusal("NodeSelectorMismatch", message)
    affinity = spec.find_part("affinity")
    rules = affinity.find_part("nodeAffinity") if affinity else None
    required = rules.find_part(REQUIRED) if rules else None
    if required is None:
        return
    terms = required.read_parts("nodeSelectorTerms")
    fields = {NODE_NAME_FIELD: node_name}
    if not any(_matches_term(term, labels, fields) for term in terms):
        message = f"spec.affinity.nodeAffinity.{REQUIRED} does not match the labels of the node {node_name}"
        yield Refusal("NodeAffinityMismatch", message)


def _matches_term(term: Part, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    """Whether all requirements of a term match; a term without any matches nothing."""
    expressions, field_requirements = term.read_parts("matchExpressions"), term.read_parts("matchFields")
    verdicts = [_matches(part, labels) for part in expressions] + [
        _matches(part, fields) for part in field_requirements
    ]
    return bool(verdicts) and all(verdicts)


def _matches(requirement: Part, values: Mapping[str, str]) -> bool:
    matcher = _OPERATORS.get(requirement.read_text("operator"))
    allowed = requirement.read_texts("values")
    return matcher is not None and matcher(values.get(requirement.read_text("key")), allowed)


def _compare(is_right: Callable[[int, int], bool]) -> _Matcher:
    def matches(value: str | None, allowed: tuple[str, ...]) -> bool:
        if value is None or len(allowed) != 1:
            return False
        numbers = [_find_integer(value), _find_integer(allowed[0])]
        return numbers[0] is not None and numbers[1] is not None and is_right(numbers[0], numbers[1])

    return matches


def _find_integer(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < len(str(2**63)) else None


_OPERATORS: Mapping[str, _Matcher] = {
    "In": lambda value, allowed: value in allowed,
    "NotIn": lambda value, allowed: value not in allowed,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": _compare(lambda value, bound: value > bound),
    "Lt": _compare(lambda value, bound: value < bound),
}
