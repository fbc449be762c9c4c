"""Click options generated from the table of settings, and helpers of commands that need the `server` extra."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from importlib.util import find_spec
from typing import Any, TypeVar

import click

from runyard.cli.command_errors import print_error
from runyard.cli.lazy_commands import load
from runyard.settings import SETTINGS, Loaded, Setting, read_settings
from runyard.settings.table import SETTINGS_FILE
from runyard.spec.problems import Refused

T = TypeVar("T")
Command = Callable[..., Any]

DATABASE = ("data", "database")
"""Settings of a command that works on the database only."""
# Failures of the environment. They are reported in one line, unlike bugs.
_FAILURES = (
    "runyard.store.errors:StoreError",
    "runyard.vault.errors:VaultError",
    "runyard.logs.errors:LogsUnavailable",
    "runyard.app.errors:NotPossible",
    "runyard.app.errors:Forbidden",
)


class WrongSettings(click.ClickException):
    """All errors in the settings, one line each. Ends a command with 2 (usage error)."""

    exit_code = 2

    def __init__(self, refused: Refused) -> None:
        super().__init__(str(refused))
        self._lines = [str(problem) for problem in refused.problems]

    def show(self, file: Any = None) -> None:  # noqa: ARG002 - click's signature
        """Print all lines to standard error."""
        for line in self._lines:
            print_error(line)


def add_settings(names: Collection[str] | None = None) -> Callable[[Command], Command]:
    """Add the flags of the named settings, or of all settings, and `--settings` to a command."""
    wanted = [setting for setting in SETTINGS if (names is None or setting.name in names) and not setting.is_secret]

    def add(command: Command) -> Command:
        for setting in reversed([*wanted, SETTINGS_FILE]):
            command = _make_option(setting)(command)
        return command

    return add


def describe_variables() -> str:
    """Describe the settings that have a variable but no flag, for the end of a help text."""
    secrets = [setting for setting in SETTINGS if setting.is_secret]
    width = max(len(setting.variable) for setting in secrets)
    lines = [f"  {setting.variable:<{width}}  {setting.help}" for setting in secrets]
    return "\n".join(["\b", "Secrets, set by environment variable only:", *lines])


def load_settings(flags: Mapping[str, Any], *, only: Collection[str] | None = None) -> Loaded:
    """Read the settings and print warnings; raises `WrongSettings`."""
    try:
        loaded = read_settings(flags, only=only)
    except Refused as refused:
        raise WrongSettings(refused) from None
    clean = load("runyard.cli.output:clean")
    for warning in loaded.warnings:
        click.echo(f"warning: {clean(warning)}", err=True)
    return loaded


def require_server() -> None:
    """Raise an error that says what to install if the `server` extra is missing."""
    needed = ("sqlalchemy", "alembic", "argon2", "starlette", "structlog", "uvicorn", "uvloop")
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"this command requires packages that are not installed ({', '.join(missing)}): "
            "run pip install 'runyard[server]'"
        )


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine; failures of the environment end the command with one line and exit code 1."""
    return run_sync(lambda: asyncio.run(work))


def run_sync(work: Callable[[], T]) -> T:
    """Like `run_async`, for a plain function."""
    failures: tuple[type[Exception], ...] = tuple(map(load, _FAILURES))
    try:
        return work()
    except failures as error:
        clean = load("runyard.cli.output:clean")
        raise click.ClickException(clean(" ".join(str(error).split()))) from None
    except Refused as refused:
        finding = load("runyard.cli.findings:Finding")
        raise load("runyard.cli.findings:Failed")(map(finding, refused.problems)) from None


def _make_option(setting: Setting) -> Callable[[Command], Command]:
    default = setting.shown_default or setting.default
    notes = [setting.variable, *([f"default: {default}"] if default and not setting.is_switch else [])]
    text = f"{setting.help}  [{'; '.join(notes)}]"
    if setting.is_switch:
        names = f"{setting.flag}/--no-{setting.flag.removeprefix('--')}"
        return click.option(names, setting.name, default=None, help=text)
    return click.option(setting.flag, setting.name, metavar=setting.metavar, help=text)
