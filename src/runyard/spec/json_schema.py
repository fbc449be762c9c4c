"""JSON Schemas of everything that is written by hand, made from the models that read it."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from runyard.spec.entities import SPEC_MODELS, Entity
from runyard.spec.kinds.registry import DEFAULT_KIND, list_function_kinds
from runyard.spec.rule_grammar import RULED, RuledField
from runyard.spec.run_fields import ACTIONS, AdminFields, RunFields

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TEXT = {"type": "string"}


def build_schema(kind: str) -> dict[str, Any]:
    """The schema of one of `KINDS`; raises KeyError for any other."""
    return {"$schema": DRAFT, **_BUILDERS[kind]()}


def _build_run_file() -> dict[str, Any]:
    schema = RunFields.model_json_schema()
    identity = {
        "kind": {"enum": [*list_function_kinds()], "description": f"The kind of function; {DEFAULT_KIND} by default."},
        "action": {"enum": list(ACTIONS), "description": "How it is run."},
        "project": {**_TEXT, "description": "The project the run belongs to."},
        "id": {**_TEXT, "description": "The run's id; chosen if it is not said."},
        "name": {**_TEXT, "description": "A name for people."},
        "function": {**_TEXT, "description": "The name or reference of the function."},
    }
    schema["properties"] = {**identity, **schema["properties"]}
    return {**schema, "title": "Run file", "description": "A run: what it is, and what it asks for."}


def _build_profile() -> dict[str, Any]:
    schema = AdminFields.model_json_schema()
    identity = {
        "id": {**_TEXT, "description": "The name that runs use."},
        "name": {**_TEXT, "description": "A name for people."},
        "description": {**_TEXT, "description": "What the profile is for."},
    }
    properties = {name: field for name, field in schema["properties"].items() if name != "profile"}
    schema["properties"] = {**identity, **properties}
    return {**schema, "title": "Profile", "description": "An admin's named shape of a run.", "required": ["id"]}


def _build_clauses(known: RuledField) -> dict[str, Any]:
    figure: dict[str, Any] = {"description": "in the form of the field"}
    shapes: Mapping[str, dict[str, Any]] = {
        "options": {"type": "array", "description": "the values that may be asked for"},
        "allowed": {"type": "array", "description": "patterns; what matches none is refused"},
        "denied": {"type": "array", "description": "patterns; what matches one is refused"},
        "required": {"type": ["boolean", "array"]},
        "locked": {"type": "boolean"},
    }
    return {clause: shapes.get(clause, figure) for clause in known.clauses}


def _build_rules(prefix: str = "") -> dict[str, Any]:
    """What may stand below a prefix: `resources.mem` and, nested, `resources` with `mem` in it."""
    found: dict[str, Any] = {}
    for name in RULED:
        if name.startswith(prefix):
            parts = name.removeprefix(prefix).split(".")
            for count in range(1, len(parts) + 1):
                key = ".".join(parts[:count])
                found[key] = found.get(key) or _build_rule(f"{prefix}{key}")
    return found


def _build_rule(name: str) -> dict[str, Any]:
    known = RULED.get(name)
    clauses = _build_clauses(known) if known is not None else {}
    return {"type": "object", "properties": {**clauses, **_build_rules(f"{name}.")}, "additionalProperties": False}


def _build_policy() -> dict[str, Any]:
    platform = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "pod_security": {"enum": ["restricted", "baseline"]},
            "mem_tolerance": {"type": ["number", "string"], "description": "memory limit = request × this"},
            "gpu_resources": {
                "type": ["array", "string"],
                "description": "Kubernetes' names of GPUs; `gpu` is the first",
            },
            "disk_medium": {"enum": ["ephemeral", "empty_dir"]},
            "image_pull_secrets": {"type": "array", "items": _TEXT},
            "python_images": {"type": "object", "additionalProperties": _TEXT},
        },
    }
    properties = {**_build_rules(), "platform": platform}
    projects = {
        "type": "object",
        "description": "Narrower rules by project; they can only tighten.",
        "additionalProperties": {"type": "object", "properties": properties, "additionalProperties": False},
    }
    return {
        "title": "Policy",
        "description": "Defaults, limits and permissions by field; nested and dotted names are the same.",
        "type": "object",
        "properties": {**properties, "projects": projects},
        "additionalProperties": False,
    }


def _build_entity(name: str) -> Callable[[], dict[str, Any]]:
    def build() -> dict[str, Any]:
        schema = Entity.model_json_schema()
        spec = SPEC_MODELS[name].model_json_schema()
        definitions = {**schema.pop("$defs", {}), **spec.pop("$defs", {})}
        schema["properties"]["spec"] = spec
        return {**schema, "title": name.capitalize(), **({"$defs": definitions} if definitions else {})}

    return build


_BUILDERS: Mapping[str, Callable[[], dict[str, Any]]] = MappingProxyType(
    {
        "run-file": _build_run_file,
        "profile": _build_profile,
        "policy": _build_policy,
        **{name: _build_entity(name) for name in SPEC_MODELS},
    }
)
KINDS: tuple[str, ...] = tuple(_BUILDERS)
