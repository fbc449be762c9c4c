"""`runyard policy`."""

import click

from runyard.cli.help_texts import format_epilog
from runyard.cli.lazy_commands import Entry, LazyGroup

_SERVER = "runyard.cli.commands.policy_server"
ENTRIES = {
    "show": Entry(f"{_SERVER}:show", "Show the policy of the server."),
    "check": Entry("runyard.cli.commands.policy_check:check", "Check a policy file for errors and likely mistakes."),
    "rehearse": Entry(f"{_SERVER}:rehearse", "Show what a policy would change in runs of the past."),
    "apply": Entry(f"{_SERVER}:apply", "Make a file the policy, after a rehearsal."),
    "history": Entry(f"{_SERVER}:history", "List the revisions of the policy."),
    "diff": Entry("runyard.cli.commands.policy_diff:diff", "Compare two policies against recorded runs."),
}


@click.group(
    cls=LazyGroup,
    entries=ENTRIES,
    epilog=format_epilog("runyard policy show", "runyard policy rehearse tighter.yaml --since 30d"),
)
def policy() -> None:
    """Show the policy; as an admin, check, rehearse and change it.

    `check` and `diff` work without a server.
    """
