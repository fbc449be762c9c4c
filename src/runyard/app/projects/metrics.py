"""Metrics of entities and runs: named numbers and series."""

from collections.abc import Mapping
from typing import Any

from runyard.app.core import Core
from runyard.app.document_thread import compute
from runyard.app.entities import check_own_entity, expect_name, require_entity
from runyard.app.locks import lock_of_entity, lock_of_project
from runyard.app.model import Entity, Principal, Run
from runyard.app.ports import UnitOfWork
from runyard.app.runs import check_own_run, check_same_run, require_run
from runyard.spec.figures import format_bytes
from runyard.spec.problem_codes import Code
from runyard.spec.readers import describe_type, refuse

MOST_POINTS = 50_000
MOST_METRICS = 256
MOST_METRICS_BYTES = 8 << 20
"""Of an entity or run, as JSON."""
MOST_VALUE = 1e308


async def list_metrics(core: Core, type_name: str, project: str, entity_id: str) -> Mapping[str, float | list[float]]:
    """All metrics of an entity or run; raises `Missing`."""
    async with core.store.begin(is_read_only=True) as unit:
        await _require(unit, type_name, project, entity_id)
        return await unit.metrics.list_values(type_name, entity_id, project=project)


async def put_metric(
    core: Core, who: Principal, type_name: str, project: str, entity_id: str, *, name: str, given: Any
) -> None:
    """Set a metric: a number or a series."""
    value = await compute(lambda: _read_value(given), over=given)
    expect_name(name, what="the name of a metric")
    if type_name == "run":
        check_own_run(who, entity_id)
    async with core.store.begin() as unit:
        await unit.lock_shared(lock_of_project(project))
        await unit.lock(lock_of_entity(type_name, project, entity_id))
        entity = await _require(unit, type_name, project, entity_id)
        if isinstance(entity, Run):
            check_same_run(who, entity)
        else:
            check_own_entity(who, entity)
        await unit.metrics.put(type_name, entity_id, name, value, project=project)
        _check_size(*await unit.metrics.measure(type_name, entity_id, project=project))
        await unit.commit()


def _check_size(count: int, size: int) -> None:
    """Check all metrics of an entity, which are read and answered together."""
    if count > MOST_METRICS:
        raise refuse(Code.SIZE_ENTRIES, f"there would be {count} metrics", allowed=f"at most {MOST_METRICS}")
    if size > MOST_METRICS_BYTES:
        allowed = f"at most {format_bytes(MOST_METRICS_BYTES)} for all metrics together"
        raise refuse(Code.SIZE_BYTES, f"the metrics would have {format_bytes(size)}", allowed=allowed)


async def _require(unit: UnitOfWork, type_name: str, project: str, entity_id: str) -> Entity:
    if type_name == "run":
        return await require_run(unit, project, entity_id)
    return await require_entity(unit, type_name, project, entity_id)


def _read_value(given: Any) -> float | list[float]:
    if isinstance(given, list):
        if len(given) > MOST_POINTS:
            raise refuse(Code.SIZE_ENTRIES, f"has {len(given)} numbers", allowed=f"at most {MOST_POINTS}")
        return [_read_number(item) for item in given]
    return _read_number(given)


def _read_number(given: Any) -> float:
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    # Compared before converting: float() raises for larger integers.
    if not is_number or not abs(given) <= MOST_VALUE:
        raise refuse(
            Code.TYPE_NUMBER, f"must be a number or a list of numbers, not {describe_type(given)}", value=given
        )
    return float(given)
