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
from tests.adversary.raw import snake

_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError, AssertionError)


def judge_objects(objects: Sequence[Mapping[str, Any]], case: Case, library: Library, *, namespace: str) -> list[str]:
    """Everything that is wrong with sending these objects for this case; empty where nothing is."""
    world = library.world
    try:
        word = library.get_word(case)
        asked = {snake(key) for layer in case.iter_layers() for key, value in layer.items() if value is not None}
        platform = {"RUN_ID": case.run_id, "PROJECT_NAME": case.project}
        facts = Facts(objects, asked=frozenset(asked), platform=platform)
        return [
            *iter_shape_complaints(facts, word, case, world, namespace),
            *iter_amount_complaints(facts, word),
            *iter_policy_complaints(facts, word, world),
            *iter_profile_complaints(facts, word, case, world),
        ]
    except _UNREADABLE as error:
        return [f"unreadable: {type(error).__name__}: {error}"]
