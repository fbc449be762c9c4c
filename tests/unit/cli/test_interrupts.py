"""Ctrl-C at a question, in the moment in which Python only notes it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.terminals import open_terminal

# SIGINT is blocked in the main thread, so that another one handles it: Python has then noted it, and the read of the
# main thread was not interrupted, as if it had begun a moment later.
PROGRAM = """
import signal, sys, threading, click
from runyard.cli.questions import {question}
threading.Thread(target=threading.Event().wait, daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
try:
    {call}
except click.Abort:
    print("aborted")
"""
QUESTIONS = {
    "a text": ("ask", 'ask("Name")'),
    "a hidden text": ("ask_hidden", 'ask_hidden("Name")'),
    "yes or no": ("confirm", 'confirm("Name")'),
}


@pytest.mark.parametrize("what", QUESTIONS)
def test_question_is_aborted_when_ctrl_c_was_noted_before_the_read(what: str, tmp_path: Path) -> None:
    question, call = QUESTIONS[what]
    program = PROGRAM.format(question=question, call=call)
    with open_terminal([sys.executable, "-c", program], folder=tmp_path, environment={"TERM": "xterm"}) as terminal:
        terminal.read_until("Name.*: ")
        terminal.type("\x03")
        terminal.read_until("aborted")
        assert terminal.wait() == 0


def test_answers_are_read_when_nobody_interrupts(tmp_path: Path) -> None:
    program = (
        'from runyard.cli.questions import ask, confirm; print(ask("One"), ask("Two")); confirm("Three"); print("end")'
    )
    done = subprocess.run([sys.executable, "-c", program], input="1\n2\ny\n", capture_output=True, text=True)
    assert done.stdout.endswith("1 2\nend\n"), done.stderr


def test_names_are_escaped_when_they_are_part_of_a_question() -> None:
    program = "from runyard.cli.questions import confirm; confirm('Delete a\\x1b[2Jb?')"
    done = subprocess.run([sys.executable, "-c", program], input="y\n", capture_output=True, text=True)
    assert done.stderr == "Delete a\\x1b[2Jb? [y/N]: "
