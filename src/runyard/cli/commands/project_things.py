"""`runyard project`, `function` and `secret`."""

from typing import Any

import click

from runyard.cli.completed_names import complete
from runyard.cli.help_texts import format_epilog
from runyard.cli.lazy_commands import Entry, LazyGroup, load
from runyard.cli.listings import add_listing
from runyard.cli.questions import add_yes
from runyard.cli.server_options import add_output, add_project_options, add_server_options

_HERE = "runyard.cli.commands.project_things"
PROJECT_ENTRIES = {
    "ls": Entry(f"{_HERE}:project_ls", "List projects."),
    "create": Entry(f"{_HERE}:project_create", "Create a project."),
    "members": Entry(f"{_HERE}:project_members", "List who may use a project."),
    "share": Entry(f"{_HERE}:project_share", "Give a user a role in a project."),
    "unshare": Entry(f"{_HERE}:project_unshare", "Take a user's role away."),
    "rm": Entry(f"{_HERE}:project_rm", "Delete a project and everything in it."),
}
FUNCTION_ENTRIES = {
    "ls": Entry(f"{_HERE}:function_ls", "List functions."),
    "show": Entry(f"{_HERE}:function_show", "Show the newest version of a function."),
    "rm": Entry(f"{_HERE}:function_rm", "Delete a version of a function, with its runs."),
}
SECRET_ENTRIES = {
    "ls": Entry(f"{_HERE}:secret_ls", "List secrets, without their values."),
    "set": Entry(f"{_HERE}:secret_set", "Store or change a secret."),
    "rm": Entry(f"{_HERE}:secret_rm", "Delete a secret."),
}


@click.group(cls=LazyGroup, entries=PROJECT_ENTRIES, epilog=format_epilog("runyard project ls"))
def project() -> None:
    """List, create, share and delete projects."""


@click.group(
    cls=LazyGroup,
    entries=FUNCTION_ENTRIES,
    epilog=format_epilog("runyard function ls", "runyard function show train -o yaml"),
)
def function() -> None:
    """Look at the functions of a project, and delete versions."""


@click.group(
    cls=LazyGroup,
    entries=SECRET_ENTRIES,
    epilog=format_epilog("pass show hf | runyard secret set HF_TOKEN --stdin", "runyard secret ls"),
)
def secret() -> None:
    """Manage the secrets of a project. Values are read from a prompt or standard input, never from an argument."""


@click.command(name="ls", epilog=format_epilog("runyard project ls", "runyard project ls --columns name,labels"))
@add_listing("name", "created", "by", more=("updated", "labels", "description"))
@add_server_options
def project_ls(listing: Any, **flags: Any) -> None:
    """List the projects that are visible to you."""
    _call("print_projects", flags, listing=listing)


@click.command(name="create", epilog=format_epilog("runyard project create vision --label images"))
@click.argument("name")
@click.option("--description", metavar="TEXT", help="What it is for.")
@click.option("--label", "labels", metavar="LABEL", multiple=True, help="Label. Repeatable.")
@add_server_options
def project_create(name: str, description: str | None, labels: tuple[str, ...], **flags: Any) -> None:
    """Create the project NAME."""
    _call("create_project", flags, name=name, description=description, labels=labels)


@click.command(name="rm", epilog=format_epilog("runyard project rm vision --yes"))
@click.argument("name", shell_complete=complete("project"))
@add_yes
@add_server_options
def project_rm(name: str, yes: bool, **flags: Any) -> None:  # noqa: FBT001
    """Delete the project NAME: its runs are stopped, and everything in it is deleted."""
    _call("delete_project", flags, name=name, yes=yes)


@click.command(name="members", epilog=format_epilog("runyard project members demo"))
@click.argument("name", shell_complete=complete("project"))
@add_listing("user", "role")
@add_server_options
def project_members(name: str, listing: Any, **flags: Any) -> None:
    """List the creator of the project NAME, who is an owner, and its members; `*` is everyone."""
    _call("print_members", flags, name=name, listing=listing)


@click.command(name="share", epilog=format_epilog("runyard project share demo bob --role viewer"))
@click.argument("name", shell_complete=complete("project"))
@click.argument("user")
@click.option(
    "--role",
    type=click.Choice(("viewer", "editor", "owner")),
    default="editor",
    show_default=True,
    help="A viewer reads; an editor also writes, runs and reads secrets; an owner also shares and deletes.",
)
@add_server_options
def project_share(name: str, user: str, role: str, **flags: Any) -> None:
    """Give USER a role in the project NAME, or another role; `*` is everyone. For owners."""
    _call("share_project", flags, name=name, user=user, role=role)


@click.command(name="unshare", epilog=format_epilog("runyard project unshare demo bob"))
@click.argument("name", shell_complete=complete("project"))
@click.argument("user")
@add_server_options
def project_unshare(name: str, user: str, **flags: Any) -> None:
    """Take the role of USER in the project NAME away. For owners."""
    _call("unshare_project", flags, name=name, user=user)


@click.command(name="ls", epilog=format_epilog("runyard function ls", "runyard function ls -o wide"))
@add_listing("name", "kind", "created", "by", "version", more=("updated", "labels", "description"))
@add_project_options
def function_ls(listing: Any, **flags: Any) -> None:
    """List the newest version of each function."""
    _call("print_functions", flags, listing=listing)


@click.command(name="show", epilog=format_epilog("runyard function show train -o yaml"))
@click.argument("name", shell_complete=complete("function"))
@add_output("yaml", "json")
@add_project_options
def function_show(name: str, output: str, **flags: Any) -> None:
    """Show the newest version of the function NAME."""
    _call("print_function", flags, name=name, output=output)


@click.command(name="rm", epilog=format_epilog("runyard function rm resize --yes"))
@click.argument("name", shell_complete=complete("function"))
@click.option("--id", "version", metavar="ID", help="Version.  [default: the newest]")
@add_yes
@add_project_options
def function_rm(name: str, version: str | None, yes: bool, **flags: Any) -> None:  # noqa: FBT001
    """Delete a version of the function NAME, with its tasks and runs."""
    _call("delete_function", flags, name=name, version=version, yes=yes)


@click.command(name="ls", epilog=format_epilog("runyard secret ls"))
@add_listing("name", "created", "by", more=("updated", "labels", "description"))
@add_project_options
def secret_ls(listing: Any, **flags: Any) -> None:
    """List the project's secrets, without their values."""
    _call("print_secrets", flags, listing=listing)


@click.command(
    name="set",
    epilog=format_epilog("runyard secret set HF_TOKEN", "pass show hf | runyard secret set HF_TOKEN --stdin"),
)
@click.argument("name", shell_complete=complete("secret"))
@click.option("--stdin", "is_piped", is_flag=True, help="Read the value from standard input instead of a prompt.")
@add_project_options
def secret_set(name: str, is_piped: bool, **flags: Any) -> None:  # noqa: FBT001
    """Store the secret NAME, or change its value. Runs name it in `secrets`."""
    _call("set_secret", flags, name=name, is_piped=is_piped)


@click.command(name="rm", epilog=format_epilog("runyard secret rm HF_TOKEN --yes"))
@click.argument("name", shell_complete=complete("secret"))
@add_yes
@add_project_options
def secret_rm(name: str, yes: bool, **flags: Any) -> None:  # noqa: FBT001
    """Delete the secret NAME and its value."""
    _call("delete_secret", flags, name=name, yes=yes)


def _call(function: str, flags: dict[str, Any], **more: Any) -> None:
    load(f"runyard.cli.project_things:{function}")(flags, **more)
