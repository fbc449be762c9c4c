"""Logs of many instances do not fill the disk."""

from pathlib import Path
from typing import Any

import pytest

from runyard.procs.supervisor.instances import MOST_INSTANCES, MOST_LOG_SHARES, remove_old_logs


def make_logs(folder: Path, count: int, size: int) -> list[dict[str, Any]]:
    for number in range(count):
        (folder / f"main.{number}").write_bytes(bytes(size))
    return [{"command": "main", "instance": number, "log_bytes": size} for number in range(count)]


def list_numbers(folder: Path) -> list[int]:
    return sorted(int(each.suffix[1:]) for each in folder.iterdir())


@pytest.mark.parametrize(("log_bytes", "kept"), [(None, 10), (100, MOST_LOG_SHARES - 1), (1000, 10), (250, 7)])
def test_oldest_logs_are_removed_when_all_are_too_large(tmp_path: Path, log_bytes: int | None, kept: int) -> None:
    remove_old_logs(str(tmp_path), make_logs(tmp_path, 10, 100), log_bytes)
    assert list_numbers(tmp_path) == list(range(10 - kept, 10))


def test_oldest_logs_are_removed_when_the_state_does_not_list_them(tmp_path: Path) -> None:
    remove_old_logs(str(tmp_path), make_logs(tmp_path, MOST_INSTANCES + 5, 1), None)
    assert list_numbers(tmp_path) == list(range(6, MOST_INSTANCES + 5))
