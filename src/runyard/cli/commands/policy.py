"""`runyard policy`."""

import click

from runyard.cli.lazy_commands import Entry, LazyGroup

ENTRIES = {
    "check": Entry("runyard.cli.commands.policy_check:check", "Read a policy and say all that is wrong or doubtful."),
    "diff": Entry("runyard.cli.commands.policy_diff:diff", "Play recorded runs against another policy."),
}


@click.group(cls=LazyGroup, entries=ENTRIES)
def policy() -> None:
    """Check a policy; rehearse a new one against recorded runs."""
