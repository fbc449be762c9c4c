"""Commands see their mounts, and only they do."""

import os
import sys
from pathlib import Path

import pytest

from runyard.procs import Command, Identity, Mount, Plan, State
from runyard.procs.supervisor.mounts import MOST_ENTRIES
from tests.unit.procs.lab import IS_ROOT, STRANGER, Lab, can_mount, read_log, shell

pytestmark = pytest.mark.skipif(not can_mount(), reason="neither root nor user namespaces can mount here")
needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root can change users")
IDENTITY = STRANGER if IS_ROOT else None
OWNER = STRANGER.uid if IS_ROOT else os.geteuid()


def make_volume(lab: Lab, name: str = "volume") -> Path:
    """A folder of the command's user, in one that it may not search."""
    secret = lab.folder / "private"
    secret.mkdir(mode=0o700, exist_ok=True)
    volume = secret / name
    volume.mkdir()
    if IS_ROOT:
        os.chown(volume, STRANGER.uid, STRANGER.gid)
    return volume


def run(
    lab: Lab, script: str, *mounts: Mount, identity: Identity | None = IDENTITY, **fields: object
) -> tuple[str, State]:
    plan = Plan(main=shell(script, identity=identity), mounts=mounts, **fields)  # type: ignore[arg-type]
    folder, state = lab.run(plan)
    return (read_log(folder) if state.failure is None else ""), state


def test_volume_is_writable_when_bound_at_a_path_that_does_not_exist(lab: Lab) -> None:
    volume = make_volume(lab)
    target = "/no-such-folder-of-tests/data"
    output, state = run(
        lab,
        f"echo x > {target}/file && ls /no-such-folder-of-tests",
        Mount(target=target, kind="bind", source=str(volume)),
    )
    assert (output, state.instances[0].exit_code) == ("data\n", 0)
    assert (volume / "file").read_text() == "x\n"
    assert (volume / "file").stat().st_uid == OWNER
    assert not Path("/no-such-folder-of-tests").exists()
    assert state.enforced["mounts"] == ("mount namespace" if IS_ROOT else "user namespace")


def test_machine_looks_the_same_when_a_root_was_made_for_a_mount(lab: Lab) -> None:
    output, _ = run(
        lab,
        "ls -a /; ls /usr; cat /proc/self/status >/dev/null && echo proc; id -u",
        Mount(target="/no-such-folder-of-tests", kind="tmpfs"),
    )
    expected = {*os.listdir("/"), *os.listdir("/usr"), "proc", str(OWNER), ".", "..", "no-such-folder-of-tests"}  # noqa: PTH208 - names
    assert set(output.split()) == expected


def test_entries_stay_when_a_mount_point_is_made_beside_them(lab: Lab) -> None:
    beside = lab.folder / "beside"
    beside.mkdir(mode=0o755)
    (beside / "file").write_text("kept")
    (beside / "link").symlink_to("file")
    (beside / "folder").mkdir()
    (beside / "folder" / "inner").write_text("inner")
    script = f"cd {beside} && cat file link folder/inner && ls && echo y > new/deep/x && cat new/deep/x"
    output, state = run(lab, script, Mount(target=f"{beside}/new/deep", kind="tmpfs"), reachable=(str(beside),))
    assert output == "keptkeptinnerfile\nfolder\nlink\nnew\ny\n", state
    assert sorted(each.name for each in beside.iterdir()) == ["file", "folder", "link"]


def test_mount_is_refused_when_its_folder_has_too_many_entries(lab: Lab) -> None:
    crowded = lab.folder / "crowded"
    crowded.mkdir()
    for number in range(MOST_ENTRIES + 1):
        (crowded / str(number)).touch()
    _, state = run(lab, "true", Mount(target=f"{crowded}/new", kind="tmpfs"), reachable=(str(crowded),))
    assert state.failure is not None
    assert state.failure.code == "mount.impossible"
    assert state.failure.message == f"cannot mount {crowded}/new: {crowded} has more than {MOST_ENTRIES} entries"


def test_write_is_refused_when_a_mount_is_read_only(lab: Lab) -> None:
    volume = make_volume(lab)
    (volume / "file").write_text("content")
    mount = Mount(target="/mnt", kind="bind", source=str(volume), is_read_only=True)
    output, state = run(lab, "cat /mnt/file; echo x > /mnt/file || exit 8", mount)
    assert output.startswith("content")
    assert "Read-only file system" in output
    assert state.instances[0].exit_code == 8


def test_one_file_is_mounted_when_the_source_is_a_file(lab: Lab) -> None:
    file = make_volume(lab) / "one"
    file.write_text("content")
    output, _ = run(
        lab, "cat /no-such-folder-of-tests/x", Mount(target="/no-such-folder-of-tests/x", kind="bind", source=str(file))
    )
    assert output == "content"


def test_size_holds_when_a_tmpfs_has_one(lab: Lab) -> None:
    mount = Mount(target="/mnt", kind="tmpfs", size_bytes=1 << 20)
    output, state = run(lab, "touch /mnt/a && head -c 2000000 /dev/zero > /mnt/b || exit 8", mount)
    assert state.instances[0].exit_code == 8, output


