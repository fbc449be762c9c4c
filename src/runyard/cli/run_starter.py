"""Implements `runyard init`: a run file from options and answers, each checked by the readers of run files."""

import ast
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from runyard.cli.files import STDIN, read_bytes
from runyard.cli.output import clean, print_note
from runyard.cli.questions import can_ask
from runyard.cli.run_questions import ask_for_missing, has_code
from runyard.spec.kinds.registry import DEFAULT_KIND, KINDS, get_kind
from runyard.spec.problems import Refused, find_nearest
from runyard.spec.resources import RESOURCES
from runyard.spec.run_documents import read_run_file
from runyard.spec.run_fields import PYTHON_VERSIONS
from runyard.spec.yaml.loader import dump_yaml

Answers = dict[str, Any]

DEFAULT_IMAGE = "busybox:1.36"
DEFAULT_COMMANDS = {"job": ["sh", "-c", "echo hello"], "serve": ["httpd", "-f", "-p", "8080", "-h", "/tmp"]}  # noqa: S108 - in a container
DEFAULT_RESOURCES = {"cpu": "500m", "mem": "512Mi"}
DEFAULT_CODE = '''\
def main(name: str = "world"):
    """Greet somebody."""
    print(f"hello {name}")
    return {"greeting": f"hello {name}"}
'''
MOST_CODE_BYTES = 512 * 1024
_CODE_OPTIONS = ("code", "handler", "python_version", "requirements")
_IMAGE_OPTIONS = ("run_as_user",)
_HEADER = "# A run of Runyard. `runyard explain FIELD` documents a field, such as `runyard explain resources`.\n"
_NOTES = {
    "run_as_user": "never root; leave it out if the image has a user of its own",
    "source": "its code, which is sent with the run; a path in `source` is relative to this file",
    "resources": "what it needs; see also `runyard explain volumes` and `runyard explain timeout`",
}


def write_run_file(file: str, given: Mapping[str, Any], *, is_forced: bool) -> None:
    """Write the file, after questions if there is a terminal; raises if it exists, unless `is_forced`."""
    is_printed = file == STDIN
    if not is_printed and not is_forced and Path(file).exists():
        raise click.ClickException(f"{clean(file)} exists: add --force to replace it, or name another FILE")
    answers = {name: value for name, value in given.items() if value not in (None, ())}
    answers = ask_for_missing(answers) if can_ask() else answers
    text = render_run_file(answers, folder=Path() if is_printed else Path(file).parent)
    if is_printed:
        click.echo(text, nl=False)
        return
    _write(Path(file), text, is_forced=is_forced)
    click.echo(f"written: {clean(file)}")
    for step in list_next_steps(file, answers):
        print_note(step)


def render_run_file(answers: Answers, *, folder: Path) -> str:
    """The text of a run file for a folder; raises `UsageError` for the first wrong answer."""
    document = _build_document(answers, folder)
    _check(document)
    return _HEADER + "".join(_render_field(name, value) for name, value in document.items())


def list_next_steps(file: str, answers: Answers) -> list[str]:
    """What to do with the file."""
    name = shlex.quote(file)
    profiles = " --profiles DIR" if answers.get("profile") else ""
    steps = [f"next: `runyard explain -f {name}{profiles}` shows what it would get"]
    context = click.get_current_context(silent=True)
    entries = getattr(context.find_root().command, "entries", {}) if context else {}
    if "run" in entries:
        steps.append(f"then: `runyard run -f {name}` starts it")
    return steps


def _build_document(answers: Answers, folder: Path) -> dict[str, Any]:
    kind = answers.get("kind") or (_find_code_kind() if answers.keys() & {*_CODE_OPTIONS} else DEFAULT_KIND)
    _check({"kind": kind})
    action = answers.get("action", "job")
    _refuse_unused(kind, action, answers)
    document: dict[str, Any] = {"kind": kind, "action": action}
    document |= {name: answers[name] for name in ("project", "profile") if name in answers}
    document |= _build_function(answers, folder) if has_code(kind) else _build_container(answers, action)
    resources = {name: answers[name] for name in RESOURCES if name in answers}
    if not resources and "profile" not in answers:
        resources = DEFAULT_RESOURCES
    return {**document, "resources": resources} if resources else document


def _check(document: Mapping[str, Any]) -> None:
    try:
        read_run_file(document)
    except Refused as refused:
        raise click.UsageError(str(refused.problems[0])) from None


