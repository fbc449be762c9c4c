"""The end of a help text: examples and exit codes, in the one form that tests run and the reference prints.

Examples are shell lines that start in a folder with a `run.yaml`; a test runs each of them. A command whose examples
need a cluster names its own test there (tests/integration/core/test_help_examples.py).
"""

SUCCESS_OR_FAILURE = "0 success    1 failed    2 usage error"


def format_epilog(*examples: str, exit_codes: str = SUCCESS_OR_FAILURE) -> str:
    """The epilog of a command. The `\\b` lines keep click from wrapping the blocks."""
    lines = "\n".join(f"  {example}" for example in examples)
    codes = "\n".join(f"  {line}" for line in exit_codes.split("\n"))
    return f"\b\nExamples:\n{lines}\n\n\b\nExit codes:\n{codes}\n"
