"""`runyard policy show`, `rehearse`, `apply` and `history`."""

from typing import Any

import click

from runyard.cli.help_texts import format_epilog
from runyard.cli.lazy_commands import load
from runyard.cli.listings import add_listing
from runyard.cli.rule_options import FILE_FORM, add_apply_options, add_rehearsal_options
from runyard.cli.server_options import add_output, add_server_options


@click.command(epilog=format_epilog("runyard policy show", "runyard policy show --revision 1 > old.yaml"))
@click.option(
    "--revision", type=click.IntRange(1), metavar="NUMBER", help="Revision, for admins.  [default: the newest]"
)
@add_output(*FILE_FORM)
@add_server_options
def show(revision: int | None, output: str, **flags: Any) -> None:
    """Show the policy of the server: the rules that admins set.

    By default as it was written, so that it can be changed and applied; `-o yaml` and `-o json` also have the built-in
    rules. Rules for single projects are shown to their members and to admins.
    """
    load("runyard.cli.stored_rules:print_policy")(flags, revision=revision, output=output)


@click.command(
    epilog=format_epilog(
        "runyard policy rehearse tighter.yaml --since 30d",
        "runyard policy rehearse --profiles next/ --project demo",
        "runyard policy rehearse none -o json | jq .counts",
        exit_codes="0 rehearsed, whatever the outcome    1 refused    2 usage error",
    )
)
@click.argument("file", required=False)
@click.option(
    "--profiles", multiple=True, type=click.Path(exists=True), help="Profiles instead of the server's. Repeatable."
)
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@add_rehearsal_options
def rehearse(file: str | None, profiles: tuple[str, ...], output: str, **given: Any) -> None:
    """Show what the policy FILE would change in runs of the past, and change nothing. For admins.

    The server resolves the newest runs again, with its rules and with these, and compares. FILE may be `none`, the
    built-in policy. With --profiles, and without FILE, the server's policy is used.
    """
    flags = {name: given.pop(name) for name in ("context", "endpoint")}
    load("runyard.cli.rule_changes:rehearse")(flags, file=file, profiles=profiles, output=output, **given)


@click.command(
    epilog=format_epilog(
        "runyard policy apply policy.yaml --dry-run",
        "runyard policy apply policy.yaml --since 30d --yes",
        "runyard policy show --revision 1 | runyard policy apply - --yes",
        exit_codes="0 applied, or unchanged    1 refused    2 usage error    130 the answer was no",
    )
)
@click.argument("file")
@add_apply_options
def apply(file: str, yes: bool, **given: Any) -> None:  # noqa: FBT001
    """Make FILE the policy of the server, for future runs. For admins.

    Shows which rules change, and rehearses runs of the past: what they would get, and which would be refused. Then it
    asks. If somebody else changed the policy meanwhile, nothing is applied. FILE may be `none`, which deletes the
    policy: the built-in rules remain.
    """
    flags = {name: given.pop(name) for name in ("context", "endpoint")}
    load("runyard.cli.rule_changes:apply_policy")(flags, file=file, yes=yes, **given)


@click.command(
    epilog=format_epilog(
        "runyard policy history",
        exit_codes="0 printed    1 refused, such as to users who are no admins    2 usage error",
    )
)
@add_listing("revision", "changed", "by", "fields", more=("time",))
@add_server_options
def history(listing: Any, **flags: Any) -> None:
    """List the revisions of the policy, newest first, with the rules that each changed. For admins."""
    load("runyard.cli.stored_rules:print_policy_history")(flags, listing=listing)
