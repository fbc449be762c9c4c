"""The table of permissions, written by hand: what each role and each scope of a token may do."""

import pytest

from runyard.domain.access import GRANTS, SCOPES, Permission, Role, allows

EVERYBODY = {"public", "signed_in", "own_tokens", "own_usage", "create_project"}
PERMISSIONS = {
    "stranger": EVERYBODY,
    "viewer": EVERYBODY | {"read"},
    "editor": EVERYBODY | {"read", "write", "produce", "report", "interact", "read_secrets"},
    "owner": EVERYBODY | {"read", "write", "produce", "report", "interact", "read_secrets", "manage"},
    "run": {"public", "signed_in", "read", "produce", "report", "read_secrets"},
    "admin": EVERYBODY | {"read", "write", "produce", "report", "interact", "read_secrets", "manage", "administer"},
}
SCOPED = {
    "read": {"public", "signed_in", "own_tokens", "own_usage", "read"},
    "write": PERMISSIONS["admin"] - {"administer"},
    "admin": PERMISSIONS["admin"],
}


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("permission", Permission)
def test_role_allows_exactly_its_permissions_when_no_scope_limits_it(role: Role, permission: Permission) -> None:
    assert allows(role, permission) is (permission.value in PERMISSIONS[role.value])


@pytest.mark.parametrize("scope", sorted(SCOPED))
@pytest.mark.parametrize("permission", Permission)
def test_scope_takes_away_when_a_token_of_an_admin_is_limited(scope: str, permission: Permission) -> None:
    assert allows(Role.ADMIN, permission, scopes=frozenset({scope})) is (permission.value in SCOPED[scope])


def test_scope_gives_nothing_when_the_role_has_it_not() -> None:
    assert not allows(Role.VIEWER, Permission.WRITE, scopes=frozenset({"admin"}))


def test_scopes_add_up_when_a_token_has_several() -> None:
    assert allows(Role.EDITOR, Permission.WRITE, scopes=frozenset({"read", "write"}))


def test_foreign_scopes_limit_nothing_when_clients_ask_for_them() -> None:
    assert allows(Role.EDITOR, Permission.WRITE, scopes=frozenset({"openid"}))


def test_table_names_every_role_and_scope_when_one_is_added() -> None:
    assert {role.value for role in GRANTS} == {role.value for role in Role} == set(PERMISSIONS)
    assert set(SCOPES) == set(SCOPED)
