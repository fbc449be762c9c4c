"""Roles in projects, what they allow, and who gives them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from runyard.app.errors import Forbidden, Missing, NotPossible
from runyard.app.identity import access
from runyard.app.identity.access import (
    authorize,
    delete_share,
    find_role,
    list_shares,
    list_visible_projects,
    put_share,
)
from runyard.app.model import Principal
from runyard.domain.access import GRANTS, Permission, Role
from runyard.spec.problems import Refused
from tests.parsed_documents import record_parsed
from tests.unit.auth.world import World, open_world

ADMIN = Principal(name="root", is_admin=True)
ADA = Principal(name="ada")
EVE = Principal(name="eve")
OWN = {Permission.OWN_TOKENS, Permission.OWN_USAGE}
RUN = Principal(name="ada", run_id="r", project="mine", via="run")
ADMINS_RUN = Principal(name="root", is_admin=True, run_id="r", project="mine", via="run")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as opened:
        await opened.add_project("mine", user="ada")
        await opened.add_project("viewed", user="bob", shares=[("ada", "viewer")])
        await opened.add_project("edited", user="bob", shares=[("ada", "editor")])
        await opened.add_project("shared", user="bob", shares=[("ada", "owner")])
        await opened.add_project("public", user="bob", shares=[("*", "viewer"), ("ada", "editor")])
        await opened.add_project("wide", user="bob", shares=[("*", "editor"), ("ada", "viewer")])
        await opened.add_project("closed", user="bob", shares=[("adam", "owner")])
        yield opened


async def may(world: World, who: Principal, permission: Permission, project: str | None) -> bool:
    async with world.store.begin(is_read_only=True) as unit:
        try:
            await authorize(unit, who, permission, project=project)
        except (Forbidden, Missing):
            return False
        return True


@pytest.mark.parametrize(
    ("who", "project", "role"),
    [
        (ADMIN, "closed", Role.ADMIN),
        (ADMIN, "nowhere", Role.ADMIN),
        (ADMIN, None, Role.ADMIN),
        (ADA, "mine", Role.OWNER),
        (ADA, "viewed", Role.VIEWER),
        (ADA, "edited", Role.EDITOR),
        (ADA, "shared", Role.OWNER),
        (ADA, "public", Role.EDITOR),
        (ADA, "wide", Role.EDITOR),
        (ADA, "closed", Role.STRANGER),
        (ADA, "nowhere", Role.STRANGER),
        (ADA, None, Role.STRANGER),
        (ADA, "", Role.STRANGER),
        (EVE, "mine", Role.STRANGER),
        (EVE, "public", Role.VIEWER),
        (EVE, "wide", Role.EDITOR),
        (Principal(name="*"), "closed", Role.STRANGER),
        (RUN, "mine", Role.RUN),
        (RUN, "edited", Role.STRANGER),
        (RUN, None, Role.RUN),
        (ADMINS_RUN, "mine", Role.RUN),
        (ADMINS_RUN, "closed", Role.STRANGER),
    ],
)
async def test_role_is_the_strongest_when_several_apply(
    world: World, who: Principal, project: str | None, role: Role
) -> None:
    async with world.store.begin(is_read_only=True) as unit:
        assert await find_role(unit, who, project) is role


@pytest.mark.parametrize(
    ("who", "project", "role"),
    [
        (ADMIN, "closed", Role.ADMIN),
        (ADA, "mine", Role.OWNER),
        (ADA, "edited", Role.EDITOR),
        (ADA, "viewed", Role.VIEWER),
        (ADA, "closed", Role.STRANGER),
        (RUN, "mine", Role.RUN),
    ],
)
async def test_exactly_the_grants_are_allowed_when_a_project_is_named(
    world: World, who: Principal, project: str, role: Role
) -> None:
    assert {one for one in Permission if await may(world, who, one, project)} == GRANTS[role]


@pytest.mark.parametrize(
    ("who", "allowed"),
    [
        (ADMIN, set(Permission)),
        (ADA, {Permission.PUBLIC, Permission.SIGNED_IN, *OWN, Permission.CREATE_PROJECT}),
        (RUN, {Permission.PUBLIC, Permission.SIGNED_IN}),
        (ADMINS_RUN, {Permission.PUBLIC, Permission.SIGNED_IN}),
    ],
)
async def test_nothing_in_projects_is_allowed_when_none_is_named(
    world: World, who: Principal, allowed: set[Permission]
) -> None:
    assert {one for one in Permission if await may(world, who, one, None)} == allowed


@pytest.mark.parametrize("who", [RUN, ADMINS_RUN])
async def test_run_gets_no_more_than_a_run_when_it_looks_elsewhere(world: World, who: Principal) -> None:
    for project in ("edited", "public", "wide", "nowhere"):
        allowed = {one for one in Permission if await may(world, who, one, project)}
        assert allowed == {Permission.PUBLIC, Permission.SIGNED_IN}


async def test_scopes_take_away_when_a_token_is_limited(world: World) -> None:
    reader = Principal(name="root", is_admin=True, scopes=frozenset({"read"}), via="token")
    writer = Principal(name="root", is_admin=True, scopes=frozenset({"write", "openid"}), via="token")
    allowed = {one for one in Permission if await may(world, reader, one, "closed")}
    assert allowed == {Permission.PUBLIC, Permission.SIGNED_IN, *OWN, Permission.READ}
    allowed = {one for one in Permission if await may(world, writer, one, "closed")}
    assert allowed == set(Permission) - {Permission.ADMINISTER}


@pytest.mark.parametrize(
    ("who", "permission", "project", "words"),
    [
        (
            EVE,
            Permission.READ,
            "mine",
            "reading in project mine needs the role viewer or editor or owner; eve is not a member of it",
        ),
        (ADA, Permission.WRITE, "viewed", "needs the role editor or owner; ada is its viewer"),
        (
            ADA,
            Permission.MANAGE,
            "edited",
            "deleting project edited needs the role owner; ada is its editor",
        ),
        (ADA, Permission.ADMINISTER, None, "needs an admin of the platform; ada is not one"),
        (ADA, Permission.READ, None, "needs a project"),
        (
            RUN,
            Permission.WRITE,
            "mine",
            "the token of run r does not allow changing and running things in project mine",
        ),
        (RUN, Permission.READ, "edited", "the token of run r does not allow reading in project edited"),
        (
            Principal(name="ada", scopes=frozenset({"read"})),
            Permission.WRITE,
            "mine",
            "needs a token with the scope write or admin; this one is limited to read",
        ),
    ],
)
async def test_what_is_needed_is_said_when_something_is_forbidden(
    world: World, who: Principal, permission: Permission, project: str | None, words: str
) -> None:
    async with world.store.begin(is_read_only=True) as unit:
        with pytest.raises(Forbidden, match=words):
            await authorize(unit, who, permission, project=project)


async def test_project_is_missing_when_a_user_looks_before_creating_it(world: World) -> None:
    async with world.store.begin(is_read_only=True) as unit:
        with pytest.raises(Missing, match="project nowhere"):
            await authorize(unit, ADA, Permission.READ, project="nowhere")
        with pytest.raises(Forbidden):
            await authorize(unit, RUN, Permission.READ, project="nowhere")


async def test_list_of_projects_is_ones_own_when_it_is_asked_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "PAGE_SIZE", 2)
    for number in range(5):
        await world.add_project(f"eve{number}", user="eve")
    async with world.store.begin(is_read_only=True) as unit:
        assert await list_visible_projects(unit, ADMIN) is None
        seen = [await list_visible_projects(unit, who) or frozenset() for who in (ADA, EVE, ADMINS_RUN)]
    assert [" ".join(sorted(names)) for names in seen] == [
        "edited mine public shared viewed wide",
        "eve0 eve1 eve2 eve3 eve4 public wide",
        "mine",
    ]


async def test_no_document_is_read_when_ones_own_projects_are_listed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every request for the policy, the own rights or the projects asks for them."""
    parsed = record_parsed(monkeypatch)
    async with world.store.begin(is_read_only=True) as unit:
        assert "mine" in (await list_visible_projects(unit, ADA) or ())
    assert parsed == []


