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

_CORRECTIONS = {
    # Loaded from fpath, click's script completes nothing when it is called for the second time.
    "zsh": (("$zsh_eval_context[-1] == loadautofunc", "$funcstack[1] == _runyard"),),
    # It cuts descriptions at their first comma.
    "fish": (('string split ","', 'string split --max 1 ","'),),
}
"""Mistakes in the scripts of click 8.3; tests/e2e/test_shell_completion.py shows them."""


@click.command(epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), metavar="SHELL")
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell."""
    shell_class = get_completion_class(shell)
    if shell_class is None:
        raise click.UsageError(f"this version of click does not support completion for {shell}")
    root = ctx.find_root()
    # The variable that click reads when the program is called `runyard`.
    script = shell_class(root.command, {}, "runyard", "_RUNYARD_COMPLETE").source()
    for wrong, right in _CORRECTIONS.get(shell, ()):
        script = script.replace(wrong, right)
    click.echo(script)
