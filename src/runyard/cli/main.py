"""The root of the `runyard` command."""

import click

from runyard import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="runyard", message="%(prog)s %(version)s")
def main() -> None:
    """Run AI tasks on Kubernetes with exactly the resources they need."""
