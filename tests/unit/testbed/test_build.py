import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from testbed import build
from testbed.cache import cache_dir
from testbed.errors import TestbedError

StartBuild = Callable[[], subprocess.Popen[str]]

# Answers as go does, fails as it is told to, and notes how it was called.
FAKE_GO = """#!/bin/sh
echo "$*" >> "$FAKE_GO/calls"
case $1 in
env) echo '{"GOVERSION": "'${FAKE_GO_VERSION:-go1.26.8}'", "GOCACHE": "'$FAKE_GO'", "GOMODCACHE": "'$FAKE_GO'"}';;
list) echo 'go: downloading example.org/module v1.0.0'; echo errors; echo example.org/module; echo main;;
build)
    echo errors
    case $FAKE_GO_MODE in
    slow) echo $$ > "$FAKE_GO/pid"; sleep ${FAKE_GO_SECONDS:-1};;
    broken) echo '# main'; echo './main.go:3:1: syntax error'; exit 1;;
    full) echo 'write /x/b001/_pkg_.a: no space left on device'; exit 1;;
    killed) kill -9 $$;;
    esac
    while [ "$1" != -o ]; do shift; done
    echo '#!/bin/true' > "$2";;
esac
"""


@pytest.fixture
def fake_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "go"
    folder.mkdir()
    program = folder / "go"
    program.write_text(FAKE_GO)
    program.chmod(0o755)
    monkeypatch.setenv("FAKE_GO", str(folder))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("RUNYARD_TESTBED_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "sources"
    shutil.copytree(build._GO, copy)
    monkeypatch.setattr(build, "_GO", copy)
    return copy


def builds(fake_go: Path) -> list[str]:
    calls = (fake_go / "calls").read_text().splitlines() if (fake_go / "calls").exists() else []
    return [call for call in calls if call.startswith("build")]


def entries() -> list[str]:
    folder = cache_dir() / "bin"
    return sorted(entry.name for entry in folder.iterdir()) if folder.exists() else []


@pytest.fixture
def start_build(fake_go: Path) -> Iterator[StartBuild]:
    """Starts builds in processes of their own; neither they nor their go are left behind."""
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", "from testbed import build; print(build.ensure_addon('pause'))"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(build.__file__).parent.parent,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        os.killpg(int((fake_go / "pid").read_text()), signal.SIGKILL)  # go leads a session of its own


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + 60
    while not path.exists() or not path.read_text().strip():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.02)
    return path.read_text().strip()


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_program_is_built_once_when_asked_twice(fake_go: Path) -> None:
    first, second = build.ensure_addon("kwok"), build.ensure_addon("kwok")

    assert first == second
    assert first.name == "kwok"
    assert len(builds(fake_go)) == 1


def test_record_says_how_the_program_was_built_when_it_is_read(fake_go: Path) -> None:
    record = build.read_record(build.ensure_kube("1.34"))

    assert (record.name, record.go, record.packages, record.compiled) == ("kube-1.34", "go1.26.8", 3, 1)
    assert record.version == build.kubernetes_release("1.34")
    assert record.seconds < 20


def test_version_is_stamped_and_mod_file_chosen_when_kubernetes_is_built(fake_go: Path) -> None:
    build.ensure_kube("1.34")

    (call,) = builds(fake_go)
    assert "-modfile=go-1.34.mod" in call
    assert f"-X k8s.io/component-base/version.gitVersion=v{build.kubernetes_release('1.34')}" in call
    assert "-X k8s.io/client-go/pkg/version.gitMinor=34" in call


def test_full_release_names_the_same_program_when_it_is_known(fake_go: Path) -> None:
    assert build.ensure_kube(build.kubernetes_release("1.36")) == build.ensure_kube("1.36")


