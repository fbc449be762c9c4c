"""What a termination message says."""

from typing import Any

import pytest

from runyard.pods.termination import find_failed_step, read_termination


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, (None, None)),
        ("  \n", (None, None)),
        ("plain", ("plain", None)),
        ("[" * 2000, ("[" * 2000, None)),
        ('{"other": 1}', ('{"other": 1}', None)),
        ('{"runyard": 1, "message": 5, "peak_bytes": -1}', (None, None)),
        ('{"runyard": 1, "message": "m", "peak_bytes": true}', ("m", None)),
        ('{"runyard": 1, "message": "m", "peak_bytes": ' + "9" * 4000 + "}", ("m", None)),
    ],
)
def test_termination_is_read_with_care_when_a_program_wrote_it(text: str | None, expected: Any) -> None:
    assert read_termination(text) == expected


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ('{"runyard": 1, "step": "requirements", "message": "m"}', "requirements"),
        ('{"runyard": 1, "step": "memory.exceeded"}', None),
        ('{"step": "requirements"}', None),
        ("requirements", None),
        (None, None),
    ],
)
def test_step_is_told_when_the_launcher_names_one_that_is_known(text: str | None, step: str | None) -> None:
    assert find_failed_step(text) == step
