"""Faults between a client and its server: each is one clear line of a command, and one documented error of the SDK.

The servers, their certificates, the proxy and the tokens are real. What a log does while its server restarts is in
`test_follow_through_restart.py`.
"""

import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import runyard as ry
from tests.certificates import write_certificate
from tests.core_process import CoreProcess, call_runyard, run_core
from tests.e2e.client.conftest import set_environment
from tests.small_proxy import Conduct, SmallProxy, relay
from tests.unit.cli.conftest import Call

ELSEWHERE = "192.0.2.1"
"""An address that is nobody's: only the proxy of a test knows the way there."""
PASSWORD = "correct horse battery"
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def lonely(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user without configuration and proxies, who does not wait long."""
    set_environment(monkeypatch, tmp_path)
    for name in (*PROXY_VARIABLES, *(name.lower() for name in PROXY_VARIABLES), "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("runyard.cli.client_session.RETRY_SECONDS", 0.0)


@dataclass(frozen=True, slots=True)
class Fault:
    """What a client said, by the SDK and by a command."""

    error: ry.RunyardError
    line: str


def meet(call: Call, url: str, *, timeout: float = 30.0) -> Fault:
    """Ask a server that cannot answer, as a program and as a command."""
    with ry.Client(url, retry_seconds=0, timeout=timeout) as client, pytest.raises(ry.RunyardError) as caught:
        client.whoami()
    done = call("whoami", "--endpoint", url)
    assert (done.code, done.out) == (1, ""), done
    (line,) = done.err.splitlines()
    assert line.removeprefix("error: ") == str(caught.value).replace("\n", " ")
    return Fault(caught.value, line)


@contextmanager
def run_with_ada(folder: Path, *options: str) -> Iterator[CoreProcess]:
    """A server with an account."""
    data = str(folder / "data")
    made = call_runyard("user", "create", "ada", "--password-stdin", "--data", data, given=f"{PASSWORD}\n")
    assert made.code == 0, made.err
    with run_core(*options, folder=folder) as core:
        yield core


@contextmanager
def serve_tls(folder: Path, **of_certificate: timedelta | str) -> Iterator[str]:
    """A server with a certificate of this test."""
    folder.mkdir(exist_ok=True)
    with run_core(*write_certificate(folder, **of_certificate), folder=folder / "core") as core:  # type: ignore[arg-type]
        yield core.url


def test_authority_is_named_when_the_certificate_is_not_trusted(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_tls(tmp_path / "tls") as url:
        fault = meet(call, url)
        assert type(fault.error) is ry.CertificateError
        assert fault.line.startswith(
            f"error: {url}: the server's certificate is not trusted: self-signed certificate; "
        )
        assert fault.line.endswith("name the file of its authority in SSL_CERT_FILE")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "tls/cert.pem"))
        assert call("whoami", "--endpoint", url).code == 0


@pytest.mark.parametrize(
    ("starts_in", "reason"),
    [(timedelta(days=2), "certificate is not yet valid"), (timedelta(days=-2), "certificate has expired")],
)
def test_clock_is_named_when_it_does_not_fit_the_certificate(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starts_in: timedelta, reason: str
) -> None:
    """The same as a clock that is wrong by two days."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "tls/cert.pem"))
    with serve_tls(tmp_path / "tls", starts_in=starts_in) as url:
        fault = meet(call, url)
    assert type(fault.error) is ry.CertificateError
    assert f"is not trusted: {reason}; check the clock of this machine, which says " in fault.line
    assert f"{datetime.now(UTC):%Y-%m-%d}" in fault.line


def test_other_address_is_wanted_when_the_certificate_is_for_another(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "tls/cert.pem"))
    with serve_tls(tmp_path / "tls", host=ELSEWHERE) as url:
        fault = meet(call, url)
    assert type(fault.error) is ry.CertificateError
    assert fault.line.endswith("use an address that the certificate is for")


def test_scheme_is_named_when_the_server_does_not_speak_tls(call: Call, tmp_path: Path) -> None:
    with run_core(folder=tmp_path / "core") as core:
        fault = meet(call, core.url.replace("http://", "https://"))
    assert type(fault.error) is ry.ServerUnreachable
    assert fault.line.endswith(": the server does not speak TLS there; is its address http://…?")


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    ("conduct", "words"),
    [
        ("refuse", {"http": "HTTP 403, and the response is not from a Runyard server", "https": "403 Forbidden"}),
        ("page", {"http": "the response is not JSON: <html>", "https": "does not speak TLS"}),
    ],
)
def test_proxy_is_named_when_it_answers_by_itself(
    call: Call, monkeypatch: pytest.MonkeyPatch, conduct: Conduct, words: dict[str, str], scheme: str
) -> None:
    with SmallProxy(conduct, {}).serve() as address:
        parts = urlsplit(address)
        monkeypatch.setenv(f"{scheme.upper()}_PROXY", f"http://ada:geheim@{parts.netloc}")
        fault = meet(call, f"{scheme}://{ELSEWHERE}:8443")
    assert type(fault.error) is (ry.UnexpectedResponse if scheme == "http" else ry.ServerUnreachable)
    assert words[scheme] in fault.line
    assert f"the proxy {address}" in fault.line
    assert fault.line.endswith("see HTTPS_PROXY, HTTP_PROXY and NO_PROXY")
    assert "geheim" not in fault.line