async def test_member_is_an_editor_when_an_old_client_shares(world: World) -> None:
    share = await put_share(world.core, ADA, "mine", user="eve")
    assert share.role == "editor"
    changed = await put_share(world.core, ADA, "mine", user="eve", role="viewer")
    assert changed.id == share.id
    assert list(await list_shares(world.core, "mine")) == [changed]
    async with world.store.begin(is_read_only=True) as unit:
        assert await find_role(unit, EVE, "mine") is Role.VIEWER
    await delete_share(world.core, ADA, "mine", share.id)
    async with world.store.begin(is_read_only=True) as unit:
        assert await find_role(unit, EVE, "mine") is Role.STRANGER
    with pytest.raises(Missing):
        await delete_share(world.core, ADA, "mine", share.id)


async def test_share_is_anothers_when_it_is_deleted_through_the_wrong_project(world: World) -> None:
    with pytest.raises(Missing):
        await delete_share(world.core, ADA, "mine", "closed-adam")
    assert len(await list_shares(world.core, "closed")) == 1


@pytest.mark.parametrize(
    ("fields", "codes", "suggestion"),
    [
        ({"user": "eve", "role": "edtor"}, ["role.unknown"], "editor"),
        ({"user": "*", "role": "owner"}, ["role.everyone"], None),
        ({"user": "evee"}, ["user.unknown"], None),
        ({"user": ""}, ["field.missing"], None),
        ({"user": "nobody", "role": ""}, ["role.unknown", "user.unknown"], None),
    ],
)
async def test_share_is_refused_when_role_or_user_is_not_known(
    world: World, fields: dict[str, Any], codes: list[str], suggestion: str | None
) -> None:
    await world.add_account("eve")
    with pytest.raises(Refused) as caught:
        await put_share(world.core, ADA, "mine", **fields)
    assert [problem.code for problem in caught.value.problems] == codes
    assert caught.value.problems[0].suggestion == suggestion


