"""Columns derived from documents and reference strings, for lookups."""

from collections.abc import Mapping
from typing import Any
from zlib import crc32

from runyard.app.model import Entity, Run

VERSIONED_TYPES = frozenset({"function", "workflow", "artifact", "dataitem", "model", "containerimage", "configmap"})
"""Versioned types. Every entity of another type is a latest one."""

# Separates the parts of the searched text. No name contains it, so no match spans two parts.
_BORDER = "\x1f"


def find_base(reference: str | None) -> str | None:
    """`kind://project/name` of a reference, with or without `:id`."""
    if reference is None:
        return None
    start = reference.find("://") + 3 if "://" in reference else 0
    end = reference.rfind(":", start)
    return reference if end < 0 else reference[:end]


def find_action(task: str | None, *, kind: str) -> str | None:
    """`job` of the task `python+job://…`, or of a kind `python+job` or `python+job:run`."""
    source = task.partition("://")[0] if task else kind.removesuffix(":run")
    action = source.partition("+")[2]
    return None if action in ("", "run") else action


def derive_columns(entity: Entity) -> dict[str, Any]:
    """The derived columns of an entity."""
    if isinstance(entity, Run):
        function, workflow, task = entity.function, entity.workflow, entity.task
        searched = [entity.id, entity.name, function, workflow]
    else:
        function, workflow, task = (_find_text(entity.spec, key) for key in ("function", "workflow", "task"))
        searched = [entity.id, entity.name]
    return {
        "function": function,
        "function_base": find_base(function),
        "workflow": workflow,
        "workflow_base": find_base(workflow),
        "task": task,
        "action": find_action(task, kind=entity.kind),
        "search": _BORDER.join(part.casefold() for part in searched if part),
    }


def list_labels(metadata: Mapping[str, Any]) -> list[str]:
    """The texts in `metadata.labels`, distinct."""
    labels = metadata.get("labels")
    return sorted({label for label in labels if isinstance(label, str)}) if isinstance(labels, list) else []


def hash_to_shard_key(run_uid: str) -> int:
    """A stable hash that distributes runs evenly over shards."""
    return crc32(run_uid.encode("utf-8", "surrogatepass")) & 0x7FFFFFFF


def _find_text(document: Mapping[str, Any], key: str) -> str | None:
    value = document.get(key)
    return value if isinstance(value, str) else None
