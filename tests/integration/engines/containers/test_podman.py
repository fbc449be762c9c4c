"""Containers of a real podman under real supervisors."""

import os
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from runyard.engines.local.containers import ContainerRuntime, remove_strays
from runyard.engines.local.containers.runtime import PLACE_LABEL
from runyard.procs import Limits, Mount, Readiness, end_leftovers, request_stop
from tests.integration.engines.containers.lab import USER, call, list_names, make_plan
from tests.unit.procs.lab import IS_ROOT, Lab, read_log, wait_for

SECRET = "c0rrect-h0rse-battery"
PEM = f"-----BEGIN-----\n{SECRET}#$'\"\n-----END-----"


def _search(runtime: ContainerRuntime, text: str, *folders: Path) -> list[Path]:
    """Files that hold the text. Those of a podman without root belong to users of its user namespace."""
    enter = [*runtime.argv, "unshare"] if runtime.is_rootless else []
    argv = [*enter, "grep", "-rlsF", "-e", text, *(str(folder) for folder in folders if folder.exists())]
    done = subprocess.run(argv, env=dict(runtime.env), capture_output=True, text=True, check=False)
    return [Path(line) for line in done.stdout.splitlines()]


def test_secrets_are_on_no_disk_when_a_container_runs_and_after(lab: Lab, runtime: ContainerRuntime) -> None:
    assert runtime.exposure is None
    plan = make_plan(
        runtime,
        'test "$KEY" = "$(cat /secrets/key)" && test "${#PEM}" -gt 40 && echo the same; sleep 60',
        env={"KEY": SECRET, "PEM": PEM},
        secret_variables=frozenset({"KEY", "PEM"}),
        mounts=(Mount(target="/secrets/key", kind="files", sub_path="key", contents={"key": SECRET}, mode=0o440),),
    )
    store = Path(runtime.options[runtime.options.index("--root") + 1])
    places = [lab.folder, store, Path("/var/lib/containers"), Path("/run/runc"), Path("/run/crun"), Path("/run/libpod")]
    places += [Path.home() / ".local/share/containers", Path("/var/tmp")]
    folder = lab.start(plan)
    wait_for(lambda: read_log(folder) == "the same\n" if (folder / "log/main.0").exists() else False, seconds=20)
    in_memory = _search(runtime, SECRET, runtime.memory)
    assert [path.name for path in in_memory if path.name == "config.json"], "the search does not find what is there"
    assert _search(runtime, SECRET, *places) == []
    request_stop(folder, grace_seconds=0)
    lab.wait(folder)
    assert _search(runtime, SECRET, *places) == []
    assert [path.name for path in _search(runtime, SECRET, runtime.memory) if path.name != "bolt_state.db"] == []


def test_variables_arrive_as_they_are_when_they_are_not_plain(lab: Lab, runtime: ContainerRuntime) -> None:
    env = {
        "PLAIN": "a b=c",
        "EMPTY": "",
        "LINES": "a\nb\n",
        "QUOTES": "\"'`$HOME#\\n",
        "PATH": "/bin:/x",
        "LD_DEBUG": "all'",
    }
    plan = make_plan(
        runtime, 'for name in $NAMES; do eval "printf %s.. \\"\\$$name\\""; done', env=env | {"NAMES": " ".join(env)}
    )
    folder, state = lab.run(plan)
    assert state.instances[-1].exit_code == 0
    assert read_log(folder) == "..".join(env.values()) + ".."


