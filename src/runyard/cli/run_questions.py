"""The questions of `runyard init` on a terminal. A wrong answer is explained and asked again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from runyard.cli.findings import Finding, format_finding
from runyard.cli.output import clean
from runyard.cli.questions import ask
from runyard.spec.kinds.registry import DEFAULT_KIND, get_kind, list_function_kinds
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused
from runyard.spec.resources import RESOURCES
from runyard.spec.run_documents import read_run_file

Answers = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question: the answer that it sets, its words, its default, and for which answers it is asked."""

    name: str
    text: str
    default: str = ""
    """Taken for an empty answer; empty if nothing is set then."""
    applies: Callable[[Answers], bool] = lambda _answers: True
    choices: Callable[[Answers], tuple[str, ...]] = lambda _answers: ()


def has_code(kind: str) -> bool:
    """Whether functions of a kind are code; the others are images."""
    return get_kind(kind).source_language is not None


def _is_code(answers: Answers) -> bool:
    return has_code(answers["kind"])


def _is_image(answers: Answers) -> bool:
    return not _is_code(answers)


def _has_no_profile(answers: Answers) -> bool:
    return "profile" not in answers


def _list_actions(answers: Answers) -> tuple[str, ...]:
    return tuple(action for action in get_kind(answers["kind"]).actions if action != "build")


QUESTIONS = (
    Question(name="kind", text="What runs", default=DEFAULT_KIND, choices=lambda _: list_function_kinds()),
    Question(name="action", text="To do what", default="job", choices=_list_actions),
    Question(name="image", text="Image (empty: a busybox to try)", applies=_is_image),
    Question(
        name="command",
        text="Program and arguments (empty: the image's own)",
        applies=lambda answers: _is_image(answers) and "image" in answers,
    ),
    Question(name="code", text="File with the code (empty: a function to try)", applies=_is_code),
    Question(
        name="handler",
        text="Function to call (empty: the only one)",
        applies=lambda answers: _is_code(answers) and "code" in answers,
    ),
    Question(name="profile", text="Profile of your admin (empty: none)"),
    Question(name="cpu", text="CPU cores", default="500m", applies=_has_no_profile),
    Question(name="mem", text="Memory", default="512Mi", applies=_has_no_profile),
    Question(name="gpu", text="GPUs (empty: none)", applies=_has_no_profile),
)


def ask_for_missing(answers: Answers) -> Answers:
    """Ask what is not answered yet. Prompts go to standard error; raises `Abort` on Ctrl-C."""
    found = dict(answers)
    if found.get("kind") not in (None, *list_function_kinds()):
        return found  # refused later, with the nearest kind
    for question in QUESTIONS:
        if question.name not in found and question.applies(found) and (answer := _ask(question, found)):
            found[question.name] = answer
    return found


def _ask(question: Question, answers: Answers) -> str:
    choices = question.choices(answers)
    text = f"{question.text} ({', '.join(choices)})" if choices else question.text
    while True:
        answer = ask(text, default=question.default)
        problem = _find_problem(question.name, answer, choices) if answer else None
        if problem is None:
            return answer
        click.echo(format_finding(Finding(problem), "error"), err=True)


def _find_problem(name: str, answer: str, choices: tuple[str, ...]) -> Problem | None:
    if choices and answer not in choices:
        return Problem(Code.VALUE_OPTION, (), f"unknown answer `{clean(answer)}`", allowed=", ".join(choices))
    if name == "code":
        reason = _explain_unusable(answer)
        return None if reason is None else Problem(Code.FIELD_INVALID, (), reason)
    if name in ("command", "handler", "kind", "action"):
        return None
    try:
        read_run_file({"resources": {name: answer}} if name in RESOURCES else {name: answer})
    except Refused as refused:
        return refused.problems[0]
    return None


def _explain_unusable(file: str) -> str | None:
    """Why a file with code cannot be used; None if it can."""
    try:
        click.Path(exists=True, dir_okay=False, readable=True).convert(file, None, None)
    except click.BadParameter as error:
        return error.message.lower().rstrip(".")
    return None