async def test_accounts_are_suggested_only_to_admins_when_a_share_names_an_unknown_one(world: World) -> None:
    await world.add_account("eve")
    for who, suggestion in ((ADA, None), (RUN, None), (ADMINS_RUN, None), (ADMIN, "eve")):
        with pytest.raises(Refused) as caught:
            await put_share(world.core, who, "mine", user="evee")
        assert [problem.suggestion for problem in caught.value.problems] == [suggestion]


async def test_creator_stays_owner_when_somebody_shares_with_them(world: World) -> None:
    with pytest.raises(NotPossible, match="ada created project mine and already owns it"):
        await put_share(world.core, ADMIN, "mine", user="ada", role="viewer")


async def test_project_is_missing_when_it_is_shared_and_not_there(world: World) -> None:
    for attempt in (
        list_shares(world.core, "nowhere"),
        put_share(world.core, ADMIN, "nowhere", user="eve"),
        delete_share(world.core, ADMIN, "nowhere", "x"),
    ):
        with pytest.raises(Missing, match="project nowhere"):
            await attempt


async def test_sharing_is_written_down_when_it_happens(world: World) -> None:
    share = await put_share(world.core, ADA, "mine", user="*", role="viewer")
    await delete_share(world.core, ADA, "mine", share.id)
    entries = await world.list_audit()
    assert [(entry.action, entry.project, entry.id, entry.details) for entry in entries] == [
        ("project.share", "mine", share.id, {"user": "*", "role": "viewer"}),
        ("project.unshare", "mine", share.id, {"user": "*", "role": "viewer"}),
    ]
