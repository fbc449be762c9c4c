"""How the engine finds a container runtime, with programs that stand for podman and docker."""

import os
import stat
from pathlib import Path

import pytest

from runyard.engines.local.containers import RuntimeMissing, find_runtime
from runyard.engines.local.containers.memory_folder import ensure_memory_folder, is_in_memory
from runyard.engines.local.containers.private_store import StoreUnusable, ensure_private_store

_DOCKER_WITHOUT_DAEMON = """
echo '{"Client": {"Version": "28.2.2"}, "Server": null}'
echo 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?' >&2
exit 1
"""
_DOCKER = """echo '{"Client": {"Version": "28.2.2"}, "Server": {"Version": "27.1.0"}}'"""

has_tmpfs = pytest.mark.skipif(
    not is_in_memory(Path("/dev/shm")),
    reason="this machine has no tmpfs at /dev/shm",
)


def _make_program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for one in memory, so that nothing is left in /dev/shm."""
    folder = tmp_path / "memory"
    folder.mkdir()
    monkeypatch.setattr("runyard.engines.local.containers.runtime.ensure_memory_folder", lambda *_, **__: folder)
    return folder


def _explain(folder: Path, place: Path) -> str:
    with pytest.raises(RuntimeMissing) as missing:
        find_runtime(place, place_uid="0123456789abcdef", environ={"PATH": str(folder)})
    return str(missing.value)


def test_both_are_named_when_none_is_installed(tmp_path: Path) -> None:
    assert _explain(tmp_path, tmp_path) == (
        "this machine has no container runtime that works: podman is not installed; docker is not installed"
    )


def test_silent_daemon_is_named_when_only_the_client_of_docker_is_installed(tmp_path: Path) -> None:
    _make_program(tmp_path, "docker", _DOCKER_WITHOUT_DAEMON)
    assert _explain(tmp_path, tmp_path) == (
        "this machine has no container runtime that works: podman is not installed; docker is installed, but its "
        "daemon does not answer: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. "
        "Is the docker daemon running?"
    )


def test_podmans_own_words_are_given_when_it_fails(tmp_path: Path) -> None:
    _make_program(tmp_path, "podman", "echo 'Error: kernel is too \x1b[31mold' >&2; exit 125")
    assert "podman is installed, but `podman info` fails: kernel is too  [31mold" in _explain(tmp_path, tmp_path)


def test_podman_is_refused_when_it_is_too_old(tmp_path: Path) -> None:
    _make_program(tmp_path, "podman", """echo '{"version": {"Version": "3.4.4"}, "host": {}}'""")
    assert "podman is installed, but is 3.4.4; at least 4.0 is needed" in _explain(tmp_path, tmp_path)


def test_missing_user_range_is_named_when_podman_has_no_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    mappings = '"idMappings": {"uidmap": [{"container_id": 0, "host_id": 1000, "size": 1}]}'
    _make_program(tmp_path, "podman", f"""echo '{{"version": {{"Version": "4.3.1"}}, "host": {{{mappings}}}}}'""")
    assert "this user has no range of user numbers: add one to /etc/subuid" in _explain(tmp_path, tmp_path)


def test_docker_is_used_and_its_exposure_known_when_podman_does_not_work(tmp_path: Path) -> None:
    _make_program(tmp_path, "podman", "exit 1")
    _make_program(tmp_path, "docker", _DOCKER)
    environ = {
        "PATH": str(tmp_path),
        "HTTPS_PROXY": "http://user:pass@proxy",
        "DOCKER_HOST": "unix:///x",
        "SECRET": "s",
    }
    runtime = find_runtime(tmp_path, place_uid="0123456789abcdef", environ=environ)
    assert str(runtime) == "docker 27.1.0"
    assert runtime.exposure == "docker's daemon writes them to its disk"
    assert runtime.env == {"PATH": str(tmp_path), "DOCKER_HOST": "unix:///x"}
    assert runtime.usual_env == {**runtime.env, "HTTPS_PROXY": "http://user:pass@proxy"}


@has_tmpfs
def test_memory_folder_is_private_and_in_memory_when_made() -> None:
    folder = ensure_memory_folder(f"test{os.getpid():012d}", environ={})
    assert folder is not None
    try:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert is_in_memory(folder)
        assert ensure_memory_folder(f"test{os.getpid():012d}", environ={}) == folder
    finally:
        folder.rmdir()


@has_tmpfs
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of another user")
def test_memory_folder_is_not_used_when_somebody_else_made_it() -> None:
    uid = f"else{os.getpid():012d}"
    folder = ensure_memory_folder(uid, environ={})
    assert folder is not None
    try:
        os.chown(folder, 12345, 12345)
        assert ensure_memory_folder(uid, environ={}) != folder
    finally:
        folder.rmdir()


def test_store_is_refused_when_podman_writes_variables_to_disk(tmp_path: Path, memory: Path) -> None:
    disk = tmp_path / "disk"
    _make_program(tmp_path / "bin", "podman", f'mkdir -p {disk}; echo "$RUNYARD_CANARY" > {disk}/db.sql')
    with pytest.raises(StoreUnusable, match=r"this podman writes variables of containers to disk: db\.sql"):
        ensure_private_store(
            str(tmp_path / "bin/podman"), folder=disk, memory=memory, info={}, version=(5, 0), options=[], env={}
        )


def test_store_is_refused_with_podmans_words_when_it_cannot_use_it(tmp_path: Path, memory: Path) -> None:
    _make_program(tmp_path / "bin", "podman", "echo 'Error: overlay is not supported' >&2; exit 125")
    with pytest.raises(StoreUnusable, match=r"podman cannot use a store of its own in .*: overlay is not supported"):
        ensure_private_store(
            str(tmp_path / "bin/podman"),
            folder=tmp_path / "disk",
            memory=memory,
            info={},
            version=(4, 3),
            options=[],
            env={},
        )


def test_configuration_of_the_machine_is_kept_when_locks_become_files(tmp_path: Path, memory: Path) -> None:
    (tmp_path / "containers.conf").write_text(
        '[engine]\nruntime = "crun"\n[engine.runtimes]\nkata = ["/usr/bin/kata", "-x"]\n'
        '[containers]\nenv = ["A=\\"b\\""]\n'
    )
    _make_program(tmp_path / "bin", "podman", "exit 0")
    store = ensure_private_store(
        str(tmp_path / "bin/podman"),
        folder=tmp_path / "disk",
        memory=memory,
        info={"store": {"graphDriverName": "overlay", "graphRoot": "/var/lib/x"}},
        version=(4, 4),
        options=["--runtime", "runc"],
        env={"CONTAINERS_CONF": str(tmp_path / "containers.conf")},
    )
    assert Path(store.env["CONTAINERS_CONF"]).read_text() == (
        '["engine"]\n"runtime" = "crun"\n"lock_type" = "file"\n"events_logger" = "none"\n'
        '["engine"."runtimes"]\n"kata" = ["/usr/bin/kata", "-x"]\n["containers"]\n"env" = ["A=\\"b\\""]\n'
    )
    assert "additionalimagestore=/var/lib/x" in store.options
    assert "--transient-store" in store.options
    assert store.options[-2:] == ("--runtime", "runc")
    assert store.reads_usual_store


def test_missing_tmpfs_is_named_when_the_machine_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.engines.local.containers.runtime.ensure_memory_folder", lambda *_, **__: None)
    _make_program(tmp_path, "podman", "exit 0")
    assert "podman is installed, but there is no tmpfs for the secrets of its containers" in _explain(
        tmp_path, tmp_path
    )
