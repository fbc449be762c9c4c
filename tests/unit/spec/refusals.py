from collections.abc import Callable
from typing import Any

import pytest

from runyard.spec.problems import Problem, Refused


def find_problems(read: Callable[[Any], object], given: Any) -> dict[str, Problem]:
    """The problems that a reader reports, by path; fails if it reports none."""
    with pytest.raises(Refused) as refused:
        read(given)
    return {problem.where: problem for problem in refused.value.problems}


def find_problem(read: Callable[[Any], object], given: Any) -> Problem:
    """The only problem that a reader reports."""
    problems = find_problems(read, given)
    assert len(problems) == 1, problems
    return next(iter(problems.values()))
