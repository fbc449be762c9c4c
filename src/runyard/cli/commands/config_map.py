"""`runyard config-map`."""

from typing import Any

import click

from runyard.cli.completed_names import complete
from runyard.cli.help_texts import format_epilog
from runyard.cli.lazy_commands import Entry, LazyGroup, load
from runyard.cli.listings import add_listing
from runyard.cli.questions import add_yes
from runyard.cli.server_options import add_output, add_project_options

_HERE = "runyard.cli.commands.config_map"
ENTRIES = {
    "ls": Entry(f"{_HERE}:config_map_ls", "List config maps, or the versions of one."),
    "show": Entry(f"{_HERE}:config_map_show", "Show a version, or print one of its files."),
    "set": Entry(f"{_HERE}:config_map_set", "Store files as a new version."),
    "rm": Entry(f"{_HERE}:config_map_rm", "Delete a config map, or one version."),
}
_VERSION = click.option("--id", "version", metavar="ID", help="Version.  [default: the newest]")


@click.group(
    cls=LazyGroup,
    entries=ENTRIES,
    epilog=format_epilog("runyard config-map set settings --from-file train.toml", "runyard config-map ls"),
)
def config_map() -> None:
    """Manage config maps: text files in versions, which runs mount.

    Members of the project can read them: use `runyard secret` for what they must not see.
    """


@click.command(name="ls", epilog=format_epilog("runyard config-map ls", "runyard config-map ls settings -o wide"))
@click.argument("name", required=False, shell_complete=complete("config map"))
@add_listing("name", "files", "created", "by", "version", more=("names", "description"))
@add_project_options
def config_map_ls(name: str | None, listing: Any, **flags: Any) -> None:
    """List the newest version of each config map, or every version of NAME."""
    _call("print_config_maps", flags, name=name, listing=listing)


@click.command(
    name="show",
    epilog=format_epilog(
        "runyard config-map show settings", "runyard config-map show settings --file train.toml > old.toml"
    ),
)
@click.argument("name", shell_complete=complete("config map"))
@_VERSION
@click.option("--file", "file", metavar="NAME", help="Print the text of this file alone.")
@add_output("yaml", "json")
@add_project_options
def config_map_show(name: str, version: str | None, file: str | None, output: str, **flags: Any) -> None:
    """Show the newest version of the config map NAME."""
    _call("print_config_map", flags, name=name, version=version, file=file, output=output)


@click.command(
    name="set",
    epilog=format_epilog(
        "runyard config-map set settings --from-file train.toml --from-literal mode=fast",
        "runyard config-map set settings --from-file train.toml=other.toml --id v2",
        "echo 'epochs = 3' | runyard config-map set settings --from-file train.toml=-",
        exit_codes="0 stored, or unchanged    1 refused    2 usage error",
    ),
)
@click.argument("name", shell_complete=complete("config map"))
@click.option(
    "--from-file",
    "files",
    metavar="[NAME=]PATH",
    multiple=True,
    help="File, - for standard input, or directory of files. Repeatable.",
)
@click.option("--from-literal", "literals", metavar="NAME=TEXT", multiple=True, help="File with this text. Repeatable.")
@click.option("--id", "version", metavar="ID", help="Name of the new version.  [default: a new one]")
@click.option("--description", metavar="TEXT", help="What it is for.")
@add_project_options
def config_map_set(
    name: str,
    files: tuple[str, ...],
    literals: tuple[str, ...],
    version: str | None,
    description: str | None,
    **flags: Any,
) -> None:
    """Store files as a new version of the config map NAME, which has these files only.

    If the newest version has the same files, and no --id is given, nothing is stored. Runs that are already submitted
    keep their copy.
    """
    _call("set_config_map", flags, name=name, files=files, literals=literals, version=version, description=description)


@click.command(
    name="rm",
    epilog=format_epilog("runyard config-map rm settings --id v2 --yes", "runyard config-map rm settings --yes"),
)
@click.argument("name", shell_complete=complete("config map"))
@click.option("--id", "version", metavar="ID", help="Delete this version only.")
@add_yes
@add_project_options
def config_map_rm(name: str, version: str | None, yes: bool, **flags: Any) -> None:  # noqa: FBT001
    """Delete the config map NAME with all its versions. Runs keep their copies."""
    _call("delete_config_map", flags, name=name, version=version, yes=yes)


def _call(function: str, flags: dict[str, Any], **more: Any) -> None:
    load(f"runyard.cli.config_maps:{function}")(flags, **more)
