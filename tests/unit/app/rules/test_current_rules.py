from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runyard.app.core import Core
from runyard.app.model import Json
from runyard.app.rules.current_rules import (
    POLICY_NAME,
    CurrentRules,
    load_current,
    parse_profile,
    read_profile_document,
)
from runyard.spec.problems import Refused
from tests.unit.app.demo import open_demo


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    async with open_demo(tmp_path) as core:
        yield core


async def put(core: Core, name: str, document: Json | None, *, is_policy: bool = False) -> None:
    async with core.store.begin() as unit:
        await unit.revisions.put("policy" if is_policy else "profile", name, document, user="ada")
        await unit.commit()


async def load(core: Core) -> CurrentRules:
    async with core.store.begin(is_read_only=True) as unit:
        return await load_current(unit)


async def test_nothing_is_prepared_when_the_admin_wrote_nothing(core: Core) -> None:
    current = await load(core)
    assert (dict(current.admin_rules.profiles), current.policy_revision) == ({}, None)


async def test_newest_revision_holds_when_a_profile_was_written_again(core: Core) -> None:
    await put(core, "small", {"id": "small", "resources": {"cpu": "1"}})
    before = await load(core)
    await put(core, "small", {"id": "small", "resources": {"cpu": "2"}})
    after = await load(core)
    assert [str(each.admin_rules.profiles["small"].fields.resources["cpu"].requests) for each in (before, after)] == [  # type: ignore[index]
        "1",
        "2",
    ]
    assert [each.profile_revisions["small"] for each in (before, after)] == [1, 2]
    await put(core, "small", None)
    assert dict((await load(core)).admin_rules.profiles) == {}


async def test_profile_is_parsed_once_when_its_revision_is_the_same(core: Core) -> None:
    await put(core, "small", {"id": "small", "resources": {"cpu": "1"}})
    first = await load(core)
    misses = parse_profile.cache_info().misses
    assert (await load(core)).admin_rules.profiles["small"] is first.admin_rules.profiles["small"]
    assert parse_profile.cache_info().misses == misses


async def test_policy_holds_when_one_is_written(core: Core) -> None:
    await put(core, POLICY_NAME, {"resources": {"mem": {"max": "1Gi"}}}, is_policy=True)
    await put(core, "another", {}, is_policy=True)
    current = await load(core)
    assert current.policy_revision == 1


def test_profile_takes_its_name_from_the_address_when_it_has_none() -> None:
    profile, warnings = read_profile_document({"resources": {"cpu": "1"}}, name="small")
    assert (profile.id, warnings) == ("small", [])


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({"id": "large", "resources": {}}, "profile.other"),
        ({"documents": []}, "profile.none"),
        ({"documents": 5}, "type.list"),
        ({"documents": {"id": "small"}}, "type.list"),
        ({"documents": [5]}, "type.mapping"),
        ({"documents": None}, "type.list"),
        ({"documents": [{"id": "small"}, {"id": "large"}]}, "profile.count"),
    ],
)
def test_profile_is_refused_when_it_is_not_one_of_that_name(document: Json, code: str) -> None:
    with pytest.raises(Refused) as caught:
        read_profile_document(document, name="small")
    assert [problem.code for problem in caught.value.problems] == [code]
