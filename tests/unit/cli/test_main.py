import pytest

from runyard import __version__
from runyard.cli.main import COMMANDS, PIPE_CLOSED
from tests.command_tree import iter_commands
from tests.unit.cli.conftest import Call


def test_version_is_printed_when_asked(call: Call) -> None:
    for option in ("-V", "--version"):
        called = call(option)
        assert (called.code, called.out, called.err) == (0, f"runyard {__version__}\n", "")


def test_help_lists_every_command_when_asked(call: Call) -> None:
    called = call("--help")
    assert called.code == 0
    for name, entry in COMMANDS.items():
        assert name in called.out
        assert entry.line in called.out


@pytest.mark.parametrize("name", [listed.name for listed in iter_commands()])
def test_help_has_examples_or_commands_when_a_command_is_asked(call: Call, name: str) -> None:
    called = call(*name.split()[1:], "-h")
    assert called.code == 0
    assert called.out.startswith(f"Usage: {name} ")
    assert "Examples:" in called.out or "Commands:" in called.out


def test_help_is_shown_as_wrong_use_when_no_command_is_given(call: Call) -> None:
    called = call()
    assert called.code == 2
    assert "render" in called.err


def test_nearest_command_is_named_when_it_is_unknown(call: Call) -> None:
    called = call("rendr")
    assert called.code == 2
    assert "did you mean `render`?" in called.err
    assert "allowed: show, check, rehearse, apply, history, diff" in call("policy", "zzz").err


def test_options_of_the_root_are_refused_when_unknown(call: Call) -> None:
    assert call("--bogus").code == 2


def test_exit_code_is_130_when_interrupted(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.cli.manifest_output.print_manifests", _raise(KeyboardInterrupt()))
    assert call("render", "-f", "-").code == 130


def test_pipe_has_an_exit_code_of_its_own_when_its_reader_is_gone(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    silenced: list[bool] = []
    monkeypatch.setattr("runyard.cli.main._silence_output", lambda: silenced.append(True))
    monkeypatch.setattr("runyard.cli.manifest_output.print_manifests", _raise(BrokenPipeError()))
    called = call("render", "-f", "-")
    assert (called.code, called.out, called.err) == (PIPE_CLOSED, "", "")
    assert silenced


def test_reason_is_one_line_when_output_cannot_be_written(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    full = OSError(28, "No space left on device")
    monkeypatch.setattr("runyard.cli.manifest_output.print_manifests", _raise(full))
    called = call("render", "-f", "-")
    assert (called.code, called.err) == (1, "error: No space left on device\n")


def test_bug_is_told_without_a_traceback_when_one_is_met(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.cli.manifest_output.print_manifests", _raise(KeyError("lost")))
    called = call("render", "-f", "-")
    assert called.code == 1
    assert "internal error: KeyError in test_main.py:" in called.err
    assert "report it" in called.err
    assert "Traceback" not in called.err


def _raise(error: BaseException) -> object:
    def work(*_given: object, **_more: object) -> None:
        raise error

    return work