def test_cached_program_is_found_when_there_is_no_go(fake_go: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = build.ensure_kube("1.36")
    monkeypatch.setenv("PATH", "/nowhere")
    assert build.ensure_kube("1.36") == program


def test_program_is_built_again_when_it_was_removed_from_its_entry(fake_go: Path) -> None:
    build.ensure_addon("pause").unlink()

    assert build.ensure_addon("pause").exists()
    assert len(builds(fake_go)) == 2


@pytest.mark.parametrize("file", ["kube/quantity.go", "kube/go.mod", "kube/go.sum"])
def test_program_is_built_again_when_a_source_changes(fake_go: Path, sources: Path, file: str) -> None:
    before = build.ensure_kube("1.36")
    with (sources / file).open("a") as source:
        source.write("\n// changed\n")

    assert build.ensure_kube("1.36") != before


def test_two_newest_programs_are_kept_when_the_source_changes_often(fake_go: Path, sources: Path) -> None:
    build.ensure_kube("1.34")
    made = []
    for number in range(3):
        with (sources / "kube" / "main.go").open("a") as source:
            source.write(f"// {number}\n")
        made.append(build.ensure_kube("1.36"))
        os.utime(made[-1].parent, (number, number))

    assert [program.exists() for program in made] == [False, True, True]
    assert len(entries()) == 3, "another version's program must not be pruned"


def test_program_is_built_once_when_two_processes_ask(
    fake_go: Path, start_build: StartBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_GO_MODE", "slow")
    first = start_build()
    wait_for(fake_go / "pid")
    second = start_build()
    outputs = [process.communicate(timeout=60) for process in (first, second)]

    assert outputs[0][0] == outputs[1][0] != ""
    assert f"pause: waiting for pid {first.pid} (pause)" in outputs[1][1]
    assert len(builds(fake_go)) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_nothing_stays_behind_when_a_build_is_interrupted(
    fake_go: Path, start_build: StartBuild, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setenv("FAKE_GO_MODE", "slow")
    monkeypatch.setenv("FAKE_GO_SECONDS", "60")
    process = start_build()
    go = int(wait_for(fake_go / "pid"))
    process.send_signal(number)
    process.communicate(timeout=40)

    assert process.returncode != 0
    assert entries() == []
    assert not is_running(go)


def test_build_starts_afresh_when_the_last_one_was_killed(
    fake_go: Path, start_build: StartBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_GO_MODE", "slow")
    process = start_build()
    wait_for(fake_go / "pid")
    process.kill()
    process.communicate(timeout=40)
    left = entries()
    monkeypatch.delenv("FAKE_GO_MODE")

    assert build.ensure_addon("pause").exists()
    assert len(left) == 1
    assert len(entries()) == 1
    assert not set(left) & set(entries())


def test_failed_build_quotes_go_and_names_the_log_when_it_does_not_compile(
    fake_go: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_GO_MODE", "broken")
    with pytest.raises(TestbedError, match=r"^kube 1\.36\.\d+ could not be built: go build failed") as caught:
        build.ensure_kube("1.36")

    text = str(caught.value)
    found = re.search(r"output: (\S+)\n", text)
    assert found is not None
    assert "  ./main.go:3:1: syntax error" in text
    assert "syntax error" in Path(found[1]).read_text()
    assert entries() == []


@pytest.mark.parametrize(
    ("mode", "message"),
    [("full", r"the disk became full while kwok 0\.\d+\.\d+ was built"), ("killed", "for lack of memory")],
)
def test_failed_build_says_what_the_machine_lacks_when_it_lacks_it(
    fake_go: Path, monkeypatch: pytest.MonkeyPatch, mode: str, message: str
) -> None:
    monkeypatch.setenv("FAKE_GO_MODE", mode)
    with pytest.raises(TestbedError, match=message):
        build.ensure_addon("kwok")
    assert entries() == []


def test_build_is_refused_before_it_starts_when_the_disk_is_nearly_full(
    fake_go: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=5 * 10**8))
    with pytest.raises(TestbedError, match=r"nearly full: building kube 1\.36\.\d+ takes up to \d+ GB .* 0\.5 GB free"):
        build.ensure_kube("1.36")
    assert builds(fake_go) == []


def test_go_is_asked_for_when_it_is_absent(fake_go: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(TestbedError, match=r"no go on PATH: install Go 1\.26\S* or newer"):
        build.ensure_kube("1.36")


def test_newer_go_is_asked_for_when_it_is_too_old(fake_go: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_GO_VERSION", "go1.24.11")
    with pytest.raises(TestbedError, match=r"needs Go 1\.26\S* or newer and \S+ is 1\.24\.11"):
        build.ensure_kube("1.36")


def test_unknown_version_is_refused_with_the_known_ones_when_it_is_asked_for() -> None:
    with pytest.raises(TestbedError) as caught:
        build.ensure_kube("1.35")
    assert str(caught.value) == "unknown Kubernetes version `1.35`; allowed: 1.36, 1.34"


def test_unknown_addon_is_refused_with_the_known_ones_when_it_is_asked_for() -> None:
    with pytest.raises(TestbedError, match=r"unknown add-on `istio`; allowed: coredns, device-plugin, kwok, "):
        build.ensure_addon("istio")


def test_another_place_is_proposed_when_the_cache_cannot_be_written(
    fake_go: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RUNYARD_TESTBED_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(TestbedError, match="RUNYARD_TESTBED_CACHE names another place"):
        build.ensure_addon("pause")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"RUNYARD_TESTBED_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/runyard/testbed"),
        ({"HOME": "/c"}, "/c/.cache/runyard/testbed"),
    ],
)
def test_cache_lies_where_the_environment_says_when_it_says(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    for name in ("RUNYARD_TESTBED_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_dir() == Path(expected)


def test_addons_are_pinned_to_kubernetes_own_dependencies_when_both_use_them() -> None:
    """Or each add-on compiles half of Kubernetes again; `go/addons/go.mod` says more."""
    kube, addons = ((build._GO / name / "go.mod").read_text() for name in ("kube", "addons"))
    pinned = dict(re.findall(r"^\s(\S+) => \1 (\S+)$", addons, re.MULTILINE))
    staging = dict(re.findall(r"^\s(k8s\.io/\S+) (v0\.\d+\.[1-9]\d*)", addons, re.MULTILINE))
    required = dict(re.findall(r"^\s(\S+) (v\S+)", kube, re.MULTILINE))
    replaced = dict(re.findall(r"^\s(\S+) => \1 (\S+)$", kube, re.MULTILINE))

    assert len(pinned) > 20
    assert len(staging) > 5
    assert pinned | staging == {name: (required | replaced)[name] for name in pinned | staging}