def _find_code_kind() -> str:
    return next(kind.name for kind in KINDS.values() if kind.source_language is not None)


def _refuse_unused(kind: str, action: str, answers: Answers) -> None:
    if action not in get_kind(kind).actions:
        allowed = ", ".join(name for name in get_kind(kind).actions if name != "build")
        raise click.UsageError(f"--action: a {kind} function cannot `{action}`; allowed: {allowed}")
    others = _IMAGE_OPTIONS if has_code(kind) else _CODE_OPTIONS
    if unused := [f"--{name.removesuffix('s').replace('_', '-')}" for name in others if name in answers]:
        raise click.UsageError(f"{', '.join(unused)} would have no effect on kind {kind}")


def _build_container(answers: Answers, action: str) -> dict[str, Any]:
    built: dict[str, Any] = {"image": answers.get("image", DEFAULT_IMAGE)}
    if "command" in answers:
        built["command"] = split_command(answers["command"])
    elif "image" not in answers:
        built["command"] = DEFAULT_COMMANDS["job" if action == "job" else "serve"]
    user = str(answers.get("run_as_user", "1000"))
    return {**built, "run_as_user": int(user) if user.isdecimal() else user}


def _build_function(answers: Answers, folder: Path) -> dict[str, Any]:
    code = read_code(answers["code"]) if "code" in answers else DEFAULT_CODE
    handler = answers.get("handler") or choose_handler(code, answers.get("code"))
    if (names := list_functions(code)) and handler not in names:
        near = find_nearest(handler, names)
        meant = f"did you mean {near}?" if near else f"allowed: {', '.join(names)}"
        raise click.UsageError(f"--handler: the code has no function `{handler}`; {meant}")
    path = os.path.relpath(answers["code"], folder) if "code" in answers else None
    built: dict[str, Any] = {
        "python_version": answers.get("python_version") or choose_python_version(),
        "source": {"handler": handler, **({"source": path} if path else {"code": code})},
    }
    built |= {name: answers[name] for name in ("image",) if name in answers}
    if "command" in answers:
        built["command"] = split_command(answers["command"])
    if "requirements" in answers:
        built["requirements"] = list(answers["requirements"])
    return {**built, "parameters": {"name": "world"}} if "code" not in answers else built


def split_command(text: str) -> list[str]:
    """The words of a command; raises `UsageError` for an open quote."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise click.UsageError(f"--command: `{text}` cannot be split: {str(error).lower()}") from None


def read_code(file: str) -> str:
    """The text of a Python file."""
    try:
        return read_bytes(file, most_bytes=MOST_CODE_BYTES).decode()
    except UnicodeDecodeError:
        raise click.UsageError(f"--code: {clean(file)} is not text in UTF-8") from None


def list_functions(code: str) -> list[str]:
    """The top-level functions; none if this Python cannot parse the code."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def choose_handler(code: str, file: str | None) -> str:
    """The only public function of the code; raises `UsageError` if there is not exactly one."""
    names = [name for name in list_functions(code) if not name.startswith("_")]
    if len(names) == 1:
        return names[0]
    found = f"has {', '.join(names)}" if names else "has no function that this Python can read"
    raise click.UsageError(f"--handler is missing: {clean(file or '')} {found}")


def choose_python_version() -> str:
    """That of this interpreter, or the nearest one that is known."""
    minor = min(max(sys.version_info.minor, 10), 9 + len(PYTHON_VERSIONS))
    return f"PYTHON3_{minor}"


def _render_field(name: str, value: Any) -> str:
    """One field as YAML with its note; code as a block of text."""
    note = f"# {_NOTES[name]}\n" if name in _NOTES else ""
    if name != "source" or "code" not in value:
        return note + dump_yaml({name: value})
    lines = "".join(f"    {line}\n" if line else "\n" for line in value["code"].split("\n")[:-1])
    return f"{note}source:\n  handler: {value['handler']}\n  code: |\n{lines}"


def _write(path: Path, text: str, *, is_forced: bool) -> None:
    """Write the whole file or nothing. Without `is_forced` a file that appeared in the meantime is kept."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        if is_forced:
            Path(name).replace(path)
            return
        try:
            path.hardlink_to(name)
        except FileExistsError:
            raise click.ClickException(f"{clean(str(path))} exists: add --force to replace it") from None
    finally:
        Path(name).unlink(missing_ok=True)
