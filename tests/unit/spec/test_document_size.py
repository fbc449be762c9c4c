from runyard.spec.document_size import check_values
from tests.unit.spec.refusals import find_problem


def test_document_is_refused_when_nested_values_are_too_many() -> None:
    check_values({"a": [1, 2]}, most=4)
    problem = find_problem(lambda document: check_values(document, most=3), {"a": [1, 2]})
    assert (problem.code, problem.allowed) == ("size.values", "at most 3, nested ones included")