def test_secrets_are_files_in_memory_when_mounted(lab: Lab) -> None:
    contents = {"password": "s3cr3t-of-tests", "deep/er": "ü"}
    mount = Mount(target="/no-such-folder-of-tests/s", kind="files", contents=contents, mode=0o400)
    script = "cd /no-such-folder-of-tests/s && cat password deep/er && stat -c ' %a %u' password && echo x > password"
    output, _ = run(lab, script, mount)
    assert output.startswith(f"s3cr3t-of-testsü 400 {OWNER}\n")
    assert "Read-only" in output
    for file in lab.folder.rglob("*"):
        if file.is_file() and file.parent.name != "log":
            assert "s3cr3t-of-tests" not in file.read_text(), file


def test_one_secret_is_a_file_when_a_sub_path_names_it(lab: Lab) -> None:
    contents = {"a": "first", "b": "second"}
    mount = Mount(target="/no-such-folder-of-tests/c.yaml", kind="files", contents=contents, sub_path="b")
    output, _ = run(lab, "cat /no-such-folder-of-tests/c.yaml; ls /no-such-folder-of-tests", mount)
    assert output == "secondc.yaml\n"


def test_mounts_are_nested_when_one_target_is_in_another(lab: Lab) -> None:
    outer, inner = make_volume(lab, "outer"), make_volume(lab, "inner")
    (inner / "file").write_text("inner")
    output, _ = run(
        lab,
        "cat /mnt/a/b/file; ls /mnt",
        Mount(target="/mnt/a/b", kind="bind", source=str(inner)),
        Mount(target="/mnt", kind="bind", source=str(outer)),
    )
    assert output == "innera\n"
    assert (outer / "a" / "b").stat().st_uid == OWNER


def test_sub_path_is_created_for_the_user_when_it_is_missing(lab: Lab) -> None:
    volume = make_volume(lab)
    run(lab, "echo x > /mnt/file", Mount(target="/mnt", kind="bind", source=str(volume), sub_path="a/b"))
    assert (volume / "a" / "b" / "file").read_text() == "x\n"
    assert (volume / "a").stat().st_uid == OWNER


def test_mount_is_refused_when_a_sub_path_is_a_symbolic_link(lab: Lab) -> None:
    volume = make_volume(lab)
    (volume / "link").symlink_to("/etc")
    _, state = run(lab, "true", Mount(target="/mnt", kind="bind", source=str(volume), sub_path="link"))
    assert state.failure is not None
    assert state.failure.code == "mount.impossible"
    assert "holds a symbolic link" in state.failure.message


@pytest.mark.parametrize("sub_path", ["../up", "a/../../up"])
def test_mount_is_refused_when_a_sub_path_leads_out(lab: Lab, sub_path: str) -> None:
    _, state = run(lab, "true", Mount(target="/mnt", kind="bind", source=str(make_volume(lab)), sub_path=sub_path))
    assert state.failure is not None
    assert "is not allowed" in state.failure.message


@pytest.mark.parametrize("target", ["relative", "/", "/a/../etc"])
def test_mount_is_refused_when_its_target_is_no_plain_path(lab: Lab, target: str) -> None:
    _, state = run(lab, "true", Mount(target=target, kind="tmpfs"))
    assert state.failure is not None
    assert state.failure.message == f"cannot mount {target}: not an absolute path below the root"


def test_reason_is_given_when_a_source_does_not_exist(lab: Lab) -> None:
    _, state = run(lab, "true", Mount(target="/mnt", kind="bind", source="/no/such/source"))
    assert state.failure is not None
    assert (state.failure.code, state.failure.message) == (
        "mount.impossible", "cannot mount /mnt: No such file or directory",
    )  # fmt: skip


@needs_root
def test_folder_is_reached_when_the_one_above_is_closed_to_the_user(lab: Lab) -> None:
    closed = lab.folder / "closed"
    for name in ("seen/deep", "unseen"):
        (closed / name).mkdir(parents=True)
    (closed / "seen" / "deep" / "file").write_text("content")
    closed.chmod(0o700)
    plan = Plan(main=shell(f"cat {closed}/seen/deep/file; ls {closed}", identity=STRANGER))
    folder, state = lab.run(plan, name="without")
    assert "Permission denied" in read_log(folder)
    plan = Plan(main=plan.main, reachable=(f"{closed}/seen/deep",))
    folder, state = lab.run(plan, name="with")
    assert read_log(folder) == "contentseen\n", state
    assert state.enforced == {"mounts": "mount namespace"}


@needs_root
def test_interpreter_runs_as_somebody_else_when_its_folders_are_reachable(lab: Lab) -> None:
    main = Command(
        name="main",
        argv=(sys.executable, "-c", "import os, json, ctypes; print(os.getuid())"),
        identity=STRANGER,
    )
    paths = (sys.executable, sys.prefix, sys.base_prefix, os.path.realpath(sys.executable))
    folder, state = lab.run(Plan(main=main, reachable=paths))
    assert read_log(folder) == f"{STRANGER.uid}\n", state