def test_proxy_is_named_when_nobody_listens_there(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    fault = meet(call, f"https://{ELSEWHERE}")
    assert type(fault.error) is ry.ServerUnreachable
    assert "the proxy http://127.0.0.1:9 cannot be reached: connection refused" in fault.line


def test_proxy_is_named_when_it_never_answers(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    with SmallProxy("silent", {}).serve() as address:
        monkeypatch.setenv("HTTP_PROXY", address)
        url, words = f"http://{ELSEWHERE}", "did not answer in time through the proxy"
        with ry.Client(url, retry_seconds=0, timeout=0.3) as client, pytest.raises(ry.ServerUnreachable, match=words):
            client.whoami()


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_server_is_reached_when_the_proxy_knows_the_way(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_encrypted: bool
) -> None:
    (tmp_path / "tls").mkdir()
    options = write_certificate(tmp_path / "tls", host=ELSEWHERE) if is_encrypted else ()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "tls/cert.pem")) if is_encrypted else None
    scheme = "https" if is_encrypted else "http"
    with run_with_ada(tmp_path / "core", *options) as core:
        proxy = SmallProxy("pass", {f"{ELSEWHERE}:8443": urlsplit(core.url).netloc})
        with proxy.serve() as address:
            monkeypatch.setenv(f"{scheme.upper()}_PROXY", address)
            monkeypatch.setenv("RUNYARD_ENDPOINT", f"{scheme}://{ELSEWHERE}:8443")
            monkeypatch.setenv("RUNYARD_USER", "ada")
            monkeypatch.setenv("RUNYARD_PASSWORD", PASSWORD)
            done = call("whoami")
    assert done.code == 0, done.err
    assert proxy.asked[0].startswith("CONNECT" if is_encrypted else "GET http://")


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_variable_is_named_when_its_file_cannot_be_used(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    file = tmp_path / "authority.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with pytest.raises(ry.ConfigurationError, match="SSL_CERT_FILE"):
        ry.Client("https://127.0.0.1:9")
    done = call("whoami", "--endpoint", "https://127.0.0.1:9")
    assert done.code == 1
    assert done.err.startswith(f"error: SSL_CERT_FILE={file}: cannot be read: ")
    assert len(done.err.splitlines()) == 1


def test_host_is_named_when_it_is_unknown(call: Call) -> None:
    fault = meet(call, "https://nowhere.invalid")
    assert type(fault.error) is ry.ServerUnreachable
    assert fault.line == "error: https://nowhere.invalid: the host nowhere.invalid is unknown"


def test_server_is_missed_when_nobody_listens(call: Call) -> None:
    fault = meet(call, "http://127.0.0.1:9")
    assert type(fault.error) is ry.ServerUnreachable
    assert fault.line == "error: http://127.0.0.1:9: connection refused; is the server running?"


def test_time_is_over_when_the_server_never_answers(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with ry.Client(url, retry_seconds=0, timeout=0.3) as client, pytest.raises(ry.ServerUnreachable) as caught:
            client.whoami()
    assert str(caught.value) == f"{url}: the server did not answer in time"


def test_slow_server_is_awaited_when_it_answers_in_time(call: Call, tmp_path: Path) -> None:
    with run_core(folder=tmp_path / "core") as core, _delay(core.url) as url:
        done = call("whoami", "--endpoint", url)
        assert (done.code, done.out.startswith("anonymous at")) == (0, True), done.err


@contextmanager
def _delay(url: str) -> Iterator[str]:
    """An address in front of a server: all bytes arrive one by one."""
    target = urlsplit(url)

    def pass_on(client: socket.socket) -> None:
        with client, socket.create_connection((str(target.hostname), target.port or 0)) as server:
            relay(client, server, chunk_bytes=1)

    def serve() -> None:
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=pass_on, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_page_is_shown_when_the_address_is_of_something_else(call: Call) -> None:
    with SmallProxy("page", {}).serve() as url:
        fault = meet(call, url)
    assert type(fault.error) is ry.UnexpectedResponse
    assert fault.line == (
        "error: /api/auth: the response is not JSON: <html><body>Please sign in to the guest network.</body></html>"
        f"; check the address {url}"
    )


def test_sign_in_is_wanted_when_the_token_has_expired(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_with_ada(tmp_path / "core") as core:
        with ry.Client(core.url, user="ada", password=PASSWORD) as client:
            token = client.create_token("short", days=1)
        assert call("login", core.url, "--token", "--stdin", "--name", "lab", stdin=f"{token['value']}\n").code == 0
        assert call("whoami").code == 0
        expire(tmp_path / "core/data", token["id"])
        done = call("whoami", "--context", "lab")
        (line,) = done.err.splitlines()
        assert done.code == 1
        assert line.startswith(f"error: {core.url}: the credentials are not accepted (context lab in ")
        assert "the personal token has expired" in line
        assert line.endswith("sign in with `runyard login`")
        with ry.Client(context="lab") as client, pytest.raises(ry.NotSignedIn, match="has expired"):
            client.whoami()


def expire(data: Path, token_id: str) -> None:
    """Let the time of a token pass."""
    with sqlite3.connect(data / "runyard.db") as database:
        changed = database.execute("UPDATE tokens SET expires_at = 1 WHERE id = ?", (token_id,)).rowcount
        assert changed == 1
