"""Signing in at a server with accounts: a password becomes a token, which `logout` revokes."""

import json
import stat
from pathlib import Path

import pytest

import runyard as ry
from runyard.sdk.contexts import find_path
from tests.core_process import call_runyard, run_core
from tests.e2e.client.conftest import set_environment
from tests.unit.cli.conftest import Call


def test_password_is_exchanged_for_a_token_when_signing_in(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_environment(monkeypatch, tmp_path)
    data = ("--data", str(tmp_path / "core" / "data"))
    made = call_runyard("user", "create", "ada", "--admin", "--password-stdin", *data, given="correct horse\n")
    assert made.code == 0, made.err
    with run_core(folder=tmp_path / "core") as core:
        refused = call("whoami", "--endpoint", core.url)
        assert (refused.code, "sign in with `runyard login`" in refused.err) == (1, True), refused.err
        wrong = call("login", core.url, "--user", "ada", "--stdin", stdin="wrong\n")
        assert wrong.code == 1
        assert call("login", core.url, "--stdin", stdin="x\n").code == 2
        done = call("login", core.url, "--user", "ada", "--stdin", "--name", "lab", stdin="correct horse\n")
        assert (done.code, done.out) == (0, f"signed in at {core.url} as ada (context lab)\n"), done.err
        path = find_path({"HOME": str(tmp_path)})
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "correct horse" not in path.read_text()
        assert json.loads(call("whoami", "-o", "json").out)["user"] == "ada"
        with ry.Client() as client:
            assert client.whoami().username == "ada"
        token = json.loads(path.read_text())["contexts"]["lab"]["token"]
        by_token = call("login", core.url, "--token", "--stdin", "--name", "second", stdin=f"{token}\n")
        assert by_token.code == 0, by_token.err
        assert call("context", "lab").out == f"context lab: {core.url}\n"
        out = call("logout")
        assert (out.code, out.err) == (0, ""), out.err
        with ry.Client(core.url, token=token) as client, pytest.raises(ry.NotSignedIn, match="not accepted"):
            client.whoami()
