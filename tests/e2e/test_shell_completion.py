"""Completion in each shell that it is offered for: interactive ones, with the printed script loaded as documented."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import runyard as ry
from runyard.sdk.contexts import Context, Contexts, find_path, save_contexts
from tests.core_process import run_core
from tests.e2e.terminals import SECONDS, Terminal, open_terminal

BIN = Path(sys.executable).parent
LINES = {
    "runyard rende": "runyard render",
    "runyard policy ch": "runyard policy check",
    "runyard render --action ser": "runyard render --action serve",
    "runyard explain node_sel": "runyard explain node_selector",
    "runyard explain -f run.ya": "runyard explain -f run.yaml",
    "runyard function show tra": "runyard function show train",
    "runyard project rm dem": "runyard project rm demo",
    "runyard run --profile 1x": "runyard run --profile 1xa100",
    "runyard ps --context la": "runyard ps --context lab",
}
"""What is typed before the tab key, and the line after it. The server and contexts know some of the words."""


def need(shell: str) -> str:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"no {shell} on this machine")
    return found


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with a project, a function and a profile."""
    folder = tmp_path_factory.mktemp("core")
    (folder / "profiles").mkdir()
    (folder / "profiles/a100.yaml").write_text("id: 1xa100\nresources: {requests: {memory: 32Gi}}\n")
    with run_core("--profiles", str(folder / "profiles"), folder=folder) as core:
        with ry.Client(core.url) as client:
            client.new_project("demo").new_function("train", "container", image="busybox:1.36")
        yield core.url


@pytest.fixture
def home(tmp_path: Path, endpoint: str) -> Path:
    save_contexts(
        find_path({"HOME": str(tmp_path)}), Contexts("lab", {"lab": Context(endpoint=endpoint, project="demo")})
    )
    (tmp_path / "run.yaml").write_text("image: busybox:1.36\n")
    (tmp_path / ".zfunc").mkdir()
    (tmp_path / ".config/fish/completions").mkdir(parents=True)
    return tmp_path


def make_environment(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "PATH": f"{BIN}:{os.environ['PATH']}", "TERM": "xterm", "LC_ALL": "C.UTF-8"}


def print_script(shell: str) -> str:
    return subprocess.run([BIN / "runyard", "completion", shell], capture_output=True, text=True, check=True).stdout


def complete(terminal: Terminal, typed: str) -> str:
    """The line after the tab key: it is made an argument of echo, which prints it.

    Shells drop keys that are typed while they complete, so wait until the rest of the word is shown.
    """
    terminal.type(f"{typed}\t")
    terminal.read_until(re.escape(LINES[typed].removeprefix(typed)))
    terminal.type("\x05'\x01echo 'line: \r")  # end of the line, quote, start of the line, echo
    shown = terminal.read_until(r"\nline: [^\r\n]*\r?\n")
    line: str = re.findall(r"\nline: ([^\r\n]*)", shown)[-1]
    return line.rstrip()


def test_line_is_completed_when_the_tab_key_is_pressed_in_bash(home: Path) -> None:
    (home / "rc").write_text("source <(runyard completion bash)\nPS1='> '\nbind 'set enable-bracketed-paste off'\n")
    with open_terminal(
        [need("bash"), "--noprofile", "--rcfile", str(home / "rc"), "-i"],
        folder=home,
        environment=make_environment(home),
    ) as terminal:
        terminal.read_until("> ")
        assert {typed: complete(terminal, typed) for typed in LINES} == LINES


def test_line_is_completed_when_the_tab_key_is_pressed_in_zsh(home: Path) -> None:
    need("zsh")
    (home / ".zfunc/_runyard").write_text(print_script("zsh"))
    (home / ".zshrc").write_text(
        "fpath=(~/.zfunc $fpath)\nautoload -Uz compinit\ncompinit -u\nPS1='> '\nbindkey -e\nunset zle_bracketed_paste\n"
    )
    with open_terminal([need("zsh"), "-i"], folder=home, environment=make_environment(home)) as terminal:
        terminal.read_until("> ")
        assert {typed: complete(terminal, typed) for typed in LINES} == LINES


def test_words_are_proposed_when_fish_asks(home: Path) -> None:
    fish = need("fish")
    (home / ".config/fish/completions/runyard.fish").write_text(print_script("fish"))
    asked = "\n".join(f"complete -C '{typed}'; echo ==" for typed in LINES)
    done = subprocess.run(
        [fish, "-c", asked], capture_output=True, text=True, cwd=home, env=make_environment(home), timeout=SECONDS
    )
    first_words = [part.strip().split("\t")[0] for part in done.stdout.split("==\n")[:-1]]
    assert first_words == [line.split()[-1] for line in LINES.values()]
    described = subprocess.run(
        [fish, "-c", "complete -C 'runyard d'"], capture_output=True, text=True, cwd=home, env=make_environment(home)
    )
    assert "db\tUpgrade, back up, restore, export and prune the database." in described.stdout.splitlines()
