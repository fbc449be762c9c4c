"""Named numbers of an entity or run, and the files of what runs make."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runyard.app.audit import audit
from runyard.app.core import Core
from runyard.app.entities.crud import lock_entity, replace_entity, require_entity
from runyard.app.entities.drafts import drop_nulls, expect_name
from runyard.app.entities.ownership import check_own_entity
from runyard.app.model import Entity, Json, Principal
from runyard.app.ports import UnitOfWork
from runyard.app.runs.transitions import check_own_run, require_run
from runyard.spec.readers import Findings, describe_type, expect_mapping, refuse

MOST_POINTS = 100_000
MOST_FILES = 10_000
MOST_VALUE = 1e308


async def list_metrics(core: Core, type_name: str, project: str, entity_id: str) -> Mapping[str, float | list[float]]:
    """All metrics of an entity or run; raises `Missing` for the entity."""
    async with core.store.begin(is_read_only=True) as unit:
        await _require(unit, type_name, project, entity_id)
        return await unit.metrics.list_values(type_name, entity_id)


async def put_metric(
    core: Core, who: Principal, type_name: str, project: str, entity_id: str, *, name: str, given: Any
) -> None:
    """A number or a series, in place of what was there."""
    value = _read_value(given)
    expect_name(name, what="the name of a metric")
    if type_name == "run":
        check_own_run(who, entity_id)
    async with core.store.begin() as unit:
        await unit.hold_project(project)
        await unit.lock_project(f"{project}/{type_name}/{entity_id}")
        entity = await _require(unit, type_name, project, entity_id)
        if type_name != "run":
            check_own_entity(who, entity)
        await unit.metrics.put(type_name, entity_id, name, value)
        await unit.commit()


async def list_files(core: Core, type_name: str, project: str, entity_id: str) -> list[Json]:
    """What the client said of an entity's files."""
    async with core.store.begin(is_read_only=True) as unit:
        entity = await require_entity(unit, type_name, project, entity_id)
    files = entity.status.get("files", [])
    return files if isinstance(files, list) else []


async def put_files(
    core: Core,
    who: Principal,
    type_name: str,
    project: str,
    entity_id: str,
    given: Any,
    *,
    expected_revision: int | None = None,
) -> None:
    """Replace what is said of an entity's files: a list, too long to stand in the entity's own update.

    Raises `Conflict` where the writer had seen another revision of the entity.
    """
    files = _read_files(given)
    async with core.store.begin() as unit:
        await unit.hold_project(project)
        entity = await lock_entity(unit, type_name, project, entity_id)
        check_own_entity(who, entity)
        changed = replace(
            entity, status={**entity.status, "files": files}, updated_at=core.clock.now(), updated_by=who.name
        )
        await replace_entity(unit, changed, expected_revision=expected_revision)
        await audit(core, unit, who, f"{type_name}.put_files", entity, details={"files": len(files)})
        await unit.commit()


def _read_files(given: Any) -> list[Json | None]:
    if not isinstance(given, list):
        raise refuse("type.list", f"must be a list of files, not {describe_type(given)}")
    if len(given) > MOST_FILES:
        raise refuse("size.entries", f"has {len(given)} entries", allowed=f"at most {MOST_FILES}")
    findings = Findings()
    files = [findings.read(_read_file, entry, index) for index, entry in enumerate(given)]
    findings.finish()
    return files


def _read_file(given: Any) -> Json:
    return dict(drop_nulls(expect_mapping(given, of="a file's fields")))


async def _require(unit: UnitOfWork, type_name: str, project: str, entity_id: str) -> Entity:
    if type_name == "run":
        return await require_run(unit, project, entity_id)
    return await require_entity(unit, type_name, project, entity_id)


def _read_value(given: Any) -> float | list[float]:
    if isinstance(given, list):
        if len(given) > MOST_POINTS:
            raise refuse("size.entries", f"has {len(given)} numbers", allowed=f"at most {MOST_POINTS}")
        return [_read_number(item) for item in given]
    return _read_number(given)


def _read_number(given: Any) -> float:
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    # Compared first: Python makes no float of a larger integer.
    if not is_number or not abs(given) <= MOST_VALUE:
        raise refuse("type.number", f"must be a number or a list of numbers, not {describe_type(given)}", value=given)
    return float(given)
