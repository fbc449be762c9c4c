"""The files of an artifact, data item or model, as the client describes them. `app.files` has those stored here."""

from dataclasses import replace
from typing import Any

from runyard.app.audit import audit
from runyard.app.core import Core
from runyard.app.document_thread import compute
from runyard.app.entities.crud import lock_entity, replace_entity
from runyard.app.entities.drafts import drop_nulls
from runyard.app.entities.ownership import check_own_entity
from runyard.app.locks import lock_of_project
from runyard.app.model import Json, Principal
from runyard.spec.problem_codes import Code
from runyard.spec.readers import Findings, describe_type, expect_mapping, refuse

MOST_FILES = 10_000
"""Files of an entity that a client describes, and files that the server stores of one."""


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
    """Replace the list of an entity's files, which would be too long for an update of the entity.

    Raises `Conflict` if the entity is not at the expected revision.
    """
    files = await compute(lambda: _read_files(given), over=given)
    async with core.store.begin() as unit:
        await unit.lock_shared(lock_of_project(project))
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
        raise refuse(Code.TYPE_LIST, f"must be a list of files, not {describe_type(given)}")
    if len(given) > MOST_FILES:
        raise refuse(Code.SIZE_ENTRIES, f"has {len(given)} entries", allowed=f"at most {MOST_FILES}")
    findings = Findings()
    files = [findings.read(_read_file, entry, index) for index, entry in enumerate(given)]
    findings.finish()
    return files


def _read_file(given: Any) -> Json:
    return dict(drop_nulls(expect_mapping(given, of="a file's fields")))