def test_end_is_known_and_nothing_is_left_when_a_job_fails(lab: Lab, runtime: ContainerRuntime, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir(mode=0o700)
    termination = tmp_path / "notes" / "termination"
    script = (
        "echo out; echo err >&2; id -u; grep -c '^Cap.*0000000000000000$' /proc/self/status; "
        "echo why > /dev/termination-log; exit 3"
    )
    folder, state = lab.run(make_plan(runtime, script, name="c-job", termination_path=str(termination)))
    uid = os.geteuid() if USER is None else USER.uid
    assert sorted(read_log(folder).split()) == sorted(["out", "err", str(uid), "5"])
    assert (state.instances[-1].exit_code, state.instances[-1].signal, state.termination) == (3, None, "why")
    assert "c-job" not in list_names(runtime)
    assert not (runtime.memory / "containers/c-job").exists()
    assert not list(Path("/sys/fs/cgroup").glob("*/runyard-containers/c-job"))


def test_peak_and_cause_are_known_when_a_container_is_out_of_memory(lab: Lab, runtime: ContainerRuntime) -> None:
    limit = 32 << 20
    # tail keeps what it reads. It ends by itself, should the limit not hold.
    script = "head -c 400m /dev/zero | tail -c 390m > /tmp/zeros"
    _, state = lab.run(make_plan(runtime, script, limits=Limits(memory_bytes=limit)))
    last = state.instances[-1]
    assert last.is_out_of_memory
    assert last.peak_bytes is not None
    if runtime.has_cgroup:
        assert limit * 0.9 < last.peak_bytes < limit * 1.1
    else:
        assert last.peak_bytes > limit


def test_service_is_reached_and_stopped_with_grace_when_it_has_a_port(lab: Lab, runtime: ContainerRuntime) -> None:
    if not runtime.has_port_mapping:
        pytest.skip("podman cannot publish ports on this machine: /dev/net/tun cannot be opened")
    script = "cd /tmp; echo hello > index.html; trap 'echo bye; exit 4' TERM; httpd -f -p 8080 & wait"
    plan = make_plan(runtime, script, ports=(8080,), is_restarted=True, readiness=Readiness(port=8080, path="/"))
    folder = lab.start(plan)
    state = lab.wait(folder, lambda state: state.is_ready)
    with urllib.request.urlopen(f"http://127.0.0.1:{state.ports[8080]}/", timeout=5) as answer:
        assert answer.read() == b"hello\n"
    request_stop(folder)
    state = lab.wait(folder)
    assert state.instances[-1].exit_code == 4
    assert read_log(folder).endswith("bye\n")


def test_container_is_new_when_a_service_is_restarted(lab: Lab, runtime: ContainerRuntime) -> None:
    script = "ls /tmp | wc -l; touch /tmp/mine; test -s /secrets/key && exit 1"
    mounts = (Mount(target="/secrets", kind="files", contents={"key": SECRET}),)
    folder = lab.start(make_plan(runtime, script, is_restarted=True, mounts=mounts))
    state = lab.wait(folder, lambda state: len([each for each in state.instances if each.ended_at]) >= 3, seconds=30)
    assert [each.exit_code for each in state.instances if each.command == "main"][:2] == [1, 1]
    assert read_log(folder, instance=1) == "0\n"


def test_step_fails_with_the_cause_when_the_image_is_missing(lab: Lab, runtime: ContainerRuntime) -> None:
    folder, state = lab.run(make_plan(runtime, image="no-such-image:1", pull_policy="Never"))
    assert state.failure is not None
    assert state.failure.code == "step.failed"
    assert [each.command for each in state.instances] == ["image"]
    expected = "the image no-such-image:1 is not on this machine, and its pull policy is Never\n"
    assert read_log(folder, "image") == expected


def test_runtimes_words_are_in_the_log_when_a_command_does_not_exist(lab: Lab, runtime: ContainerRuntime) -> None:
    folder, state = lab.run(make_plan(runtime, command=("no-such-command",)))
    assert state.instances[-1].exit_code in (126, 127)
    assert "executable file not found in $PATH" in read_log(folder)


def test_container_is_gone_when_its_supervisor_was_killed(lab: Lab, runtime: ContainerRuntime) -> None:
    folder = lab.start(make_plan(runtime, "echo started; sleep 61", name="c-orphan"))
    wait_for(lambda: (folder / "log/main.0").exists() and read_log(folder) == "started\n", seconds=20)
    os.kill(lab.pid(folder), signal.SIGKILL)
    lab.reap(folder)
    assert end_leftovers(folder)
    assert "c-orphan" not in list_names(runtime)
    assert not (runtime.memory / "containers/c-orphan").exists()


def test_only_strays_of_the_place_are_removed_when_swept(runtime: ContainerRuntime) -> None:
    for name, place in (("c-stray", runtime.place_uid), ("c-kept", runtime.place_uid), ("c-other", "another-place")):
        call(
            runtime, "create", "--name", name, "--label", f"{PLACE_LABEL}={place}", "--network", "host", "busybox:1.36"
        )
    try:
        assert remove_strays(runtime, is_kept=lambda name: name == "c-kept") == ["c-stray"]
        assert sorted(list_names(runtime)) == ["c-kept", "c-other"]
    finally:
        call(runtime, "rm", "--force", "c-kept", "c-other")


@pytest.mark.skipif(not IS_ROOT, reason="only root can mount a folder of a volume")
@pytest.mark.parametrize("is_link", [False, True])
def test_folder_of_a_volume_is_mounted_only_when_no_link_leads_out(
    lab: Lab, runtime: ContainerRuntime, tmp_path: Path, is_link: bool
) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    assert USER is not None
    os.chown(volume, USER.uid, USER.gid)
    if is_link:
        (volume / "a").symlink_to("/")
    mounts = (Mount(target="/data", kind="bind", source=str(volume), sub_path="a/b"),)
    folder, state = lab.run(make_plan(runtime, "echo mine > /data/file", mounts=mounts, name="c-sub-path"))
    assert not (runtime.memory / "containers/c-sub-path").exists()
    if is_link:
        assert state.instances[-1].exit_code != 0
        assert not Path("/b").exists()
        assert "Too many levels of symbolic links" in read_log(folder)
    else:
        assert (volume / "a/b/file").read_text() == "mine\n"
        assert (volume / "a/b").stat().st_uid == USER.uid


def test_stop_reaches_a_container_when_it_is_only_being_created(lab: Lab, runtime: ContainerRuntime) -> None:
    folder = lab.start(make_plan(runtime, "trap 'exit 5' TERM; while :; do sleep 0.1; done", name="c-early"))
    lab.wait(folder, lambda state: any(each.command == "main" for each in state.instances))
    request_stop(folder)
    began = time.monotonic()
    lab.wait(folder, seconds=45)
    assert time.monotonic() - began < 40
    assert "c-early" not in list_names(runtime)
