import pytest

from tests.unit.cli.conftest import Call


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_asks_our_command_when_printed(call: Call, shell: str) -> None:
    called = call("completion", shell)
    assert called.code == 0
    assert f"_RUNYARD_COMPLETE={shell}_complete" in called.out
    assert "runyard" in called.out


def test_shells_are_named_when_it_is_unknown(call: Call) -> None:
    called = call("completion", "tcsh")
    assert called.code == 2
    assert "bash" in called.err
