"""The recorded session of the README: its commands still print what was recorded, and the still is one of it."""

import json

import pytest

from examples.recording.session import STEPS, mask, record_session
from examples.recording.still import render_still
from examples.recording.terminal import Step, read_cast, record
from tests.e2e.client.conftest import ROOT

FOLDER = ROOT / "examples" / "recording"
CAST = (FOLDER / "session.cast").read_text()


def test_commands_print_what_was_recorded_when_they_are_executed_again() -> None:
    again = "".join(text for _, text in record_session().events)
    assert mask(again).splitlines() == mask(read_cast(CAST)).splitlines(), "run `make recording`"


def test_recording_is_what_players_read_when_it_is_parsed() -> None:
    head, *events = [json.loads(line) for line in CAST.splitlines()]
    assert {"version": 2, "width": 96, "height": 30}.items() <= head.items()
    times = [at for at, kind, _ in events if kind == "o"]
    assert len(times) == len(events)
    assert times == sorted(times)
    shown = read_cast(CAST)
    for step in STEPS:
        assert f"\x1b[32m$\x1b[0m {step.command}\r\n" in shown
    assert str(ROOT) not in CAST


def test_still_is_of_the_recording_when_it_is_rendered() -> None:
    assert (FOLDER / "session.svg").read_text() == render_still(read_cast(CAST)), "run `make recording`"
    assert "examples/recording/session.svg" in (ROOT / "README.md").read_text()


def test_still_is_refused_when_it_cannot_show_a_text() -> None:
    assert "<tspan fill=" in render_still("\x1b[31m<a>\x1b[0m & b\n")
    assert "&lt;a&gt;</tspan> &amp; b</text>" in render_still("\x1b[31m<a>\x1b[0m & b\n")
    for text in ("a\x1b[2Jb", "50 %\r60 %", "\x1b[95mx"):
        with pytest.raises(ValueError, match="a still"):
            render_still(text)


def test_recording_fails_when_a_command_ends_otherwise() -> None:
    steps = [Step(command="echo one; exit 3")]
    with pytest.raises(RuntimeError, match=r"exited with 3, not 0:\n(.|\n)*one"):
        record(steps, folder=ROOT, environment={"PATH": "/usr/bin:/bin"})
