import gc
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from runyard.cli.commands.policy import ENTRIES
from runyard.cli.commands.schema import KINDS as SHOWN_KINDS
from runyard.cli.lazy_commands import Entry, LazyGroup, load
from runyard.cli.main import COMMANDS, root
from runyard.spec.json_schema import KINDS


def complete(*words: str) -> list[str]:
    shell = ShellComplete(root, {}, "runyard", "_RUNYARD_COMPLETE")
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


@pytest.mark.parametrize("entry", [*COMMANDS.values(), *ENTRIES.values()], ids=lambda entry: entry.target)
def test_command_is_found_when_it_stands_in_a_table(entry: Entry) -> None:
    command = load(entry.target)
    assert isinstance(command, click.Command)
    assert entry.line.endswith(".")


def test_garbage_is_not_collected_while_a_command_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loaded_command.py").write_text("import gc\nwas_enabled = gc.isenabled()\n")
    (tmp_path / "broken_command.py").write_text("raise ValueError('a bug')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert gc.isenabled()
    assert load("loaded_command:was_enabled") is False
    assert gc.isenabled()
    with pytest.raises(ValueError, match="a bug"):
        load("broken_command:command")
    assert gc.isenabled()


def test_nothing_is_loaded_when_commands_are_listed_or_completed() -> None:
    group = LazyGroup("group", entries={"ghost": Entry("no.such.module:command", "Is never loaded.")})
    context = click.Context(group)
    assert "Is never loaded." in group.get_help(context)
    assert [item.value for item in group.shell_complete(context, "gh")] == ["ghost"]
    with pytest.raises(ModuleNotFoundError):
        group.get_command(context, "ghost")


def test_words_are_completed_when_they_have_begun() -> None:
    assert complete("re") == ["resume", "render"]
    assert complete("ren") == ["render"]
    assert complete("policy", "") == ["show", "check", "rehearse", "apply", "history", "diff"]
    assert complete("render", "--pro") == ["--profiles", "--profile", "--project"]
    assert complete("render", "--action", "") == ["job", "serve", "deploy"]
    assert complete("schema", "po") == ["policy"]
    assert complete("nope", "") == list(COMMANDS)


def test_kinds_of_schemas_are_the_known_ones_when_listed() -> None:
    assert tuple(SHOWN_KINDS) == KINDS
