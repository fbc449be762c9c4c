"""What `render` and `explain` are told on the command line, and its first checks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from runyard.spec.names import check_dns_label, check_dns_subdomain, check_project_name, check_slug

Check = Callable[[str], str | None]
Command = Callable[..., Any]

ACTIONS = ("job", "serve", "deploy")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """A run and everything that decides about it, as given on the command line."""

    file: str
    profiles: tuple[str, ...] = ()
    policy: str | None = None
    profile: str | None = None
    image: str | None = None
    action: str | None = None
    run_id: str | None = None
    project: str | None = None
    namespace: str | None = None
    secrets: tuple[str, ...] = ()
    volumes: tuple[tuple[str, str], ...] = ()
    """Kept volumes: the name users gave it, and its claim."""
    claims: tuple[str, ...] = ()
    config_maps: tuple[str, ...] = ()
    strict: bool = False


def add_run_options(command: Command) -> Command:
    """Give a command the options of `RunOptions`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def checked(check: Check) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback that refuses values, one or several, by the check's own words."""

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        for given in value if isinstance(value, tuple) else (value,):
            error = None if given is None else check(given)
            if error:
                raise click.BadParameter(f"`{given}` {error}", ctx=ctx, param=param)
        return value

    return callback


def _read_pairs(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    pairs = []
    for given in value:
        name, _, claim = given.partition("=")
        if not name or (error := check_dns_subdomain(claim)):
            reason = "has no name before `=`" if not name else f"names no claim after `=`: it {error}"
            raise click.BadParameter(f"`{given}` {reason}; write NAME=CLAIM", ctx=ctx, param=param)
        pairs.append((name, claim))
    return tuple(pairs)


_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True)
_OPTIONS = (
    click.option("-f", "--file", required=True, type=_FILE, help="The run: a file, or - for standard input."),
    click.option(
        "--profiles",
        multiple=True,
        type=click.Path(exists=True),
        help="Profiles: a file, or a folder of .yaml, .yml and .json files. May be repeated.",
    ),
    click.option(
        "--policy",
        type=click.Path(exists=True, dir_okay=False),
        help="The policy: Runyard's YAML, or DigitalHub's settings (K8S_… names).",
    ),
    click.option("--profile", metavar="NAME", help="The profile to use, whatever the file says."),
    click.option("--image", metavar="IMAGE", help="The image to run, whatever the file says."),
    click.option("--action", type=click.Choice(ACTIONS), help="How to run it.  [default: the file's, or job]"),
    click.option(
        "--id",
        "run_id",
        metavar="ID",
        callback=checked(check_slug),
        help="The run's id, from which objects are named.  [default: the file's, or one made of its content]",
    ),
    click.option(
        "--project",
        metavar="NAME",
        callback=checked(check_project_name),
        help="The project, for the policy's narrower rules and the labels.  [default: the file's, or default]",
    ),
    click.option(
        "--namespace",
        metavar="NAME",
        callback=checked(check_dns_label),
        help="The namespace to write into the objects.  [default: none; kubectl's decides]",
    ),
    click.option(
        "--secret",
        "secrets",
        metavar="NAME",
        multiple=True,
        help="A secret that the platform stores. Offline it is rendered empty. May be repeated.",
    ),
    click.option(
        "--volume",
        "volumes",
        metavar="NAME=CLAIM",
        multiple=True,
        callback=_read_pairs,
        help="A kept volume, for `shared_volume`, and the claim behind it. May be repeated.",
    ),
    click.option(
        "--claim",
        "claims",
        metavar="NAME",
        multiple=True,
        callback=checked(check_dns_subdomain),
        help="An existing claim that belongs to the project. May be repeated.",
    ),
    click.option(
        "--config-map",
        "config_maps",
        metavar="NAME",
        multiple=True,
        callback=checked(check_dns_subdomain),
        help="A config map that belongs to the project. May be repeated.",
    ),
    click.option("--strict", is_flag=True, help="Refuse the run if a value you set would not be used."),
)
