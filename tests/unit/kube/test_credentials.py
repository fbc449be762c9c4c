"""Identities that change while we use them: token files and exec plug-ins."""

import asyncio
import gc
import json
import os
import signal
import textwrap
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runyard.kube.credentials import Credential, StaticCredentials, TokenFileCredentials, bearer
from runyard.kube.errors import ConfigError
from runyard.kube.exec_plugin import ExecCredentials, ExecPlugin


class Clock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


async def test_token_is_kept_when_it_is_static() -> None:
    credentials = StaticCredentials(bearer("t"))
    refused = await credentials.get()
    assert await credentials.renew(refused) == refused == Credential("Bearer t")


@pytest.mark.parametrize("token", ["", "  \n", "a\nb", "a\x00b", "tökén"])
def test_token_is_refused_when_no_header_can_carry_it(token: str) -> None:
    with pytest.raises(ConfigError, match="no header can carry"):
        bearer(token)


async def test_token_is_read_again_when_the_file_changed(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    credentials = TokenFileCredentials(path, clock=Clock())
    assert (await credentials.get()).authorization == "Bearer one"
    path.write_text("second\n")
    assert (await credentials.get()).authorization == "Bearer second"


async def test_token_is_read_again_when_a_symbolic_link_was_swapped(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (5, 5))
    link = tmp_path / "token"
    link.symlink_to(tmp_path / "one")
    credentials = TokenFileCredentials(link, clock=Clock())
    assert (await credentials.get()).authorization == "Bearer one"
    link.unlink()
    link.symlink_to(tmp_path / "two")
    assert (await credentials.get()).authorization == "Bearer two"


async def test_token_is_read_again_when_a_minute_passed_or_it_was_refused(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", Clock()
    path.write_text("one")
    credentials = TokenFileCredentials(path, clock=clock)
    first = await credentials.get()

    def rewrite_unnoticed(text: str) -> None:
        before = path.stat()
        path.write_text(text)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    rewrite_unnoticed("two")
    assert await credentials.get() == first
    assert (await credentials.renew(first)).authorization == "Bearer two"
    rewrite_unnoticed("three"[:3])
    clock.now += 61
    assert (await credentials.get()).authorization == "Bearer thr"


async def test_last_token_is_kept_when_the_file_is_gone_for_a_moment(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    credentials = TokenFileCredentials(path, clock=Clock())
    first = await credentials.get()
    path.unlink()
    assert await credentials.get() == first
    path.write_text("")
    assert await credentials.get() == first
    # Of another size: inode and time of change may be those of the first file again.
    path.write_text("second")
    assert (await credentials.get()).authorization == "Bearer second"


async def test_path_is_named_when_there_is_no_token_at_all(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"token file {tmp_path}/token: .*No such file"):
        await TokenFileCredentials(tmp_path / "token").get()


Script = Callable[..., ExecPlugin]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """A plug-in from shell lines; each run leaves a line in `tmp_path/runs`."""

    def write(lines: str, **fields: Any) -> ExecPlugin:
        path = tmp_path / "plugin"
        path.write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\n{textwrap.dedent(lines)}\n")
        path.chmod(0o755)
        return ExecPlugin(command=str(path), where="exec plug-in of user 'u' in /config", **fields)

    return write


def runs(folder: Path) -> int:
    path = folder / "runs"
    return path.read_text().count("run") if path.exists() else 0


def printed(version: str = "v1", **status: Any) -> str:
    credential = {
        "apiVersion": f"client.authentication.k8s.io/{version}",
        "kind": "ExecCredential",
        "status": status,
    }
    return f"cat <<'END'\n{json.dumps(credential)}\nEND"


def at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


async def test_token_is_kept_when_the_plugin_says_no_expiry(script: Script, tmp_path: Path) -> None:
    credentials = ExecCredentials(script(printed(token="abc")))
    assert await credentials.get() == await credentials.get() == Credential("Bearer abc")
    assert runs(tmp_path) == 1


async def test_plugin_runs_again_when_its_token_is_about_to_expire(script: Script, tmp_path: Path) -> None:
    clock = Clock()
    credentials = ExecCredentials(script(printed(token="abc", expirationTimestamp=at(clock.now + 600))), clock=clock)
    await credentials.get()
    clock.now += 500
    await credentials.get()
    assert runs(tmp_path) == 1
    clock.now += 50
    await credentials.get()
    assert runs(tmp_path) == 2


async def test_plugin_is_not_run_each_time_when_tokens_live_for_seconds(script: Script, tmp_path: Path) -> None:
    clock = Clock()
    credentials = ExecCredentials(script(printed(token="abc", expirationTimestamp=at(clock.now + 10))), clock=clock)
    for _ in range(3):
        await credentials.get()
    assert runs(tmp_path) == 1


async def test_valid_token_is_kept_when_the_plugin_fails(script: Script, tmp_path: Path) -> None:
    clock = Clock()
    fails_later = f"[ $(wc -l < {tmp_path}/runs) = 1 ] || exit 1\n"
    credentials = ExecCredentials(
        script(fails_later + printed(token="abc", expirationTimestamp=at(clock.now + 600))), clock=clock
    )
    first = await credentials.get()
    clock.now += 580
    assert await credentials.get() == first
    clock.now += 30
    with pytest.raises(ConfigError, match="ended with 1"):
        await credentials.get()


async def test_plugin_runs_once_when_a_token_was_refused(script: Script, tmp_path: Path) -> None:
    credentials = ExecCredentials(
        script(printed(token="$(wc -l)").replace("'END'", "END").replace("$(wc -l)", f"n$(wc -l < {tmp_path}/runs)"))
    )
    refused = await credentials.get()
    renewed = await asyncio.gather(*(credentials.renew(refused) for _ in range(5)))
    assert set(renewed) == {Credential("Bearer n2")}
    # A latecomer whose request left with the old token gets what the others got.
    assert await credentials.renew(refused) == Credential("Bearer n2")
    assert runs(tmp_path) == 2


async def test_callers_share_one_run_when_they_come_together(script: Script, tmp_path: Path) -> None:
    credentials = ExecCredentials(script("sleep 0.2\n" + printed(token="abc")))
    impatient = asyncio.create_task(credentials.get())
    others = [asyncio.create_task(credentials.get()) for _ in range(5)]
    await asyncio.sleep(0)
    impatient.cancel()
    assert {await other for other in others} == {Credential("Bearer abc")}
    with pytest.raises(asyncio.CancelledError):
        await impatient
    assert runs(tmp_path) == 1


async def test_failure_is_quiet_when_every_caller_has_left(script: Script, tmp_path: Path) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    credentials = ExecCredentials(script(f"sleep 0.1; touch {tmp_path}/ended; exit 1"))
    caller = asyncio.create_task(credentials.get())
    await asyncio.sleep(0)
    caller.cancel()
    await wait_until((tmp_path / "ended").exists)
    await credentials.close()
    del credentials, caller
    gc.collect()
    assert complaints == []


async def test_failure_is_told_to_each_caller_when_they_share_a_run(script: Script) -> None:
    credentials = ExecCredentials(script("echo no ticket >&2; exit 3"))
    results = await asyncio.gather(*(credentials.get() for _ in range(3)), return_exceptions=True)
    assert len(set(map(id, results))) == 3
    assert all(isinstance(result, ConfigError) and "ended with 3: no ticket" in str(result) for result in results)


async def test_certificate_is_used_when_the_plugin_gives_one(script: Script) -> None:
    credential = await ExecCredentials(script(printed(clientCertificateData="CERT", clientKeyData="KEY"))).get()
    assert credential.authorization is None
    assert credential.certificate is not None
    assert credential.certificate.certificate == b"CERT"
    assert credential.certificate.key == b"KEY"
    assert "KEY" not in repr(credential)


async def test_plugin_learns_of_the_cluster_when_it_asked_to(script: Script, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    lines = f'printf "%s|%s|%s" "$KUBERNETES_EXEC_INFO" "$EXTRA" "$1" > {seen}\n'
    plugin = script(
        lines + printed("v1beta1", token="abc"),
        arguments=("first",),
        environment={"EXTRA": "value"},
        api_version="client.authentication.k8s.io/v1beta1",
        cluster={"server": "https://example", "config": {"audience": "x"}},
    )
    await ExecCredentials(plugin).get()
    info, extra, argument = seen.read_text().split("|")
    assert json.loads(info) == {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://example", "config": {"audience": "x"}}},
    }
    assert (extra, argument) == ("value", "first")


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ("exit 7", "ended with 7"),
        ("echo hello", "printed no ExecCredential"),
        ("printf '\"\\377sesame\"'", "printed no ExecCredential"),
        (printed("v1beta1", token="sesame"), "printed ExecCredential client.authentication.k8s.io/v1beta1, expected"),
        (printed(), "neither a token nor a client certificate"),
        (printed(clientKeyData="sesame"), "only one of clientCertificateData, clientKeyData"),
        (printed(token="sesame\nX-Evil: 1"), "no header can carry"),
        (printed(token="sesame", expirationTimestamp="tomorrow"), "printed no ExecCredential"),
        (printed(token="sesame", expirationTimestamp="2030-01-01T00:00:00"), "printed no ExecCredential"),
    ],
)
async def test_plugin_is_refused_when_it_gives_no_credential(script: Script, lines: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        await ExecCredentials(script(lines)).get()
    assert "user 'u' in /config" in str(caught.value)
    assert "sesame" not in str(caught.value)
    assert caught.value.__cause__ is None or "sesame" not in repr(caught.value.__cause__)


async def test_hint_is_given_when_the_plugin_is_not_installed() -> None:
    plugin = ExecPlugin(command="/nowhere/login", install_hint="apt install login")
    with pytest.raises(ConfigError, match=r"cannot run `/nowhere/login`: No such file.*\napt install login"):
        await ExecCredentials(plugin).get()


async def test_plugin_and_its_children_end_when_the_deadline_passes(script: Script, tmp_path: Path) -> None:
    lines = f"sleep 1000 & echo $! > {tmp_path}/child; wait"
    with pytest.raises(ConfigError, match="gave no answer within 3 s"):
        await ExecCredentials(script(lines), deadline_seconds=3).get()
    child = int((tmp_path / "child").read_text())
    await wait_until(lambda: has_ended(child))


async def test_token_is_taken_when_the_plugin_leaves_a_daemon_behind(script: Script, tmp_path: Path) -> None:
    daemon = f"setsid sleep 1000 & echo $! > {tmp_path}/daemon\n"
    try:
        assert await ExecCredentials(script(daemon + printed(token="abc"))).get() == Credential("Bearer abc")
    finally:
        os.kill(int((tmp_path / "daemon").read_text()), signal.SIGKILL)


async def test_nothing_stays_when_the_credentials_are_closed_at_once(script: Script, tmp_path: Path) -> None:
    credentials = ExecCredentials(script(f"sleep 1000 & echo $! > {tmp_path}/child; wait"))
    caller = asyncio.create_task(credentials.get())
    for _ in range(3):
        await asyncio.sleep(0)
    await credentials.close()
    with pytest.raises(ConfigError, match="closed while"):
        await caller
    if (tmp_path / "child").exists() and (tmp_path / "child").read_text():
        child = int((tmp_path / "child").read_text())
        await wait_until(lambda: has_ended(child))


async def test_plugin_ends_when_the_credentials_are_closed(script: Script, tmp_path: Path) -> None:
    credentials = ExecCredentials(script(f"echo $$ > {tmp_path}/pid; sleep 1000"))
    caller = asyncio.create_task(credentials.get())
    await wait_until(lambda: runs(tmp_path) == 1)
    await wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").stat().st_size > 0)
    await credentials.close()
    with pytest.raises(ConfigError, match="closed while"):
        await caller
    plugin = int((tmp_path / "pid").read_text())
    await wait_until(lambda: has_ended(plugin))
    await credentials.close()


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or only waits for its parent to collect it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - a process cannot set an event
            await asyncio.sleep(0.01)
