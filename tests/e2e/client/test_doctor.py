"""`runyard doctor` against real servers, healthy and not: one line for each check, with the cure, and an exit code."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import runyard as ry
from runyard.sdk.checks import judge_clock, judge_engine, judge_server, judge_sign_in, read_clock
from runyard.sdk.contexts import find_path
from tests.certificates import write_certificate
from tests.core_process import run_core
from tests.e2e.client.test_completed_names import Counter
from tests.e2e.client.test_faults import ELSEWHERE, PASSWORD, expire, lonely, run_with_ada
from tests.small_proxy import SmallProxy
from tests.unit.cli.conftest import Call, Called

__all__ = ["lonely"]


def read_checks(done: Called) -> dict[str, tuple[str, str]]:
    """Level and text of the last line of each check."""
    lines = [line.split(maxsplit=2) for line in done.out.splitlines()[:-1]]
    return {name.rstrip(":"): (level, text) for level, name, text in lines}


@contextmanager
def sign_in(call: Call, folder: Path, *options: str, days: int = 90) -> Iterator[tuple[str, str]]:
    """A server with accounts, at which the user signed in with a token of so many days: address and token id."""
    with run_with_ada(folder, *options) as core:
        with ry.Client(core.url, user="ada", password=PASSWORD) as client:
            token = client.create_token("doctor", days=days)
            client.new_project("vision")
        login = ("login", core.url, "--token", "--stdin", "--name", "lab", "--project", "vision")
        assert call(*login, stdin=f"{token['value']}\n").code == 0
        yield core.url, str(token["id"])


def test_every_check_is_a_line_when_nothing_is_wrong(call: Call, server: str) -> None:
    with ry.Client() as client:
        client.get_or_create_project("demo")
    done = call("doctor")
    assert (done.code, done.err) == (0, ""), done.out
    checks = read_checks(done)
    assert list(checks) == [
        *("configuration", "client", "proxy", "host", "connection", "certificate", "clock", "server", "sign-in"),
        *("engine", "project"),
    ]
    assert {level for level, _ in checks.values()} == {"ok"}
    assert checks["configuration"] == ("ok", f"{server} from RUNYARD_ENDPOINT, project demo")
    assert checks["server"] == ("ok", f"runyard {ry.__version__}")
    assert checks["engine"][1].startswith("local (")
    assert done.out.endswith("\nnothing is wrong\n")
    data = json.loads(call("doctor", "-o", "json").out)
    assert data["is_healthy"] is True
    assert {check["name"] for check in data["checks"]} == set(checks)


def test_sign_in_and_certificate_have_their_ends_when_there_are_accounts_and_tls(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tls").mkdir()
    tls = write_certificate(tmp_path / "tls", life=timedelta(days=100))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "tls/cert.pem"))
    with sign_in(call, tmp_path / "core", *tls) as (url, _):
        done = call("doctor")
    checks = read_checks(done)
    ends = read_clock() + timedelta(days=90)
    assert done.code == 0, done.out
    assert checks["configuration"][1].startswith(f"{url} from context lab in ")
    assert checks["certificate"] == ("ok", f"trusted, valid until {read_clock() + timedelta(days=100):%Y-%m-%d}")
    assert checks["sign-in"][1].startswith(f"as ada, until {ends:%Y-%m-%d}")
    assert checks["engine"] == ("warning", "none: runs are stored and not started; start the server with --engine")
    assert checks["project"] == ("ok", "vision")
    assert done.out.endswith("\n0 errors, 1 warning\n")


def test_ends_are_warnings_when_they_are_near(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tls").mkdir()
    tls = write_certificate(tmp_path / "tls", life=timedelta(days=3))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "tls/cert.pem"))
    with sign_in(call, tmp_path / "core", *tls, days=2) as (_, token_id):
        checks = read_checks(call("doctor"))
        assert checks["certificate"][0] == "warning"
        assert checks["certificate"][1].endswith("; ask the operator to renew it")
        assert checks["sign-in"][0] == "warning"
        assert checks["sign-in"][1].endswith("; sign in with `runyard login`")
        expire(tmp_path / "core/data", token_id)
        expired = call("doctor")
        assert expired.code == 1
        level, text = read_checks(expired)["sign-in"]
        assert (level, "the personal token has expired" in text) == ("ERROR", True)
        assert text.endswith("sign in with `runyard login`")
        assert expired.out.endswith("\n1 error, 1 warning\n")


def test_nearest_project_is_named_when_it_is_missing(call: Call, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with ry.Client() as client:
        client.get_or_create_project("demo")
    done = call("doctor", "--project", "demu")
    assert done.code == 1
    assert read_checks(done)["project"] == ("ERROR", "there is no project demu; did you mean demo?")
    monkeypatch.delenv("RUNYARD_PROJECT")
    unnamed = call("doctor")
    assert unnamed.code == 0
    assert read_checks(unnamed)["project"] == (
        *("warning", "there is no project default; create it with `runyard project create default`"),
    )


@pytest.mark.parametrize(
    ("url", "name", "words"),
    [
        ("http://127.0.0.1:9", "connection", "connection refused; is the server running?"),
        ("https://nowhere.invalid", "host", "check the spelling, and the name server or VPN of this machine"),
        ("ftp://server", "configuration", "allowed: an http or https address, such as http://localhost:8080"),
    ],
)
def test_check_that_failed_is_the_last_when_the_server_cannot_be_reached(
    call: Call, url: str, name: str, words: str
) -> None:
    done = call("doctor", "--endpoint", url)
    assert (done.code, done.err) == (1, "")
    assert done.out.splitlines()[-1] == "1 error, 0 warnings"
    level, text = read_checks(done)[name]
    assert (level, text.endswith(words)) == ("ERROR", True), text
    assert list(read_checks(done))[-1] == name
    data = json.loads(call("doctor", "--endpoint", url, "-o", "json").out)
    assert (data["is_healthy"], data["checks"][-1]["level"]) == (False, "error")


def test_certificate_is_the_cause_when_it_is_not_trusted(call: Call, tmp_path: Path) -> None:
    (tmp_path / "tls").mkdir()
    with run_core(*write_certificate(tmp_path / "tls"), folder=tmp_path / "core") as core:
        done = call("doctor", "--endpoint", core.url)
    level, text = read_checks(done)["connection"]
    assert (done.code, level) == (1, "ERROR")
    assert text.endswith("not trusted: self-signed certificate; name the file of its authority in SSL_CERT_FILE")


def test_proxy_is_shown_when_requests_go_through_one(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_with_ada(tmp_path / "core") as core:
        target = {f"{ELSEWHERE}:8443": urlsplit(core.url).netloc}
        monkeypatch.setenv("RUNYARD_ENDPOINT", f"http://{ELSEWHERE}:8443")
        monkeypatch.setenv("RUNYARD_USER", "ada")
        monkeypatch.setenv("RUNYARD_PASSWORD", PASSWORD)
        with SmallProxy("pass", target).serve() as address:
            monkeypatch.setenv("HTTP_PROXY", address)
            checks = read_checks(call("doctor"))
        assert checks["proxy"] == ("ok", address)
        assert "host" not in checks
        assert checks["certificate"] == ("warning", "none: others can read your token; use https://")
        assert checks["sign-in"] == ("ok", "as ada")
        with SmallProxy("page", target).serve() as address:
            monkeypatch.setenv("HTTP_PROXY", address)
            done = call("doctor")
    level, text = read_checks(done)["connection"]
    assert (done.code, level) == (1, "ERROR")
    assert "guest network" in text
    assert text.endswith("see HTTPS_PROXY, HTTP_PROXY and NO_PROXY")


def test_difference_is_shown_when_this_clock_is_wrong(call: Call, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    late = read_clock() - timedelta(hours=3)
    monkeypatch.setattr("runyard.sdk.sync.diagnosis.read_clock", lambda: late)
    level, text = read_checks(call("doctor"))["clock"]
    assert level == "warning"
    assert f"this machine says {late:%Y-%m-%d %H:%M:%S} UTC, " in text
    assert text.endswith("hours behind the server; let both take their time from NTP")


def test_other_servers_are_told_apart_when_they_answer(call: Call) -> None:
    with Counter(b'{"dhcore_name": "digitalhub-core", "dhcore_version": "0.13"}').serve() as url:
        done = call("doctor", "--endpoint", url)
    assert done.code == 1
    assert read_checks(done)["server"] == ("ERROR", "digitalhub-core answers there, not Runyard; check the address")


def test_server_is_not_ready_when_its_database_cannot_be_written(call: Call, tmp_path: Path) -> None:
    with run_core(folder=tmp_path / "core") as core, sqlite3.connect(tmp_path / "core/data/runyard.db") as database:
        database.execute("BEGIN EXCLUSIVE")
        done = call("doctor", "--endpoint", core.url)
        database.execute("ROLLBACK")
    server = [line for line in done.out.splitlines() if "server:" in line]
    assert done.code == 1, done.out
    assert server[0].startswith("ERROR   server: is not ready: "), done.out


def test_unused_settings_are_named_when_others_win(
    call: Call, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("login", server, "--name", "lab").code == 0
    assert "ok      configuration: the current context lab is not used\n" in call("doctor").out
    monkeypatch.delenv("RUNYARD_ENDPOINT")
    monkeypatch.setenv("RUNYARD_TOKEN", "a token")
    path = find_path({"HOME": str(tmp_path)})
    path.chmod(0o644)
    done = call("doctor")
    assert done.code == 0
    assert "warning configuration: RUNYARD_TOKEN is not used without RUNYARD_ENDPOINT; " in done.out
    assert f"warning configuration: others may read {path}, which has your tokens; run `chmod 600 {path}`" in done.out
    path.write_text("{broken")
    broken = call("doctor")
    assert (broken.code, broken.out.startswith("ERROR   configuration: ")) == (1, True)


def test_judgements_are_as_documented_when_the_server_says_more() -> None:
    now = read_clock()
    assert judge_clock("no time", now=now).level == "warning"
    assert judge_clock((now + timedelta(seconds=30)).strftime("%a, %d %b %Y %H:%M:%S GMT"), now=now).level == "ok"
    ahead = judge_clock((now - timedelta(days=3)).strftime("%a, %d %b %Y %H:%M:%S GMT"), now=now)
    assert "3 days ahead of the server" in ahead.message
    other = judge_server({"dhcore_name": "runyard", "dhcore_version": "9.2.0"})
    assert (other.level, other.cure) == ("warning", "install runyard 9.2.0 here")
    away = judge_engine({"engine": "kubernetes", "capabilities": ["exec"], "error": {"message": "no answer"}})
    assert (away.level, away.message) == ("error", "kubernetes (exec): no answer")
    assert judge_sign_in({"username": "x", "expires_at": "nonsense"}, has_accounts=True, now=now).message == "as x"
