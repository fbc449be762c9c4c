import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from runyard.store import open_store
from tests.unit.cli.conftest import Call

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RUNYARD_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def ada(call: Call) -> str:
    """An admin."""
    called = call("user", "create", "ada", "--admin", "--password-stdin", stdin=f"{PASSWORD}\n")
    assert (called.code, called.out) == (0, "created: ada (admin)\n"), called.err
    return "ada"


def list_users(call: Call) -> dict[str, tuple[str, str]]:
    return {row["name"]: (row["role"], row["state"]) for row in json.loads(call("user", "list", "-o", "json").out)}


def test_accounts_are_listed_when_created(call: Call, ada: str) -> None:
    called = call("user", "create", "bob", "--no-password")
    assert (called.code, called.err) == (0, "")
    assert list_users(call) == {"ada": ("admin", "enabled"), "bob": ("user", "enabled")}
    table = call("user", "list").out
    assert table.splitlines()[0].split() == ["NAME", "ROLE", "STATE", "CREATED"]


def test_admin_is_asked_for_when_there_is_none(call: Call) -> None:
    called = call("user", "create", "bob", "--password-stdin", stdin=PASSWORD)
    assert called.code == 0
    assert "there is no admin yet" in called.err


def test_password_is_kept_as_a_hash_when_created(call: Call, ada: str, data: Path) -> None:
    async def read() -> str | None:
        store = await open_store(f"sqlite:///{data}/runyard.db")
        async with store.begin(is_read_only=True) as unit:
            account = await unit.accounts.find(ada)
            entries = await unit.audit.list_entries()
        await store.close()
        assert [(entry.actor, entry.action) for _, entry in entries] == [("system", "account.create")]
        return account.password_hash if account else None

    password_hash = asyncio.run(read())
    assert password_hash is not None
    assert password_hash.startswith("$argon2id$")
    assert PASSWORD.encode() not in (data / "runyard.db").read_bytes()


def test_name_is_refused_when_it_is_taken_or_wrong(call: Call, ada: str) -> None:
    taken = call("user", "create", "ada", "--no-password")
    assert (taken.code, taken.err) == (1, "error: account ada already exists\n")
    wrong = call("user", "create", "Ada Byron", "--password-stdin", stdin="short")
    assert wrong.code == 1
    assert "name" in wrong.err
    assert "password" in wrong.err
    assert "short\n" not in wrong.err


def test_password_is_not_asked_for_when_nobody_can_answer(call: Call) -> None:
    called = call("user", "create", "ada")
    assert called.code == 2
    assert "--password-stdin" in called.err


def test_password_has_no_place_on_the_command_line_when_creating(call: Call) -> None:
    assert call("user", "create", "ada", "--password", PASSWORD).code == 2
    assert call("user", "create", "ada", "--no-password", "--password-stdin").code == 2
    assert call("user", "create", "ada", "--password-stdin", stdin=b"\xff\xfe\n").code == 2


def test_account_is_disabled_and_enabled_when_told(call: Call, ada: str) -> None:
    call("user", "create", "bob", "--no-password")
    assert call("user", "disable", "bob").out == "disabled: bob\n"
    assert list_users(call)["bob"] == ("user", "disabled")
    assert call("user", "enable", "bob").out == "enabled: bob\n"
    assert list_users(call)["bob"] == ("user", "enabled")
    last = call("user", "disable", "ada")
    assert last.code == 1
    assert "last admin" in last.err


def test_account_is_gone_when_deleted(call: Call, ada: str) -> None:
    call("user", "create", "bob", "--no-password")
    refused = call("user", "delete", "bob", stdin="n\n")
    assert refused.code != 0
    assert "bob" in list_users(call)
    assert call("user", "delete", "bob", "--yes").out == "deleted: bob\n"
    assert "bob" not in list_users(call)


def test_option_is_named_when_nobody_confirms_a_deletion(call: Call, ada: str) -> None:
    called = call("user", "delete", "ada", stdin="")
    assert called.code == 2
    assert called.err.endswith("error: no answer on standard input: use --yes\n")


def test_nearest_name_is_told_when_there_is_no_such_account(call: Call, ada: str) -> None:
    for words in (
        ["disable", "adda"],
        ["delete", "adda", "-y"],
        ["password", "adda", "--password-stdin"],
        ["token", "adda"],
    ):
        called = call("user", *words, stdin=f"{PASSWORD}\n")
        assert (called.code, called.err) == (1, "error: unknown account adda; did you mean ada?\n")


