"""`runyard profile`."""

from typing import Any

import click

from runyard.cli.completed_names import complete
from runyard.cli.help_texts import format_epilog
from runyard.cli.lazy_commands import Entry, LazyGroup, load
from runyard.cli.listings import add_listing
from runyard.cli.questions import add_yes
from runyard.cli.rule_options import FILE_FORM, add_apply_options
from runyard.cli.server_options import add_output, add_server_options

_HERE = "runyard.cli.commands.profile"
ENTRIES = {
    "ls": Entry(f"{_HERE}:profile_ls", "List the profiles that runs may use."),
    "show": Entry(f"{_HERE}:profile_show", "Show a profile."),
    "check": Entry(f"{_HERE}:profile_check", "Check profile files for errors and likely mistakes."),
    "apply": Entry(f"{_HERE}:profile_apply", "Create or change profiles from files, after a rehearsal."),
    "history": Entry(f"{_HERE}:profile_history", "List the revisions of a profile."),
    "diff": Entry(f"{_HERE}:profile_diff", "Compare two revisions of a profile."),
    "rm": Entry(f"{_HERE}:profile_rm", "Delete a profile."),
}
_FILES = click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(exists=True, allow_dash=True)
)
_ADMINS = "0 printed    1 refused, such as to users who are no admins    2 usage error"


@click.group(cls=LazyGroup, entries=ENTRIES, epilog=format_epilog("runyard profile ls", "runyard profile show 1xa100"))
def profile() -> None:
    """Look at the profiles that admins prepared; as an admin, check and change them."""


@click.command(
    name="ls", epilog=format_epilog("runyard profile ls", "runyard profile ls --columns name,title,description")
)
@add_listing("name", "title", "description", "changed", more=("by", "revision"))
@add_server_options
def profile_ls(listing: Any, **flags: Any) -> None:
    """List the profiles that runs may name."""
    _read("print_profiles", flags, listing=listing)


@click.command(
    name="show",
    epilog=format_epilog("runyard profile show 1xa100", "runyard profile show 1xa100 --revision 1 > old.yaml"),
)
@click.argument("name", shell_complete=complete("profile"))
@click.option(
    "--revision", type=click.IntRange(1), metavar="NUMBER", help="Revision, for admins.  [default: the newest]"
)
@add_output(*FILE_FORM)
@add_server_options
def profile_show(name: str, revision: int | None, output: str, **flags: Any) -> None:
    """Show the profile NAME, whose values win over those of runs.

    By default as it was written, so that it can be changed and applied; `-o yaml` and `-o json` also have what was
    read from it.
    """
    _read("print_profile", flags, name=name, revision=revision, output=output)


@click.command(
    name="check",
    epilog=format_epilog("runyard profile check profiles/", exit_codes="0 valid    1 refused    2 usage error"),
)
@_FILES
def profile_check(files: tuple[str, ...]) -> None:
    """Check profile files, or directories of them, for errors and likely mistakes, without a server.

    FILE is Runyard's YAML or a template file of DigitalHub.
    """
    load("runyard.cli.rule_changes:check_profiles")(files)


@click.command(
    name="apply",
    epilog=format_epilog(
        "runyard profile apply small.yaml --dry-run",
        "runyard profile apply small.yaml --since 30d --yes",
        "runyard profile show small --revision 1 | runyard profile apply - --yes",
        exit_codes="0 applied, or unchanged    1 refused    2 usage error    130 the answer was no",
    ),
)
@_FILES
@add_apply_options
def profile_apply(files: tuple[str, ...], yes: bool, **given: Any) -> None:  # noqa: FBT001
    """Create or replace the profiles in files or directories, for future runs. For admins.

    Shows which fields change, and rehearses runs of the past: what they would get, and which would be refused. Then it
    asks. A profile that somebody else changed meanwhile is refused. Profiles that the files do not have stay.
    """
    flags = {name: given.pop(name) for name in ("context", "endpoint")}
    load("runyard.cli.rule_changes:apply_profiles")(flags, files=files, yes=yes, **given)


@click.command(name="history", epilog=format_epilog("runyard profile history 1xa100", exit_codes=_ADMINS))
@click.argument("name", shell_complete=complete("profile"))
@add_listing("revision", "changed", "by", "fields", more=("time",))
@add_server_options
def profile_history(name: str, listing: Any, **flags: Any) -> None:
    """List the revisions of the profile NAME, newest first, with the fields that each changed. For admins."""
    _read("print_profile_history", flags, name=name, listing=listing)


@click.command(
    name="diff",
    epilog=format_epilog("runyard profile diff 1xa100", "runyard profile diff 1xa100 1 2", exit_codes=_ADMINS),
)
@click.argument("name", shell_complete=complete("profile"))
@click.argument("old", type=click.IntRange(1), required=False)
@click.argument("new", type=click.IntRange(1), required=False)
@add_listing("field", "before", "after")
@add_server_options
def profile_diff(name: str, old: int | None, new: int | None, listing: Any, **flags: Any) -> None:
    """Compare the revisions OLD and NEW of the profile NAME. For admins.

    NEW is the newest one if it is not given, and OLD the one before NEW.
    """
    _read("print_profile_changes", flags, name=name, old=old, new=new, listing=listing)


@click.command(
    name="rm",
    epilog=format_epilog("runyard profile rm small --yes", exit_codes="0 deleted    1 refused    2 usage error"),
)
@click.argument("name", shell_complete=complete("profile"))
@add_yes
@add_server_options
def profile_rm(name: str, yes: bool, **flags: Any) -> None:  # noqa: FBT001
    """Delete the profile NAME for new runs. For admins. Its revisions are kept; runs that use it are not affected."""
    _read("delete_profile", flags, name=name, yes=yes)


def _read(function: str, flags: dict[str, Any], **more: Any) -> None:
    load(f"runyard.cli.stored_rules:{function}")(flags, **more)
