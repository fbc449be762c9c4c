"""Where the cgroups of runs are made on version 2: a hierarchy of plain files, in place of the kernel's."""

from pathlib import Path

import pytest

from runyard.procs.supervisor import cgroups


def make_cgroup(path: Path, *, gives: str = "") -> Path:
    path.mkdir(parents=True)
    (path / "cgroup.type").write_text("domain")
    (path / "cgroup.procs").write_text("")
    (path / "cgroup.subtree_control").write_text(gives)
    return path


@pytest.fixture
def unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cgroup of a systemd unit with `Delegate=yes`, which gives controllers as soon as it is asked to."""
    unit = make_cgroup(tmp_path / "runyard.service")
    monkeypatch.setattr(cgroups, "_is_delegated", lambda path: path == str(unit))

    def enable(path: str) -> bool:
        (Path(path) / "cgroup.subtree_control").write_text("cpu memory pids")
        return True

    monkeypatch.setattr(cgroups, "_enable", enable)
    return unit


def test_cgroups_of_runs_are_beside_the_server_when_systemd_delegates_a_subgroup(unit: Path) -> None:
    server = make_cgroup(unit / "server")
    assert cgroups._find_v2_parent(str(server)) == str(unit)
    assert (unit / "cgroup.subtree_control").read_text() == "cpu memory pids"
    assert cgroups._find_v2_parent(str(server)) == str(unit)


def test_cgroups_of_runs_are_nowhere_when_the_cgroup_above_is_not_delegated(unit: Path) -> None:
    other = make_cgroup(unit.parent / "other.service")
    server = make_cgroup(other / "server")
    assert cgroups._find_v2_parent(str(server)) is None
    assert (other / "cgroup.subtree_control").read_text() == ""


def test_cgroups_of_runs_are_beside_the_unit_when_the_cgroup_above_gives_memory(tmp_path: Path) -> None:
    slice_ = make_cgroup(tmp_path / "system.slice", gives="cpu memory pids")
    assert cgroups._find_v2_parent(str(make_cgroup(slice_ / "runyard.service"))) == str(slice_)
