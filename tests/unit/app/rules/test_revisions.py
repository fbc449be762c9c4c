from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runyard.app.core import Core
from runyard.app.errors import Conflict, Missing
from runyard.app.rules.current_rules import POLICY_NAME
from runyard.app.rules.revisions import list_revisions, put_revision
from tests.unit.app.demo import ADA, open_demo


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    async with open_demo(tmp_path) as core:
        yield core


async def put(core: Core, seconds: int, *, expected_revision: int | None = None) -> int:
    document = {"timeout": {"max": seconds}}
    kept = await put_revision(core, ADA, "policy", POLICY_NAME, document, expected_revision=expected_revision)
    return kept.revision


async def test_no_revision_is_made_when_the_document_is_the_same(core: Core) -> None:
    assert [await put(core, seconds) for seconds in (60, 60, 90, 90, 60)] == [1, 1, 2, 2, 3]
    assert [one.revision for one in await list_revisions(core, "policy")] == [3, 2, 1]


async def test_revision_is_refused_when_another_was_written_since(core: Core) -> None:
    assert await put(core, 60, expected_revision=0) == 1
    for expected in (0, 2):
        with pytest.raises(Conflict):
            await put(core, 90, expected_revision=expected)
    assert await put(core, 90, expected_revision=1) == 2


async def test_nothing_is_deleted_when_there_is_nothing(core: Core) -> None:
    with pytest.raises(Missing):
        await put_revision(core, ADA, "profile", "p", None, expected_revision=None)
