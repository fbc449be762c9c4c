"""What each field of a run is, for people: derived from the published schemas, the policy grammar and the profiles.

`get_field` finds a field by any spelling that run files accept; `runyard explain FIELD` prints it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from runyard.spec.json_schema import build_schema
from runyard.spec.policy import BUILT_IN
from runyard.spec.problem_codes import Code
from runyard.spec.problems import find_nearest, list_words
from runyard.spec.readers import refuse, to_snake_case
from runyard.spec.resources import OTHER_SPELLINGS, SIDES
from runyard.spec.rule_grammar import RULED
from runyard.spec.run_fields import OTHER_NAMES

ROOT = "run"
"""The name of the whole run file, whose subfields are all fields."""

_WORDS = {"string": "text", "array": "list", "object": "mapping"}
_INDEX = re.compile(r"\[\w*\]|\.\d+(?=\.|$)")
_RULE_PARTS = {"volume_type": "type"}
"""Parts of fields that the rules of a policy name differently."""
_PROFILE_KEYS = ("id", "name", "description")
"""Keys of a profile beside the fields."""
_KUBERNETES_OWN = {"affinity": "affinity", "topology_spread": "topologySpreadConstraints"}
"""Fields whose inner form is Kubernetes' own, and their names in the spec of a pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldReference:
    """One field of a run file or a profile."""

    path: tuple[str, ...]
    type: str
    description: str
    allowed: str | None
    """Values or bounds; None if the type says it all."""
    default: str | None
    """The default without an admin's policy and profiles, where a table has it."""
    examples: tuple[Any, ...]
    is_required: bool
    is_admins: bool
    """Whether only admins may set it, in a profile."""
    rules: tuple[str, ...]
    """The clauses that a policy may have for it."""
    subfields: tuple[str, ...]

    @property
    def name(self) -> str:
        """The dotted name; `run` for the whole file."""
        return ".".join(self.path) or ROOT


def get_field(name: str) -> FieldReference:
    """The field of that name, in any spelling; raises `Refused` with the nearest one."""
    fields = _build_fields()
    given = _normalize(name)
    if given not in fields:
        owner = given.split(".")[0]
        if owner in _KUBERNETES_OWN and "." in given:
            inner = ".".join([_KUBERNETES_OWN[owner], *name.split(".")[1:]])
            message = f"`{name}` is a field of Kubernetes, which Runyard does not document"
            raise refuse(Code.FIELD_UNKNOWN, message, suggestion=f"kubectl explain pod.spec.{inner}")
        raise refuse(
            Code.FIELD_UNKNOWN,
            f"unknown field `{name}`",
            allowed=list_words([path for path in fields if "." not in path], most=60),
            suggestion=_find_near(given, fields),
        )
    return fields[given]


def list_fields() -> tuple[FieldReference, ...]:
    """All fields: the whole file first, then each field before its subfields."""
    return tuple(_build_fields().values())


def _normalize(name: str) -> str:
    """`nodeSelector` as `node_selector`, `volumes[0].spec` as `volumes.spec`, `env` as `envs`."""
    parts = [to_snake_case(part) for part in _INDEX.sub("", name.strip()).strip(".").split(".")]
    if parts[0] in OTHER_NAMES:
        parts[0] = OTHER_NAMES[parts[0]]
    return ".".join(OTHER_SPELLINGS.get(part, part) for part in parts)


def _find_near(given: str, fields: Mapping[str, FieldReference]) -> str | None:
    """The nearest name: a subfield of the part that is known, or a field with the same last part, or any other."""
    known, _, wrong = given.rpartition(".")
    if known in fields and (near := find_nearest(wrong, fields[known].subfields)):
        return f"{known}.{near}"
    last = given.rpartition(".")[2]
    same = [path for path in fields if path.rpartition(".")[2] == last]
    return same[0] if same else find_nearest(given, fields)


@cache
def _build_fields() -> Mapping[str, FieldReference]:
    users, admins = build_schema("run-file"), build_schema("profile")["properties"]
    own = {name: schema for name, schema in admins.items() if name not in {*users["properties"], *_PROFILE_KEYS}}
    properties = {**users["properties"], **own}
    found = [_describe((), {**users, "properties": properties}, is_admins=False, is_required=False)]
    for name, schema in properties.items():
        found += _iter_fields((name,), schema, is_admins=name in own, is_required=False)
    for side in SIDES:
        schema = admins["resources"]["properties"][side]
        found.append(_describe(("resources", side), schema, is_admins=True, is_required=False))
    return {".".join(map(to_snake_case, field.path)) or ROOT: field for field in found}


def _iter_fields(
    path: tuple[str, ...], schema: Mapping[str, Any], *, is_admins: bool, is_required: bool
) -> Iterator[FieldReference]:
    yield _describe(path, schema, is_admins=is_admins, is_required=is_required)
    for name, inner, is_needed in _iter_subfields(schema):
        yield from _iter_fields((*path, name), inner, is_admins=is_admins, is_required=is_needed)


def _describe(
    path: tuple[str, ...], schema: Mapping[str, Any], *, is_admins: bool, is_required: bool
) -> FieldReference:
    rule = RULED.get(".".join(_RULE_PARTS.get(part, part) for part in path if part != "spec"))
    description = str(schema.get("description", "")).rstrip(".")
    return FieldReference(
        path=path,
        type=_name_type(schema),
        description=f"{description[:1].upper()}{description[1:]}.",
        allowed=_find_allowed(schema),
        default=_find_default(rule.name if rule else None),
        examples=tuple(schema.get("examples") or [value for value in schema.get("enum", ()) if value][:1]),
        is_required=is_required,
        is_admins=is_admins,
        rules=rule.clauses if rule else (),
        subfields=tuple(name for name, _, _ in _iter_subfields(schema)),
    )


def _iter_subfields(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """The named fields of a mapping, of the entries of a list, and of each alternative."""
    required = schema.get("required", ())
    for name, inner in schema.get("properties", {}).items():
        yield name, inner, name in required
    if "items" in schema:
        yield from _iter_subfields(schema["items"])
    for one in schema.get("anyOf", ()):
        yield from _iter_subfields(one)


def _name_type(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return ", or ".join(dict.fromkeys(_name_type(one) for one in schema["anyOf"]))
    if "type" not in schema:
        return _name_type_of([*schema.get("enum", ()), *schema.get("examples", ({},))][0])
    given = schema["type"]
    words = [_WORDS.get(word, word) for word in ([given] if isinstance(given, str) else given)]
    if words == ["list"]:
        inner = _name_type(schema.get("items", {"type": "string"}))
        return f"list of ({inner})" if ", or " in inner else f"list of {inner}"
    if words == ["mapping"] and "additionalProperties" in schema and schema["additionalProperties"]:
        return f"mapping to {_name_type(schema['additionalProperties'])}"
    return " or ".join([part for part in (", ".join(words[:-1]), words[-1]) if part])


def _name_type_of(value: Any) -> str:
    return "text" if isinstance(value, str) else "integer" if isinstance(value, int) else "mapping"


def _find_allowed(schema: Mapping[str, Any]) -> str | None:
    if "enum" in schema:
        return ", ".join(str(value) or '""' for value in schema["enum"])
    if "minimum" in schema:
        return f"{schema['minimum']} to {schema['maximum']}"
    return f"at most {schema['maxLength']} characters" if "maxLength" in schema else None


def _find_default(rule_name: str | None) -> str | None:
    rule = BUILT_IN.rules.get(rule_name) if rule_name is not None else None
    return None if rule is None or rule.default is None else str(rule.default)
