import os
import shutil

import pytest

from runyard.cli.transfer_output import TransferLine, describe_transfer
from runyard.sdk.transfer_progress import TransferProgress

MIB = 1 << 20


class Clock:
    now = 0.0

    def read(self) -> float:
        return self.now


def make(done: int, *, problem: str | None = None, path: str = "net.bin") -> TransferProgress:
    return TransferProgress(phase="uploading", path=path, done_bytes=done * MIB, total_bytes=200 * MIB, problem=problem)


def test_nothing_is_shown_when_it_takes_less_than_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    line = TransferLine(read_clock=clock.read)
    clock.now = 0.9
    line.show(make(150))
    line.erase()
    assert capsys.readouterr().err == ""


def test_pipe_gets_a_line_now_and_then_when_it_takes_longer(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    line = TransferLine(read_clock=clock.read)
    for second in range(1, 13):
        clock.now = float(second)
        line.show(make(10 * second))
    line.erase()
    assert capsys.readouterr().err.splitlines() == [
        "uploading net.bin: 10.0 MiB of 200.0 MiB, 5 %, 10.0 MiB/s, 19 s left",
        "uploading net.bin: 110.0 MiB of 200.0 MiB, 55 %, 10.0 MiB/s, 9 s left",
    ]


def test_terminal_keeps_one_line_within_its_width_when_it_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((40, 20)))
    clock = Clock()
    line = TransferLine(read_clock=clock.read)
    for tenth in range(10, 15):
        clock.now = tenth / 10
        line.show(make(10, path="\x1b[31mnet"))
    line.erase()
    shown = capsys.readouterr().err.split("\r\x1b[K")
    assert shown[0] == shown[-1] == ""
    assert [each[:21] for each in shown[1:-1]] == ["uploading \\x1b[31mnet"] * 3
    assert all(len(each) == 39 for each in shown[1:-1])


def test_pause_is_told_once_when_several_attempts_fail(capsys: pytest.CaptureFixture[str]) -> None:
    line = TransferLine(read_clock=Clock().read)
    for _ in range(3):
        line.show(make(1, problem="connection refused"))
    line.show(make(2))
    line.show(make(2, problem="connection refused"))
    assert capsys.readouterr().err == "note: the transfer pauses (connection refused); trying again\n" * 2


def test_words_are_right_when_nothing_or_everything_is_done() -> None:
    empty = TransferProgress(phase="downloading", path="a", total_bytes=0)
    assert describe_transfer(empty, seconds=2.0) == "downloading a: 0 B of 0 B, 100 %"
    assert describe_transfer(make(1), seconds=2.0).endswith("0 %, 512.0 KiB/s, 6 min 38 s left")
