"""`runyard policy`."""

import click

from runyard.cli.lazy_commands import Entry, LazyGroup

ENTRIES = {
    "check": Entry("runyard.cli.commands.policy_check:check", "Check a policy file for errors and likely mistakes."),
    "diff": Entry("runyard.cli.commands.policy_diff:diff", "Compare two policies against recorded runs."),
}


@click.group(cls=LazyGroup, entries=ENTRIES)
def policy() -> None:
    """Check a policy, or compare two policies against recorded runs."""
