"""`runyard completion`."""

import click
from click.shell_completion import get_completion_class

EXAMPLES = """\b
Examples:
  source <(runyard completion bash)
  runyard completion bash > ~/.local/share/bash-completion/completions/runyard
  runyard completion zsh > ~/.zfunc/_runyard
  runyard completion fish > ~/.config/fish/completions/runyard.fish

\b
Exit codes:
  0 printed    2 usage error
"""


@click.command(epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell."""
    shell_class = get_completion_class(shell)
    if shell_class is None:
        raise click.UsageError(f"this version of click does not support completion for {shell}")
    root = ctx.find_root()
    # The variable that click reads when the program is called `runyard`.
    click.echo(shell_class(root.command, {}, "runyard", "_RUNYARD_COMPLETE").source())
