from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runyard.app.core import Core
from runyard.app.rules.current_rules import POLICY_NAME
from runyard.app.rules.rule_files import import_policy, import_profiles
from runyard.spec.problems import Refused
from tests.unit.app.demo import list_audit, open_demo


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    async with open_demo(tmp_path) as core:
        yield core


async def find_revisions(core: Core) -> dict[str, int]:
    async with core.store.begin(is_read_only=True) as unit:
        return {one.name: one.revision for one in await unit.revisions.list_current(kind="profile")}


SMALL = "id: small\nresources: {cpu: 1}\n"
LARGE = "id: large\nresources: {cpu: 8}\n"


async def test_revision_is_made_only_when_a_file_changed(core: Core) -> None:
    await import_profiles(core, {"a.yaml": SMALL, "b.yaml": LARGE})
    await import_profiles(core, {"a.yaml": SMALL, "b.yaml": LARGE})
    assert await find_revisions(core) == {"small": 1, "large": 1}
    await import_profiles(core, {"a.yaml": SMALL.replace("1", "2"), "b.yaml": LARGE})
    assert await find_revisions(core) == {"small": 2, "large": 1}
    assert len(await list_audit(core, "profile.put")) == 3


async def test_profile_goes_when_its_file_is_gone_and_stays_when_the_api_made_it(core: Core) -> None:
    await import_profiles(core, {"a.yaml": SMALL, "b.yaml": LARGE})
    async with core.store.begin() as unit:
        await unit.revisions.put("profile", "mine", {"id": "mine"}, user="ada")
        await unit.commit()
    await import_profiles(core, {"a.yaml": SMALL})
    assert set(await find_revisions(core)) == {"small", "mine"}
    assert len(await list_audit(core, "profile.delete")) == 1


async def test_file_takes_back_what_the_api_changed_when_the_server_starts_again(core: Core) -> None:
    await import_profiles(core, {"a.yaml": SMALL})
    async with core.store.begin() as unit:
        await unit.revisions.put("profile", "small", {"id": "small", "resources": {"cpu": 64}}, user="ada")
        await unit.commit()
    await import_profiles(core, {"a.yaml": SMALL})
    assert await find_revisions(core) == {"small": 3}


async def test_no_profile_is_taken_when_one_file_is_wrong(core: Core) -> None:
    with pytest.raises(Refused):
        await import_profiles(core, {"a.yaml": SMALL, "b.yaml": "id: large\nresorces: {}\n"})
    assert await find_revisions(core) == {}


async def test_policy_is_taken_once_when_its_file_stays_the_same(core: Core) -> None:
    text = "resources: {mem: {max: 64Gi}}\n"
    for _ in range(2):
        await import_policy(core, text, name="policy.yaml")
    async with core.store.begin(is_read_only=True) as unit:
        found = await unit.revisions.find("policy", POLICY_NAME)
    assert found is not None
    assert (found.revision, found.user) == (1, "files")
    assert len(await list_audit(core, "policy.put")) == 1


@pytest.mark.parametrize("text", ["a: 1\n---\nb: 2\n", "", "resorces: {}\n"])
async def test_policy_is_refused_when_its_file_is_not_one_policy(core: Core, text: str) -> None:
    with pytest.raises(Refused):
        await import_policy(core, text, name="policy.yaml")
