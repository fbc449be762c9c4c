"""The grammar of policy rules: the fields that can have rules, the clauses of each, and their readers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from runyard.spec.duration import DurationError, parse_duration
from runyard.spec.environment import read_envs, read_node_selector
from runyard.spec.figures import format_figure
from runyard.spec.kubernetes.placement import read_affinity, read_tolerations
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.patterns import read_pattern
from runyard.spec.problem_codes import Code
from runyard.spec.problems import find_nearest, shorten
from runyard.spec.readers import (
    Findings,
    describe_type,
    expect_integer,
    expect_keys,
    expect_mapping,
    expect_text,
    read_each,
    refuse,
)
from runyard.spec.resources import OTHER_SPELLINGS, read_amount, read_quantity
from runyard.spec.run_fields import read_profile_name, read_pull_policy
from runyard.spec.services import read_service_type
from runyard.spec.volumes import VOLUME_TYPES, read_image, read_object_name

Clause = Literal["default", "min", "max", "options", "required", "locked", "allowed", "denied"]

_FIGURE: tuple[Clause, ...] = ("default", "min", "max", "options", "required", "locked")
_NAME: tuple[Clause, ...] = ("default", "options", "required", "locked", "allowed", "denied")
_SIZE: tuple[Clause, ...] = ("default", "min", "max", "options", "locked")
_CLASS: tuple[Clause, ...] = ("default", "options", "locked", "allowed", "denied")
_KEYS: tuple[Clause, ...] = ("default", "required", "locked", "allowed", "denied")
_LIST: tuple[Clause, ...] = ("default", "locked", "allowed", "denied")
_WHOLE: tuple[Clause, ...] = ("default", "locked")
_ALLOW: tuple[Clause, ...] = ("allowed", "denied")


@dataclass(frozen=True, slots=True)
class Rule:
    """One scope's rule of one field. Values have the type of the field: amounts, seconds, integers, names."""

    default: Any = None
    min: Any = None
    max: Any = None
    options: tuple[Any, ...] | None = None
    """The only values that users may set."""
    required: bool | tuple[str, ...] = False
    """Whether the field must be set; for `node_selector` and `envs`, the keys that must be set."""
    locked: bool = False
    """With a default: the field always has that value. Without: only a profile may set the field."""
    allowed: tuple[Any, ...] | None = None
    """Patterns; values that match none of them are refused. None allows all."""
    denied: tuple[Any, ...] = ()
    """Patterns; values that match one of them are refused."""

    @property
    def can_refuse(self) -> bool:
        """Whether the rule can refuse a value, unlike one that only has a default."""
        lists = self.options is not None or self.allowed is not None or bool(self.denied)
        return lists or self.min is not None or self.max is not None or bool(self.required) or self.locked


@dataclass(frozen=True, slots=True)
class RuledField:
    """A field that can have a rule: its clauses, the reader of its values, and the reader of its patterns."""

    name: str
    clauses: tuple[Clause, ...]
    read_value: Callable[[Any], Any]
    read_entry: Callable[[Any], Any] = read_pattern
    read_default: Callable[[Any], Any] | None = None
    """The reader of defaults, where it differs from that of bounds."""


def _read_seconds(given: Any) -> int:
    try:
        return parse_duration(given)
    except (DurationError, TypeError) as error:
        raise refuse(Code.DURATION_INVALID, str(error), value=given, allowed="90s, 15m, 2h, 7d") from None


def _read_count(given: Any) -> int:
    return expect_integer(given, what="the number", at_least=0, at_most=2**31 - 1)


def _read_id(given: Any) -> int:
    return expect_integer(given, what="the id", at_least=1, at_most=2**31 - 1)


def _read_whole(given: Any) -> Quantity:
    quantity = read_quantity(given)
    if not quantity.is_whole:
        raise refuse(Code.RESOURCES_WHOLE, "`gpu` must be a whole number", value=given, suggestion=str(quantity.value))
    return quantity


def _read_volume_type(given: Any) -> str:
    if given not in VOLUME_TYPES:
        meant = find_nearest(shorten(given), VOLUME_TYPES)
        raise refuse(
            Code.VALUE_OPTION, "unknown volume type", value=given, allowed=", ".join(VOLUME_TYPES), suggestion=meant
        )
    return str(given)


def _read_matcher(given: Any) -> Mapping[str, str]:
    """A pattern of tolerations, such as `{key: spot}`; every entry must match. `key: ""` matches a missing key."""
    findings = Findings()
    entry = expect_mapping(given, of="a toleration's key, operator, value and effect")
    expect_keys(entry, ("key", "operator", "value", "effect"), findings)
    if "key" not in entry:
        message = "a toleration pattern needs `key`: a pattern, or empty text for tolerations without a key"
        findings.add(Code.POLICY_MATCHER, (), message)
    for name, value in entry.items():
        if not isinstance(value, str):
            findings.add(Code.TYPE_TEXT, (name,), f"must be text, not {describe_type(value)}", value=value)
    findings.finish()
    return MappingProxyType(dict(entry))


