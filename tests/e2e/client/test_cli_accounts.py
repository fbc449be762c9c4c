"""Commands of users and admins at a server with accounts: own tokens, the audit, and who is refused."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import runyard as ry
from runyard.cli.commands.token import SCOPES
from runyard.domain import access
from tests.core_process import call_runyard, run_core
from tests.e2e.client.client_terminal import start
from tests.e2e.client.conftest import set_environment
from tests.unit.cli.conftest import Call

ADA, BOB = "correct horse", "battery staple"
POLICY = "resources.mem: {default: 256Mi, max: 64Gi}\n"


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with an admin `ada` and a user `bob`."""
    folder = tmp_path_factory.mktemp("accounts")
    data = ("--data", str(folder / "data"))
    for words, password in ((["ada", "--admin"], ADA), (["bob"], BOB)):
        made = call_runyard("user", "create", *words, "--password-stdin", *data, given=f"{password}\n")
        assert made.code == 0, made.err
    with run_core(folder=folder) as core:
        yield core.url


@pytest.fixture
def home(accounts: str, call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder in which `runyard` is signed in as ada (context admin) and bob (context user), now as ada."""
    set_environment(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    for user, password, name in (("bob", BOB, "user"), ("ada", ADA, "admin")):
        done = call("login", accounts, "--user", user, "--stdin", "--name", name, stdin=f"{password}\n")
        assert done.code == 0, done.err
    return tmp_path


def test_token_is_printed_once_when_it_is_created(call: Call, home: Path, accounts: str) -> None:
    made = call("token", "create", "ci", "--scope", "read", "--days", "30", "--stdin", stdin=f"{ADA}\n")
    assert made.code == 0, made.err
    assert made.out.startswith("ryp_")
    assert "shown only once" in made.err
    with ry.Client(accounts, token=made.out.strip()) as client:
        assert client.whoami().username == "ada"
        with pytest.raises(ry.Forbidden):
            client.new_project("more")
    listed = json.loads(call("token", "ls", "-o", "json").out)
    (token,) = [token for token in listed if token["name"] == "ci"]
    assert (token["scopes"], made.out.strip() in str(listed)) == (["read"], False)
    assert call("token", "ls", "--columns", "scopes,name").out.splitlines()[1].split() == ["read", "ci"]
    assert "did you mean ci?" in call("token", "revoke", "cii", "--yes").err
    asked = call("token", "revoke", "ci", stdin="y\n")
    assert (asked.code, asked.out) == (0, f"revoked: ci ({token['id']})\n")
    with ry.Client(accounts, token=made.out.strip()) as client, pytest.raises(ry.NotSignedIn):
        client.whoami()


def test_password_is_asked_for_when_a_token_shall_be_created(call: Call, home: Path, accounts: str) -> None:
    wrong = call("token", "create", "ci", "--stdin", stdin="wrong\n")
    assert (wrong.code, wrong.out, wrong.err.count("\n")) == (1, "", 1), wrong.err
    assert "no terminal to prompt for the password of ada: use --stdin" in call("token", "create", "ci").err
    assert "did you mean `write`?" in call("token", "create", "ci", "--scope", "wrte").err


def test_password_is_not_shown_when_it_is_typed(home: Path, accounts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNYARD_ENDPOINT", accounts)
    monkeypatch.setenv("RUNYARD_PROJECT", "demo")
    with start("token", "create", "typed", "--context", "admin", folder=home) as terminal:
        terminal.read_until("Password of ada: ")
        terminal.type(f"{ADA}\r")
        shown = terminal.read_to_end()
        assert terminal.wait() == 0, shown
    assert ("ryp_" in shown, ADA in shown) == (True, False)


def test_password_of_the_environment_is_used_when_it_is_set(
    call: Call, home: Path, accounts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNYARD_ENDPOINT", accounts)
    monkeypatch.setenv("RUNYARD_USER", "bob")
    monkeypatch.setenv("RUNYARD_PASSWORD", BOB)
    assert call("token", "create", "env").out.startswith("ryp_")
    assert call("token", "revoke", "env", "--yes").code == 0


def test_contexts_are_named_when_their_token_is_revoked(call: Call, home: Path) -> None:
    token = json.loads((home / ".config/runyard/contexts.json").read_text())["contexts"]["user"]["token_id"]
    revoked = call("token", "revoke", token[:12], "--yes", "--context", "user")
    assert (revoked.code, "context user was signed in with it" in revoked.err) == (0, True), revoked.err
    assert call("token", "ls", "--context", "user").code == 1


def test_scopes_are_those_of_the_server_when_they_are_offered() -> None:
    assert set(SCOPES) == access.SCOPES.keys()


def test_audit_says_who_did_what_when_an_admin_asks(call: Call, home: Path) -> None:
    assert call("project", "create", "audited").code == 0
    (entry,) = json.loads(call("audit", "--project", "audited", "-o", "json").out)
    assert (entry["actor"], entry["action"], entry["id"]) == ("ada", "project.create", "audited")
    shown = call("audit", "--action", "project.create", "--since", "1h", "--columns", "actor,id").out
    assert shown.splitlines()[1].split() == ["ada", "audited"]
    assert json.loads(call("audit", "--action", "project.create", "--until", "1h", "-o", "json").out) == []
    assert json.loads(call("audit", "--actor", "nobody", "-o", "yaml").out) == []
    several = call("audit", "-n", "1")
    assert (len(several.out.splitlines()), "there are more than 1" in several.err) == (2, True)
    assert "allowed: ISO 8601" in call("audit", "--since", "monday").err
    assert "did you mean 7d?" in call("audit", "--since", "7").err


def test_member_reads_when_an_owner_shares_a_project(call: Call, home: Path) -> None:
    assert call("project", "create", "shared").code == 0
    bob = ("--project", "shared", "--context", "user")
    assert call("function", "ls", *bob).code == 1
    assert call("project", "share", "shared", "bob", "--role", "viewer").out == "shared: shared with bob (viewer)\n"
    assert call("project", "members", "shared").out.split() == ["USER", "ROLE", "ada", "owner", "bob", "viewer"]
    assert call("function", "ls", *bob).code == 0
    refused = call("config-map", "set", "settings", "--from-literal", "a=b", *bob)
    assert (refused.code, "needs the role editor" in refused.err, refused.err.count("\n")) == (1, True, 1), refused.err
    assert call("project", "share", "shared", "ada", "--context", "user").code == 1
    assert "did you mean bob?" in call("project", "unshare", "shared", "bobb").err
    assert call("project", "unshare", "shared", "bob").out == "no longer shared: shared with bob\n"
    assert call("function", "ls", *bob).code == 1
    assert "did you mean `viewer`?" in call("project", "share", "shared", "bob", "--role", "viewr").err


ADMINS_ONLY = [
    ["audit"],
    ["policy", "apply", "policy.yaml", "--yes"],
    ["policy", "rehearse", "policy.yaml"],
    ["policy", "history"],
    ["policy", "show", "--revision", "1"],
    ["profile", "apply", "small.yaml", "--yes"],
    ["profile", "history", "small"],
    ["profile", "diff", "small"],
]


@pytest.mark.parametrize("words", ADMINS_ONLY, ids=" ".join)
def test_user_is_refused_in_one_line_when_admins_only_may(call: Call, home: Path, words: list[str]) -> None:
    (home / "policy.yaml").write_text(POLICY)
    (home / "small.yaml").write_text("id: small\nresources: {mem: 1Gi}\n")
    refused = call(*words, "--context", "user")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("error: ")
    assert "admin" in refused.err
    assert refused.err.count("\n") == 1, refused.err
