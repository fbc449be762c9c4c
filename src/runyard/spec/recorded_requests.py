"""Recorded requests: a run as it was requested, with the task and function that it referred to at that time.

`runyard db export-requests` writes them, one document per run; `runyard policy diff --runs` reads them.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from runyard.spec.entities import find_spec_model
from runyard.spec.readers import Findings, expect_keys, expect_mapping, expect_text, to_snake_case
from runyard.spec.run_documents import RunFile, read_run_file
from runyard.spec.run_fields import RunFields, read_model

KEYS = ("id", "project", "created", "run", "task", "function")
LEFT_OUT = frozenset({"source", "requirements", "parameters", "inputs", "init_parameters"})
"""Fields that no policy rules. They may be large, and are nobody's business but the project's."""
_REFERENCES = ("task", "function")


def is_recorded(given: Any) -> bool:
    """Whether a document is a recorded request, and not a run file."""
    return isinstance(given, Mapping) and isinstance(given.get("run"), Mapping)


def write_recorded_request(
    *,
    run_id: str,
    project: str,
    created: str,
    run: tuple[str, Mapping[str, Any]],
    task: tuple[str, Mapping[str, Any]],
    function: tuple[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Make the document of a request from the kinds and specs of run, task and function."""
    return {
        "id": run_id,
        "project": project,
        "created": created,
        "run": _write_part(*run, references=_REFERENCES),
        "task": _write_part(*task),
        "function": _write_part(*function),
    }


def read_recorded_request(given: Any) -> RunFile:
    """Read a document of `write_recorded_request`; raises `Refused` with every problem."""
    document = expect_mapping(given, of="a recorded request")
    findings = Findings()
    expect_keys(document, KEYS, findings)
    run = findings.read(read_run_file, document.get("run"), "run")
    layers = {
        name: findings.read(partial(_read_layer, name), document[name], name)
        for name in _REFERENCES
        if document.get(name) is not None
    }
    run_id, project = (
        None if document.get(name) is None else findings.read(partial(_read_name, what=name), document[name], name)
        for name in ("id", "project")
    )
    findings.finish()
    assert run is not None  # noqa: S101 - refused above
    return replace(
        run,
        id=run_id or run.id,
        project=project or run.project,
        task_layer=layers.get("task"),
        function_layer=layers.get("function"),
    )


def _read_name(given: Any, *, what: str) -> str:
    return expect_text(given, what=f"the {what}", most=256)


def _write_part(kind: str, spec: Mapping[str, Any], *, references: tuple[str, ...] = ()) -> dict[str, Any]:
    kept = {
        key: value
        for key, value in spec.items()
        if key in references or (to_snake_case(key) in RunFields.model_fields and to_snake_case(key) not in LEFT_OUT)
    }
    return {"kind": kind, "spec": kept}


def _read_layer(type_name: str, given: Any) -> RunFields:
    part = expect_mapping(given, of="kind and spec")
    kind = expect_text(part.get("kind"), what="the kind", most=256)
    read = read_model(find_spec_model(type_name, kind), part.get("spec") or {})
    return RunFields.model_construct(**{name: getattr(read, name) for name in RunFields.model_fields})
