import pytest

from runyard.cli.commands.completion import _CORRECTIONS
from tests.unit.cli.conftest import Call


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_asks_our_command_when_printed(call: Call, shell: str) -> None:
    called = call("completion", shell)
    assert called.code == 0
    assert f"_RUNYARD_COMPLETE={shell}_complete" in called.out
    assert "runyard" in called.out


def test_script_is_corrected_when_click_has_mistakes(call: Call) -> None:
    for shell, corrections in _CORRECTIONS.items():
        script = call("completion", shell).out
        assert [right for _, right in corrections if right not in script] == []
        assert [wrong for wrong, _ in corrections if wrong in script] == []


def test_shells_are_named_when_it_is_unknown(call: Call) -> None:
    called = call("completion", "tcsh")
    assert called.code == 2
    assert "bash" in called.err
