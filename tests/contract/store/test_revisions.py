"""Profiles and policies: every revision is kept."""

from runyard.app.ports import Store


async def test_history_holds_every_revision_when_a_profile_was_changed_and_deleted(store: Store) -> None:
    async with store.begin() as work:
        before = await work.read_clock()
        first = await work.revisions.put("profile", "gpu", {"z": 1, "a": 2}, user="ada")
        second = await work.revisions.put("profile", "gpu", {"z": 2}, user="bob")
        third = await work.revisions.put("profile", "gpu", None, user="ada")
        fourth = await work.revisions.put("profile", "gpu", {}, user="ada")
        await work.commit()

    assert [first.revision, second.revision, third.revision, fourth.revision] == [1, 2, 3, 4]
    assert second.user == "bob"
    assert before <= first.at <= fourth.at
    async with store.begin(is_read_only=True) as work:
        assert await work.revisions.list_history("profile", "gpu") == [fourth, third, second, first]
        assert await work.revisions.find("profile", "gpu") == fourth
        assert await work.revisions.find("profile", "gpu", revision=3) == third
        assert third.document is None
        found = await work.revisions.find("profile", "gpu", revision=1)
        assert found == first
        assert found is not None
        assert found.document is not None
        assert list(found.document) == ["z", "a"]


async def test_nothing_is_found_when_kind_name_or_revision_is_unknown(store: Store) -> None:
    async with store.begin() as work:
        await work.revisions.put("profile", "gpu", {}, user="ada")
        assert await work.revisions.find("policy", "gpu") is None
        assert await work.revisions.find("profile", "cpu") is None
        assert await work.revisions.find("profile", "gpu", revision=2) is None
        assert await work.revisions.find("profile", "gpu", revision=10**30) is None
        assert await work.revisions.list_history("profile", "cpu") == []


async def test_current_ones_are_listed_by_name_when_some_are_deleted(store: Store) -> None:
    async with store.begin() as work:
        for name in ("b", "a", "gone"):
            await work.revisions.put("profile", name, {"n": 1}, user="ada")
        await work.revisions.put("profile", "a", {"n": 2}, user="ada")
        await work.revisions.put("profile", "gone", None, user="ada")
        await work.revisions.put("policy", "default", {"p": 1}, user="ada")
        await work.commit()

    async with store.begin(is_read_only=True) as work:
        current = await work.revisions.list_current(kind="profile")
        assert [(item.name, item.revision, item.document) for item in current] == [
            ("a", 2, {"n": 2}),
            ("b", 1, {"n": 1}),
        ]
        assert [item.name for item in await work.revisions.list_current(kind="policy")] == ["default"]
