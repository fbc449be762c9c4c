"""The command line reference is generated, and exit codes have one meaning each."""

import re

from runyard.cli.main import EXIT_CODES, INTERRUPTED, PIPE_CLOSED
from tests.command_tree import iter_commands
from tests.unit.architecture.cli_page import PAGE, render_page


def test_reference_is_up_to_date_when_compared_with_the_commands() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_page(), "run `make docs`"


def test_reference_has_every_command_and_option_when_written() -> None:
    page = render_page()
    for listed in iter_commands():
        assert listed.name == "runyard" or f"\n## {listed.name}\n" in page
        for param in listed.command.params:
            assert param.param_type_name == "argument" or param.opts[-1] in page


def test_exit_codes_of_commands_are_documented_ones_when_listed() -> None:
    found = {code.split()[0] for listed in iter_commands() for code in listed.exit_codes}
    assert {code for code in found if re.fullmatch(r"\d+", code)} <= {str(code) for code in EXIT_CODES}
    assert {INTERRUPTED, PIPE_CLOSED} <= set(EXIT_CODES)
