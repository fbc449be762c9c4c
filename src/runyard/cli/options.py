"""Options of `render` and `explain`, and their first checks. `server_options.py` has those about servers."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from runyard.cli.completed_names import complete
from runyard.spec.names import check_dns_label, check_dns_subdomain, check_project_name, check_slug

Check = Callable[[str], str | None]
Command = Callable[..., Any]

ACTIONS = ("job", "serve", "deploy")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """A run, the profiles and policy, and what the project has, as given on the command line."""

    file: str
    profiles: tuple[str, ...] = ()
    policy: str | None = None
    profile: str | None = None
    image: str | None = None
    action: str | None = None
    run_id: str | None = None
    run_uid: str | None = None
    project: str | None = None
    namespace: str | None = None
    secrets: tuple[str, ...] = ()
    volumes: tuple[tuple[str, str], ...] = ()
    """Kept volumes: name and claim."""
    claims: tuple[str, ...] = ()
    config_maps: tuple[tuple[str, str], ...] = ()
    """Config maps: name, or name and version, and the file or directory with their content."""
    strict: bool = False


class RunCommand(click.Command):
    """A command whose file is an option. It names the option if the file is given as an argument."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; raises a usage error that suggests `-f` for a file without it."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError:
            file = self._find_bare_file(ctx, given)
            if file is None:
                raise
            raise click.UsageError(f"unexpected argument `{file}`; did you mean `-f {file}`?", ctx) from None

    def _find_bare_file(self, ctx: click.Context, given: list[str]) -> str | None:
        """Return the first argument that belongs to no option, if `-f` is missing and the other options are known."""
        try:
            options, extra, _ = self.make_parser(ctx).parse_args(args=given)
        except click.UsageError:
            return None
        return extra[0] if extra and "file" not in options else None


def add_run_options(*, is_file_required: bool = True) -> Callable[[Command], Command]:
    """Add the options of `RunOptions` to a command. Without `is_file_required` the command checks `file` itself."""
    file = click.option(
        "-f", "--file", required=is_file_required, type=_FILE, help="Run file, or - for standard input."
    )

    def add(command: Command) -> Command:
        for option in reversed((file, *_OPTIONS)):
            command = option(command)
        return command

    return add


def checked(check: Check) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Make a click callback that refuses values with the message of `check`."""

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        for given in value if isinstance(value, tuple) else (value,):
            error = None if given is None else check(given)
            if error:
                raise click.BadParameter(f"`{given}` {error}", ctx=ctx, param=param)
        return value

    return callback


def _read_pairs(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Read NAME=CLAIM; NAME alone stands for the claim of that name."""
    pairs = []
    for given in value:
        name, separator, claim = given.partition("=")
        claim = claim if separator else name
        if not name or (error := check_dns_subdomain(claim)):
            reason = "has no name before `=`" if not name else f"has no valid claim: it {error}"
            raise click.BadParameter(f"`{given}` {reason}; allowed: NAME or NAME=CLAIM", ctx=ctx, param=param)
        pairs.append((name, claim))
    return tuple(pairs)


def _read_config_maps(
    ctx: click.Context, param: click.Parameter, value: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    pairs = []
    for given in value:
        reference, _, path = given.partition("=")
        name, colon, version = reference.partition(":")
        if error := check_dns_subdomain(name) or (check_slug(version) if colon else None):
            reason = f"has no valid name before `=`: it {error}"
        elif not path:
            reason = "has no path after the name"
        elif not Path(path).exists():
            reason = f"names a path that does not exist: {path}"
        else:
            pairs.append((reference, path))
            continue
        message = f"`{given}` {reason}; allowed: NAME=PATH or NAME:VERSION=PATH, a file or a directory of files"
        raise click.BadParameter(message, ctx=ctx, param=param)
    return tuple(pairs)


_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True)
_OPTIONS = (
    click.option(
        "--profiles",
        multiple=True,
        type=click.Path(exists=True),
        help="Profile file, or a directory of .yaml, .yml and .json files. Repeatable.",
    ),
    click.option(
        "--policy",
        type=click.Path(exists=True, dir_okay=False),
        help="Policy file: Runyard's YAML, or DigitalHub's settings (K8S_… names).",
    ),
    click.option(
        "--profile", metavar="NAME", shell_complete=complete("profile"), help="Profile to use. Overrides the file."
    ),
    click.option("--image", metavar="IMAGE", help="Container image. Overrides the file."),
    click.option(
        "--action", type=click.Choice(ACTIONS), help="Action. Overrides the file.  [default: the file's, or job]"
    ),
    click.option(
        "--id",
        "run_id",
        metavar="ID",
        callback=checked(check_slug),
        help="Run id, part of the objects' names.  [default: the file's, or a hash of its content]",
    ),
    click.option(
        "--uid",
        "run_uid",
        metavar="UID",
        callback=checked(check_slug),
        help="Run uid, whose hash ends the objects' names.  [default: derived from project and id]",
    ),
    click.option(
        "--project",
        metavar="NAME",
        callback=checked(check_project_name),
        shell_complete=complete("project"),
        help="Project, for the policy's rules per project and for labels.  [default: the file's, or default]",
    ),
    click.option(
        "--namespace",
        metavar="NAME",
        callback=checked(check_dns_label),
        help="Namespace of the objects.  [default: none, so that kubectl uses its current one]",
    ),
    click.option(
        "--secret",
        "secrets",
        metavar="NAME",
        multiple=True,
        shell_complete=complete("secret"),
        help="Name of a secret stored on the server; rendered with an empty value. Repeatable.",
    ),
    click.option(
        "--volume",
        "volumes",
        metavar="NAME[=CLAIM]",
        multiple=True,
        callback=_read_pairs,
        help="Kept volume, for `shared_volume`, and its claim, if the names differ. Repeatable.",
    ),
    click.option(
        "--claim",
        "claims",
        metavar="NAME",
        multiple=True,
        callback=checked(check_dns_subdomain),
        help="Existing claim of the project. Repeatable.",
    ),
    click.option(
        "--config-map",
        "config_maps",
        metavar="NAME[:VERSION]=PATH",
        multiple=True,
        callback=_read_config_maps,
        help="Config map of the project, or one version of it, and its content: a file, or a directory of files. "
        "Repeatable.",
    ),
    click.option("--strict", is_flag=True, help="Refuse the run if a value you set would be ignored."),
)