@needs_root
def test_no_namespace_is_made_when_everything_is_reachable(lab: Lab) -> None:
    output, state = run(lab, "readlink /proc/self/ns/mnt", reachable=("/usr/bin", "/etc"))
    assert output.strip() == os.readlink("/proc/self/ns/mnt")  # noqa: PTH115 - not a path
    assert state.enforced == {}


def test_folder_is_empty_but_for_the_reachable_when_it_is_hidden(lab: Lab) -> None:
    place = lab.folder / "place"
    for name in ("mine", "theirs"):
        (place / "runs" / name).mkdir(parents=True)
        (place / "runs" / name / "file").write_text(name)
    output, _ = run(
        lab,
        f"cat {place}/runs/mine/file; ls {place} {place}/runs",
        hidden=(str(place),),
        reachable=(f"{place}/runs/mine",),
    )
    assert output == f"mine{place}:\nruns\n\n{place}/runs:\nmine\n"


def test_set_user_id_programs_have_no_effect_when_privileges_may_not_grow(lab: Lab) -> None:
    output, _ = run(
        lab, "grep NoNewPrivs /proc/self/status; grep CapEff /proc/self/status", Mount(target="/mnt", kind="tmpfs")
    )
    assert output.split() == ["NoNewPrivs:", "1", "CapEff:", "0000000000000000"]


def test_mount_is_not_seen_by_a_command_when_it_has_no_mounts(lab: Lab) -> None:
    step = shell("ls /no-such-folder-of-tests || exit 0", name="step", identity=IDENTITY, has_mounts=False)
    plan = Plan(
        steps=(step,),
        main=shell("ls -d /no-such-folder-of-tests", identity=IDENTITY),
        mounts=(Mount(target="/no-such-folder-of-tests", kind="tmpfs"),),
    )
    folder, _ = lab.run(plan)
    assert "No such file" in read_log(folder, "step")
    assert read_log(folder) == "/no-such-folder-of-tests\n"


@needs_root
def test_file_of_root_is_no_standard_input_when_a_volume_leads_to_dev(lab: Lab) -> None:
    # Of the user: `x` leads to /dev, where a second volume is mounted whose `null` leads to a file of root.
    volume, fake = make_volume(lab), make_volume(lab, "fake")
    secret = lab.folder / "secret"
    secret.write_text("of root")
    secret.chmod(0o600)
    (volume / "x").symlink_to("/dev")
    (fake / "null").symlink_to(secret)
    _, state = run(
        lab,
        "cat",
        Mount(target="/mnt", kind="bind", source=str(volume)),
        Mount(target="/mnt/x", kind="bind", source=str(fake)),
        reachable=(str(lab.folder),),
    )
    assert state.failure is not None
    assert (state.failure.code, state.failure.message) == (
        "mount.impossible",
        "cannot mount /mnt/x: x is a symbolic link in a volume",
    )


@pytest.mark.parametrize("kind", ["tmpfs", "files", "bind"])
def test_mount_is_refused_when_a_volume_holds_a_link_at_its_place(lab: Lab, kind: str) -> None:
    volume = make_volume(lab)
    (volume / "x").symlink_to("/proc")
    fields = {"files": {"contents": {"a": "b"}}, "bind": {"source": str(make_volume(lab, "other"))}, "tmpfs": {}}[kind]
    _, state = run(
        lab,
        "true",
        Mount(target="/mnt", kind="bind", source=str(volume)),
        Mount(target="/mnt/x", kind=kind, **fields),  # type: ignore[arg-type]
    )
    assert state.failure is not None
    assert "x is a symbolic link in a volume" in state.failure.message


@pytest.mark.parametrize("target", ["/proc", "/proc/self", "/dev", "/sys/fs"])
def test_mount_is_refused_when_it_would_cover_what_the_kernel_shows(lab: Lab, target: str) -> None:
    _, state = run(lab, "true", Mount(target=target, kind="tmpfs"))
    assert state.failure is not None
    assert f"nothing can be mounted over /{target.split('/')[1]}" in state.failure.message


@needs_root
def test_nothing_stays_in_memory_when_a_command_leaves_shared_memory(lab: Lab) -> None:
    name = f"runyard-test-{os.getpid()}"
    before = Path("/proc/sysvipc/shm").read_text()
    script = (
        f"echo x > /dev/shm/{name}; ls /dev/shm; ipcmk -M 4096 > /dev/null; grep -c {STRANGER.uid} /proc/sysvipc/shm"
    )
    output, _ = run(lab, script, Mount(target="/mnt", kind="tmpfs"))
    assert output.splitlines() == [name, "1"]
    assert not Path("/dev/shm", name).exists()
    assert str(STRANGER.uid) not in before + Path("/proc/sysvipc/shm").read_text()


def test_shared_memory_is_that_of_the_plan_when_it_mounts_one(lab: Lab) -> None:
    mount = Mount(target="/dev/shm", kind="tmpfs", size_bytes=1 << 20)
    output, _ = run(lab, "df --output=size -k /dev/shm | tail -n 1", mount)
    assert output.strip() == "1024"
