"""The judge: rendered dictionaries against raw documents, by its own reading. Knows nothing of resolver or admission.

It fails closed: whatever it cannot read is a complaint.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.adversary.cases import Case
from tests.adversary.facts import Facts, Library
from tests.adversary.judge_amounts import iter_amount_complaints
from tests.adversary.judge_policy import iter_policy_complaints
from tests.adversary.judge_profile import iter_profile_complaints
from tests.adversary.judge_shape import iter_shape_complaints
from tests.adversary.judge_silence import Path, iter_silence_complaints
from tests.adversary.raw_asked import read_asked

_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError, AssertionError)


def judge_objects(objects: Sequence[Mapping[str, Any]], case: Case, library: Library) -> list[str]:
    """Everything that is wrong with sending these objects for this case; empty where nothing is."""
    world = library.world
    try:
        word = library.get_word(case)
        facts = _read_facts(objects, case)
        return [
            *iter_shape_complaints(facts, word, case, world),
            *iter_amount_complaints(facts, word),
            *iter_policy_complaints(facts, word, world),
            *iter_profile_complaints(facts, word, case, world),
        ]
    except _UNREADABLE as error:
        return [f"unreadable: {type(error).__name__}: {error}"]


def judge_silence(
    objects: Sequence[Mapping[str, Any]],
    case: Case,
    library: Library,
    *,
    warned: Sequence[Path],
    answer: Mapping[str, Any],
) -> list[str]:
    """Everything that users asked, that is not in the objects, and that no warning names.

    `warned` are the paths of the warnings. `answer` is the effective spec as the user sees it: it is read only for
    what no object holds, such as parameters.
    """
    try:
        facts = _read_facts(objects, case)
        return list(iter_silence_complaints(facts, library.get_word(case), case, warned=warned, answer=answer))
    except _UNREADABLE as error:
        return [f"unreadable: {type(error).__name__}: {error}"]


def _read_facts(objects: Sequence[Mapping[str, Any]], case: Case) -> Facts:
    platform = {"RUN_ID": case.run_id, "PROJECT_NAME": case.project}
    return Facts(objects, asked=read_asked(case.iter_layers()), platform=platform, is_anchor=case.is_anchor)