_FIELDS = (
    *(
        RuledField(f"resources.{name}{side}", _FIGURE, read_quantity)
        for name in ("cpu", "mem", "ephemeral-storage")
        for side in ("", ".requests", ".limits")
    ),
    RuledField("resources.gpu", _FIGURE, _read_whole),
    RuledField("resources.disk", _FIGURE, read_quantity, read_default=read_amount),
    RuledField("resources.disk.storage_class", _CLASS, read_object_name),
    RuledField("volumes.size", _SIZE, read_quantity, read_default=read_amount),
    RuledField("volumes.size_limit", _SIZE, read_quantity, read_default=read_amount),
    RuledField("volumes.storage_class", _CLASS, read_object_name),
    RuledField("volumes.type", ("options", "allowed", "denied"), _read_volume_type),
    RuledField("volumes.claim_name", _ALLOW, read_object_name),
    RuledField("node_selector", _KEYS, read_node_selector),
    RuledField("tolerations", _LIST, read_tolerations, _read_matcher),
    RuledField("affinity", _WHOLE, read_affinity),
    RuledField("affinity.namespaces", ("allowed",), read_object_name),
    RuledField("envs", _KEYS, read_envs),
    RuledField("secrets", _ALLOW, read_object_name),
    RuledField("profile", _NAME, read_profile_name),
    RuledField("runtime_class", _NAME, read_object_name),
    RuledField("priority_class", _NAME, read_object_name),
    RuledField("image", _NAME, read_image),
    RuledField("image_pull_policy", _NAME, read_pull_policy),
    RuledField("service_type", _NAME, read_service_type),
    *(RuledField(name, _FIGURE, _read_id) for name in ("run_as_user", "run_as_group", "fs_group")),
    *(RuledField(name, _FIGURE, _read_count) for name in ("replicas", "backoff_limit")),
    *(RuledField(name, _FIGURE, _read_seconds) for name in ("timeout", "pending_timeout", "ttl", "grace_period")),
)
RULED: Mapping[str, RuledField] = MappingProxyType({known.name: known for known in _FIELDS})
OTHER_RULE_NAMES: Mapping[str, str] = MappingProxyType(
    {
        name.removesuffix(side) + spelling: name
        for spelling, side in OTHER_SPELLINGS.items()
        for name in RULED
        if name.endswith(f".{side}")
    }
)
"""The names with `request` and `limit`, which are understood with a warning, by the documented name."""


def read_rule(known: RuledField, given: Any) -> Rule:
    """One field's rule; raises `Refused` with every problem."""
    findings = Findings()
    entry = expect_mapping(given, of=f"rules: {', '.join(known.clauses)}")
    expect_keys(entry, known.clauses, findings)
    values: dict[str, Any] = {
        clause: findings.read(partial(_read_clause, known, clause), entry[clause], clause)
        for clause in known.clauses
        if entry.get(clause) is not None
    }
    findings.finish()
    rule = Rule(**values)
    _check_figures(known.name, rule, findings)
    findings.finish()
    return rule


def _read_clause(known: RuledField, clause: Clause, given: Any) -> Any:
    if clause == "required" and isinstance(given, list) and known.clauses == _KEYS:
        return read_each(lambda key: expect_text(key, what="a key"), given, of="keys")
    if clause in ("required", "locked"):
        if not isinstance(given, bool):
            raise refuse(Code.TYPE_BOOLEAN, f"must be true or false, not {describe_type(given)}", value=given)
        return given
    if clause in ("options", "allowed", "denied"):
        return read_each(known.read_value if clause == "options" else known.read_entry, given, of="values")
    return (known.read_default or known.read_value)(given) if clause == "default" else known.read_value(given)


def _check_figures(name: str, rule: Rule, findings: Findings) -> None:
    least, most, default = (format_figure(name, value) for value in (rule.min, rule.max, rule.default))
    if rule.min is not None and rule.max is not None and rule.min > rule.max:
        findings.add(Code.POLICY_CONTRADICTION, ("min",), f"min {least} is above max {most}")
    if rule.default is None:
        return
    if rule.max is not None and rule.default > rule.max:
        findings.add(Code.POLICY_CONTRADICTION, ("default",), f"default {default} is above max {most}")
    if rule.min is not None and rule.default < rule.min:
        findings.add(Code.POLICY_CONTRADICTION, ("default",), f"default {default} is below min {least}")
    if rule.options is not None and rule.default not in rule.options:
        findings.add(
            Code.POLICY_CONTRADICTION, ("default",), "the default is not one of the options", value=rule.default
        )
