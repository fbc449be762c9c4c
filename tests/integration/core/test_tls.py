"""A server that speaks TLS itself, with a certificate of this test's own."""

import socket
import ssl
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2
import pytest

from tests.certificates import write_certificate
from tests.core_process import COMMAND as RUNYARD
from tests.core_process import call_runyard, make_environment, run_core

PASSWORD = "ada's own password"


async def test_sdk_routes_and_tokens_work_over_tls_when_the_server_has_a_certificate(tmp_path: Path) -> None:
    tls = write_certificate(tmp_path)
    create = ("user", "create", "--admin", "ada", "--password-stdin", "--data", str(tmp_path / "data"))
    made = call_runyard(*create, given=f"{PASSWORD}\n")
    assert made.code == 0, made.err
    trusted = ssl.create_default_context(cafile=tmp_path / "cert.pem")
    with run_core("--auth", "accounts", *tls, folder=tmp_path) as core:
        assert core.url.startswith("https://127.0.0.1:")
        async with core.client(verify=trusted) as nobody:
            assert (await nobody.get("/api/v1/projects")).status_code == 401
            told = (await nobody.get("/.well-known/configuration")).json()
            assert told["dhcore_endpoint"] == core.url
        async with core.client(("ada", PASSWORD), verify=trusted) as ada:
            for number in range(3):
                project = {"kind": "project", "name": f"p{number}"}
                assert (await ada.post("/api/v1/projects", json=project)).status_code == 200
            assert (await ada.get("/api/v1/projects")).json()["totalElements"] == 3
        async with core.client(verify=ssl.create_default_context()) as doubtful:
            with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"):
                await doubtful.get("/healthz")
        async with core.client() as plain:
            plain.base_url = core.url.replace("https", "http")
            with pytest.raises(Exception, match="disconnect"):
                await plain.get("/healthz")
        core.process.terminate()
        assert await core.wait() == 0


async def test_others_are_answered_when_stalled_handshakes_outnumber_the_file_descriptors(tmp_path: Path) -> None:
    limited = ("prlimit", "--nofile=256:256", *RUNYARD)
    with run_core(*write_certificate(tmp_path), folder=tmp_path, program=limited) as core, ExitStack() as stack:
        trusted = ssl.create_default_context(cafile=tmp_path / "cert.pem")
        address = httpx2.URL(core.url)
        for number in range(300):
            stalled = stack.enter_context(socket.create_connection((address.host, address.port or 0), timeout=30))
            with suppress(ConnectionError):
                stalled.sendall(b"\x16\x03\x01" if number % 2 else b"")
        async with core.client(verify=trusted, timeout=8) as client:
            for path in ("/healthz", "/readyz"):
                assert (await client.get(path)).status_code == 200
        assert "Too many open files" not in core.read_errors()
        assert "connections.full" in core.read_errors()
        core.process.terminate()
        assert await core.wait() == 0
        assert "Traceback" not in core.read_errors()


async def test_large_bodies_and_answers_pass_when_they_are_encrypted(tmp_path: Path) -> None:
    with run_core(*write_certificate(tmp_path), folder=tmp_path) as core:
        trusted = ssl.create_default_context(cafile=tmp_path / "cert.pem")
        async with core.client(verify=trusted) as client:
            await client.post("/api/v1/projects", json={"kind": "project", "name": "demo"})
            spec = {"text": "x" * 1_000_000}
            made = await client.post(
                "/api/v1/-/demo/functions", json={"kind": "dbt", "name": "f", "id": "f1", "spec": spec}
            )
            assert made.status_code == 200, made.text
            assert (await client.get("/api/v1/-/demo/functions/f1")).json()["spec"] == spec


@pytest.mark.parametrize("wrong", ["cert.pem", "key.pem", "other"])
def test_one_line_says_so_when_the_certificate_cannot_be_used(tmp_path: Path, wrong: str) -> None:
    tls = write_certificate(tmp_path)
    if wrong == "other":
        (tmp_path / "other").mkdir()
        write_certificate(tmp_path / "other")
        (tmp_path / "other" / "key.pem").rename(tmp_path / "key.pem")
    else:
        (tmp_path / wrong).write_text("nothing of that kind\n")
    done = subprocess.run(
        [*RUNYARD, "server", "--port", "0", "--data", str(tmp_path / "data"), *tls],
        capture_output=True,
        text=True,
        timeout=60,
        env=make_environment(),
    )
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "--tls-certificate" in line
    assert "--tls-key" in line
