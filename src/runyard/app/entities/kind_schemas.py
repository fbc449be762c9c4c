"""JSON Schemas of the specs that are run here, by type and kind, in DigitalHub's envelope."""

from functools import cache

from runyard.app.model import Json
from runyard.spec.entities import ENTITY_TYPES, find_spec_model
from runyard.spec.json_schema import DRAFT
from runyard.spec.kinds.registry import list_function_kinds, list_run_kinds, list_task_kinds
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused, find_nearest, list_words
from runyard.spec.readers import expect_option


def list_schemas(entity_type: str) -> list[Json]:
    """The schemas of all kinds of a type; raises `Refused` for an unknown type."""
    expect_option(entity_type, what="type", options=ENTITY_TYPES, prefix="missing spec: ")
    return [_build(entity_type, kind) for kind in _list_kinds(entity_type)]


def find_schema(entity_type: str, kind: str) -> Json:
    """The schema of one kind; raises `Refused` for a kind that is not run here."""
    expect_option(entity_type, what="type", options=ENTITY_TYPES, prefix="missing spec: ")
    kinds = _list_kinds(entity_type)
    if kind not in kinds:
        message = f"missing spec: no {entity_type} of that kind is run here"
        nearest = find_nearest(kind, kinds)
        problem = Problem(
            Code.KIND_UNKNOWN, ("kind",), message, value=kind, allowed=list_words(kinds), suggestion=nearest
        )
        raise Refused([problem])
    return _build(entity_type, kind)


def _list_kinds(entity_type: str) -> tuple[str, ...]:
    lists = {"function": list_function_kinds, "task": list_task_kinds, "run": list_run_kinds}
    return lists[entity_type]() if entity_type in lists else (entity_type,)


@cache
def _build(entity_type: str, kind: str) -> Json:
    schema = {"$schema": DRAFT, **find_spec_model(entity_type, kind).model_json_schema()}
    runtime = kind.partition("+")[0] if entity_type in ("function", "task", "run") else entity_type
    return {"id": f"{entity_type}:{kind}", "kind": kind, "entity": entity_type, "runtime": runtime, "schema": schema}