def test_password_is_changed_when_told(call: Call, ada: str) -> None:
    called = call("user", "password", "ada", "--password-stdin", stdin=f"{PASSWORD} and more\n")
    assert (called.code, called.out) == (0, "password set: ada\n")


def test_token_is_all_of_the_output_when_made(call: Call, ada: str) -> None:
    called = call("user", "token", "ada", "--name", "laptop", "--scope", "read", "--life", "90d")
    assert called.code == 0
    assert called.out.startswith("ryp_")
    assert called.out.count("\n") == 1
    assert "the token is shown only once; it expires at " in called.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--life", "ten days"], 2, "--life"),
        (["--life", "3000d"], 2, "365d"),
        (["--scope", "wirte"], 1, "write"),
    ],
)
def test_token_is_refused_when_it_asks_for_what_cannot_be(
    call: Call, ada: str, words: list[str], code: int, said: str
) -> None:
    called = call("user", "token", "ada", *words)
    assert called.code == code
    assert said in called.err
    assert called.out == ""


def test_token_is_refused_when_nobody_has_that_name(call: Call, ada: str) -> None:
    called = call("user", "token", "bob")
    assert called.code == 1
    assert "bob" in called.err


def list_tokens(call: Call, name: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(call("user", "tokens", name, "-o", "json").out)
    return listed


def test_tokens_are_listed_and_revoked_when_told(call: Call, ada: str) -> None:
    for label in ("laptop", "phone", "car"):
        call("user", "token", "ada", "--name", label, "--scope", "read")
    table = call("user", "tokens", "ada").out
    assert table.splitlines()[0].split() == ["ID", "NAME", "SCOPES", "ENDS", "LAST", "USED"]
    first = next(token for token in list_tokens(call, "ada") if token["name"] == "laptop")
    assert (first["scopes"], first["last_used"]) == (["read"], None)
    assert call("user", "revoke", "ada", first["id"]).out == f"revoked: {first['id']}\n"
    assert {token["name"] for token in list_tokens(call, "ada")} == {"phone", "car"}
    assert call("user", "revoke", "ada", "--all").out.count("revoked: ") == 2
    assert list_tokens(call, "ada") == []


def test_nothing_is_revoked_when_it_is_not_said_which(call: Call, ada: str) -> None:
    assert call("user", "revoke", "ada").code == 2
    assert call("user", "revoke", "ada", "x", "--all").code == 2
    missing = call("user", "revoke", "ada", "x")
    assert (missing.code, missing.err) == (1, "error: ada has no token x; `runyard user tokens ada` lists them\n")
    for words in (["tokens", "adda"], ["revoke", "adda", "--all"], ["admin", "adda"]):
        assert call("user", *words).err == "error: unknown account adda; did you mean ada?\n"


def test_tokens_end_when_the_password_is_set_unless_they_are_kept(call: Call, ada: str) -> None:
    call("user", "token", "ada")
    call("user", "password", "ada", "--keep-tokens", "--password-stdin", stdin=f"{PASSWORD} 2\n")
    assert len(list_tokens(call, "ada")) == 1
    call("user", "password", "ada", "--password-stdin", stdin=f"{PASSWORD} 3\n")
    assert list_tokens(call, "ada") == []


def test_somebody_is_an_admin_when_told(call: Call, ada: str) -> None:
    call("user", "create", "bob", "--no-password")
    assert call("user", "admin", "bob").out == "admin: bob\n"
    assert list_users(call)["bob"] == ("admin", "enabled")
    assert call("user", "admin", "bob", "--no").out == "no longer admin: bob\n"
    assert list_users(call)["bob"] == ("user", "enabled")
    last = call("user", "admin", "ada", "--no")
    assert last.code == 1
    assert "last admin" in last.err


def test_token_is_not_made_when_its_life_has_no_unit(call: Call, ada: str) -> None:
    called = call("user", "token", ada, "--name", "laptop", "--life", "90")
    assert called.code == 2
    assert "--life: 90 needs a unit; did you mean 90d?" in called.err
    assert call("user", "tokens", ada, "-o", "json").out == "[]\n"
