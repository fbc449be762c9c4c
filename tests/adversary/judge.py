"""The judge: compares rendered dictionaries with raw documents. Independent of resolver and admission.

Fails closed: anything that it cannot read is a complaint.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.adversary.cases import Case
from tests.adversary.facts import AdminDocuments, Facts
from tests.adversary.judge_amounts import iter_amount_complaints
from tests.adversary.judge_policy import iter_policy_complaints
from tests.adversary.judge_profile import iter_profile_complaints
from tests.adversary.judge_shape import iter_shape_complaints
from tests.adversary.judge_silence import Path, iter_silence_complaints
from tests.adversary.platform_access import make_platform_variables, take_tokens_out
from tests.adversary.raw_requests import read_requested

_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError, AssertionError)


def judge_objects(objects: Sequence[Mapping[str, Any]], case: Case, documents: AdminDocuments) -> list[str]:
    """List every reason not to send these objects for this case."""
    try:
        return _judge_facts(_read_facts(objects, case, documents), case, documents)
    except _UNREADABLE as error:
        return [f"unreadable: {type(error).__name__}: {error}"]


def judge_run(
    objects: Sequence[Mapping[str, Any]],
    case: Case,
    documents: AdminDocuments,
    *,
    warned: Sequence[Path],
    answer: Mapping[str, Any],
) -> list[str]:
    """`judge_objects` and `judge_silence`, with the objects read once."""
    try:
        facts = _read_facts(objects, case, documents)
        admin = documents.get_admin_inputs(case)
        silence = iter_silence_complaints(facts, admin, case, documents.world, warned=warned, answer=answer)
        return [*_judge_facts(facts, case, documents), *silence]
    except _UNREADABLE as error:
        return [f"unreadable: {type(error).__name__}: {error}"]


def _judge_facts(facts: Facts, case: Case, documents: AdminDocuments) -> list[str]:
    world, admin = documents.world, documents.get_admin_inputs(case)
    return [
        *iter_shape_complaints(facts, admin, case, world),
        *iter_amount_complaints(facts, admin),
        *iter_policy_complaints(facts, admin, world),
        *iter_profile_complaints(facts, admin, case, world),
    ]


def judge_silence(
    objects: Sequence[Mapping[str, Any]],
    case: Case,
    documents: AdminDocuments,
    *,
    warned: Sequence[Path],
    answer: Mapping[str, Any],
) -> list[str]:
    """List everything that users asked for that is neither in the objects nor named by a warning.

    `warned` are the paths of the warnings. `answer` is the effective spec as the user sees it: it is read only for
    what no object holds, such as parameters.
    """
    try:
        facts = _read_facts(objects, case, documents)
        return list(
            iter_silence_complaints(
                facts, documents.get_admin_inputs(case), case, documents.world, warned=warned, answer=answer
            )
        )
    except _UNREADABLE as error:
        return [f"unreadable: {type(error).__name__}: {error}"]


def _read_facts(objects: Sequence[Mapping[str, Any]], case: Case, documents: AdminDocuments) -> Facts:
    platform = make_platform_variables(case, documents.world.namespaces[case.project])
    judged = take_tokens_out(objects) if case.is_anchor else objects
    return Facts(judged, asked=read_requested(case.iter_layers()), platform=platform, is_anchor=case.is_anchor)
