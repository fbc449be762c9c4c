from copy import deepcopy
from typing import Any

import pytest

from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.resources import Sides, read_admin_resources, read_resources
from tests.unit.spec.refusals import find_problem, find_problems


def _sides(*, request: str | None = None, limit: str | None = None) -> Sides:
    return Sides(
        requests=None if request is None else Quantity.parse(request),
        limits=None if limit is None else Quantity.parse(limit),
    )


@pytest.mark.parametrize(
    ("given", "request_", "limit"),
    [
        ("8", "8", None),
        (8, "8", None),
        ("500m", "500m", None),
        ("0.5", "500m", None),
        (0.5, "500m", None),
        (".5", "500m", None),
        ("1e1", "10", None),
        (0, "0", None),
        ({"requests": "10", "limits": "12"}, "10", "12"),
        ({"requests": 8}, "8", None),
        ({"limits": "2"}, None, "2"),
        ({"requests": "1", "limits": "1000m"}, "1", "1"),
        ({"requests": None, "limits": 2}, None, "2"),
    ],
)
def test_cpu_is_read_when_it_is_written_in_any_form(given: Any, request_: str | None, limit: str | None) -> None:
    assert read_resources({"cpu": given}) == {"cpu": _sides(request=request_, limit=limit)}


@pytest.mark.parametrize(
    ("given", "request_", "limit"),
    [
        ("32Gi", "32Gi", None),
        (34359738368, "32Gi", None),
        ("32G", "32G", None),
        ({"requests": "32Gi"}, "32Gi", None),
        ({"limits": "64Gi"}, None, "64Gi"),
        ({"requests": "32Gi", "limits": "64Gi"}, "32Gi", "64Gi"),
    ],
)
def test_memory_is_read_when_it_is_written_in_any_form(given: Any, request_: str | None, limit: str | None) -> None:
    assert read_resources({"mem": given}) == {"mem": _sides(request=request_, limit=limit)}


@pytest.mark.parametrize(
    "given", ["1", 1, 1.0, "1000m", {"limits": "1"}, {"requests": 1}, {"requests": 1, "limits": "1"}]
)
def test_gpu_is_one_amount_when_it_is_written_in_any_form(given: Any) -> None:
    assert read_resources({"gpu": given}) == {"gpu": _sides(limit="1")}


@pytest.mark.parametrize(
    "given", ["10Gi", {"limits": "10Gi"}, {"requests": "10Gi"}, {"requests": "10Gi", "limits": "10Gi"}]
)
def test_disk_is_one_amount_when_it_is_written_in_any_form(given: Any) -> None:
    assert read_resources({"disk": given}) == {"disk": _sides(limit="10Gi")}


def test_forms_may_differ_when_several_resources_are_asked_for() -> None:
    read = read_resources({"cpu": "8", "mem": {"requests": "32Gi"}, "gpu": {"limits": "1"}, "disk": "10Gi"})

    assert read == {
        "cpu": _sides(request="8"),
        "mem": _sides(request="32Gi"),
        "gpu": _sides(limit="1"),
        "disk": _sides(limit="10Gi"),
    }


def test_both_forms_of_one_resource_complete_each_other_when_an_admin_mixes_them() -> None:
    read = read_admin_resources({"cpu": "8", "limits": {"cpu": "12", "memory": "64Gi"}, "mem": {"requests": "32Gi"}})

    assert read == {"cpu": _sides(request="8", limit="12"), "mem": _sides(request="32Gi", limit="64Gi")}


@pytest.mark.parametrize("given", [{}, {"cpu": None}, {"cpu": None, "gpu": None}])
def test_nothing_is_asked_when_everything_is_blank(given: Any) -> None:
    assert read_resources(given) == {}


@pytest.mark.parametrize("amount", ["0.5", "1500m", 1.5, "1n"])
def test_gpu_is_refused_when_it_is_not_whole(amount: Any) -> None:
    problem = find_problem(read_resources, {"gpu": amount})

    assert (problem.code, problem.where) == ("resources.whole", "gpu")
    assert problem.suggestion in ("1", "2")


@pytest.mark.parametrize("name", ["gpu", "disk"])
def test_one_amount_is_refused_when_requests_and_limits_differ(name: str) -> None:
    assert find_problem(read_resources, {name: {"requests": 1, "limits": 2}}).code == "resources.sides"


@pytest.mark.parametrize("asked", [{"mem": 0}, {"mem": {"limits": "0"}}, {"cpu": {"requests": 0, "limits": 0}}])
def test_a_bound_of_nothing_is_refused_when_kubernetes_takes_it_for_none(asked: dict[str, Any]) -> None:
    assert find_problem(read_resources, asked).code == "resources.zero"


def test_disk_is_refused_when_it_has_no_size() -> None:
    assert find_problem(read_resources, {"disk": "0"}).code == "resources.zero"


@pytest.mark.parametrize(
    ("name", "request_", "limit"),
    [("cpu", "2", "1"), ("cpu", "1", "999m"), ("mem", "1Gi", "1G"), ("mem", "1Gi", "1073741823")],
)
def test_a_layer_is_refused_when_its_limit_is_below_its_request(name: str, request_: str, limit: str) -> None:
    problem = find_problem(read_resources, {name: {"requests": request_, "limits": limit}})

    assert (problem.code, problem.where) == ("resources.limit_below_request", name)
    assert request_ in (problem.suggestion or "")


def test_an_admins_layer_is_refused_when_its_limit_is_below_its_request() -> None:
    problem = find_problem(read_admin_resources, {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}})

    assert problem.code == "resources.limit_below_request"


@pytest.mark.parametrize(
    ("given", "code", "suggestion"),
    [
        ("-1", "quantity.negative", None),
        (-0.5, "quantity.negative", None),
        ("", "quantity.invalid", None),
        ("lots", "quantity.invalid", None),
        ("8 Gi", "quantity.invalid", "8Gi"),
        ("32gb", "quantity.invalid", "32Gi"),
        ("1,5", "quantity.invalid", "1.5"),
        (True, "quantity.invalid", None),
        (float("nan"), "quantity.invalid", None),
        (float("inf"), "quantity.invalid", None),
        (["8"], "quantity.invalid", None),
        ("１６Gi", "quantity.invalid", "16Gi"),
        ("0x10", "quantity.invalid", None),
        ("8;rm", "quantity.invalid", None),
        ("1000E", "quantity.large", None),
        ("1e30", "quantity.large", None),
        ("1e20000", "quantity.large", None),
        (2**63, "quantity.large", None),
    ],
)
@pytest.mark.parametrize("name", ["mem", "disk"])
def test_an_amount_is_refused_when_it_is_no_amount(name: str, given: Any, code: str, suggestion: str | None) -> None:
    problem = find_problem(read_resources, {name: given})

    assert (problem.code, problem.where, problem.suggestion) == (code, name, suggestion)
    assert problem.allowed


def test_an_amount_is_refused_when_python_itself_cannot_write_it() -> None:
    assert find_problem(read_resources, {"mem": 10**5000}).code == "quantity.large"


@pytest.mark.parametrize("name", ["cpu", "gpu"])
@pytest.mark.parametrize("given", [2**31, "1T", "100P"])
def test_a_count_is_refused_when_kubernetes_could_not_count_its_thousandths(name: str, given: Any) -> None:
    assert find_problem(read_resources, {name: given}).code == "quantity.large"


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("memory", "mem"),
        ("Memory", "mem"),
        ("ram", "mem"),
        ("cpus", "cpu"),
        ("CPU", "cpu"),
        ("gpus", "gpu"),
        ("storage", "disk"),
        ("nvidia.com/gpu", "gpu"),
        ("bananas", None),
        ("__proto__", None),
    ],
)
def test_a_resource_is_refused_with_the_nearest_when_it_is_unknown(name: str, suggestion: str | None) -> None:
    problem = find_problem(read_resources, {name: "1"})

    assert (problem.code, problem.path, problem.suggestion) == ("resources.unknown", (name,), suggestion)
    assert problem.allowed == "cpu, mem, gpu, disk"


@pytest.mark.parametrize(("side", "suggestion"), [("reqests", "requests"), ("Limit", "limits"), ("maximum", None)])
def test_a_side_is_refused_with_the_nearest_when_it_is_unknown(side: str, suggestion: str | None) -> None:
    problem = find_problems(read_resources, {"cpu": {side: 1}})[f"cpu.{side}"]

    assert (problem.code, problem.suggestion, problem.allowed) == ("field.unknown", suggestion, "requests, limits")


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({}, ()),
        ({"mem": {}}, ("mem",)),
        ({"mem": {"requests": None}}, ("mem",)),
        ({"mem": {"requests": None, "limits": None}}, ("mem",)),
        ({"limits": {}}, ("limits",)),
    ],
)
def test_an_empty_object_is_noted_with_its_likely_cause_when_it_sets_no_amount(
    given: Any, path: tuple[str, ...]
) -> None:
    read = read_resources(given)

    assert read == {}
    assert [(note.code, note.path) for note in read.notes] == [("resources.empty", path)]
    name = path[-1] if path else "resources"
    assert read.notes[0].message == (
        f"`{name}` is empty and has no effect; some clients drop names that they do not know"
    )
    assert read.notes[0].allowed == "cpu, mem (not memory), gpu, disk; each an amount, or requests and limits"


@pytest.mark.parametrize("given", [{"cpu": None}, {"cpu": 1, "mem": None}])
def test_nothing_is_noted_when_a_resource_is_null(given: Any) -> None:
    assert read_resources(given).notes == ()


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"cpu": {"request": 1, "limits": 2}}, ("cpu", "request")),
        ({"cpu": {"requests": 1, "limit": 2}}, ("cpu", "limit")),
        ({"request": {"cpu": 1}, "limits": {"cpu": 2}}, ("request",)),
    ],
)
def test_the_other_spelling_of_a_side_is_read_with_a_note_when_it_is_used(given: Any, path: tuple[str, ...]) -> None:
    read = read_resources(given)

    assert read == {"cpu": _sides(request="1", limit="2")}
    assert [(note.code, note.path, note.suggestion) for note in read.notes] == [
        ("field.spelling", path, f"{path[-1]}s"),
    ]
    assert read.notes[0].message == f"`{path[-1]}` is read as `{path[-1]}s`, the spelling that is used everywhere else"


def test_a_side_is_refused_when_it_is_set_in_both_spellings() -> None:
    problem = find_problem(read_resources, {"cpu": {"requests": 1, "request": 1}})

    assert (problem.code, problem.path) == ("field.twice", ("cpu", "request"))


def test_a_side_is_refused_at_the_path_as_written_when_its_amount_is_invalid() -> None:
    assert find_problem(read_resources, {"cpu": {"limit": "many"}}).path == ("cpu", "limit")


def test_sides_are_bounded_when_a_client_sends_many_keys() -> None:
    assert find_problem(read_resources, {"cpu": {f"k{index}": 1 for index in range(257)}}).code == "size.entries"


@pytest.mark.parametrize("given", [[], "8", 8, True, [{"cpu": 1}]])
def test_resources_are_refused_when_they_are_no_mapping(given: Any) -> None:
    assert find_problem(read_resources, given).code == "type.mapping"


def test_resources_are_refused_when_a_key_is_no_text() -> None:
    assert find_problem(read_resources, {1: 2}).code == "type.key"


def test_every_problem_is_told_when_there_are_several() -> None:
    given = {"cpu": "many", "mem": {"requests": "2Gi", "limits": "1Gi"}, "gpu": 0.5, "dsk": 1, "disk": {"limits": -1}}

    problems = find_problems(read_resources, given)

    assert {where: problem.code for where, problem in problems.items()} == {
        "cpu": "quantity.invalid",
        "mem": "resources.limit_below_request",
        "gpu": "resources.whole",
        "dsk": "resources.unknown",
        "disk.limits": "quantity.negative",
    }


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "ephemeral-storage", "hugepages-2Mi", "example.com/nic"])
def test_a_user_is_refused_when_asking_by_kubernetes_names(name: str) -> None:
    problem = find_problem(read_resources, {"limits": {name: 1}})

    assert (problem.code, problem.path) == ("resources.unknown", ("limits", name))


def test_an_admin_asks_by_kubernetes_names_when_a_profile_is_written_as_digitalhub_writes_it() -> None:
    read = read_admin_resources(
        {
            "requests": {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "2Gi", "nvidia.com/gpu": 1},
            "limits": {"cpu": 12, "memory": "64Gi", "nvidia.com/gpu": "1"},
        }
    )

    assert read == {
        "cpu": _sides(request="8", limit="12"),
        "mem": _sides(request="32Gi", limit="64Gi"),
        "ephemeral-storage": _sides(request="2Gi"),
        "nvidia.com/gpu": _sides(request="1", limit="1"),
    }


def test_an_amount_may_be_said_twice_when_it_is_the_same() -> None:
    assert read_admin_resources({"mem": "1Gi", "requests": {"memory": "1024Mi"}}) == {"mem": _sides(request="1Gi")}


@pytest.mark.parametrize("second", ["2Gi", "512Mi"])
def test_an_amount_is_refused_when_it_is_said_twice_and_differs(second: str) -> None:
    problem = find_problem(read_admin_resources, {"mem": "1Gi", "requests": {"memory": second}})

    assert (problem.code, problem.where) == ("resources.twice", "requests.memory")


@pytest.mark.parametrize(
    "name", ["a b/c", "/gpu", "example.com/", "Example.com/x", "-x", "storage", "pods", "whatever"]
)
def test_an_admins_resource_is_refused_when_no_container_can_have_it(name: str) -> None:
    problem = find_problem(read_admin_resources, {"limits": {name: 1}})

    assert (problem.code, problem.path) == ("resources.name", ("limits", name))


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"limits": {"example.com/nic": "500m"}}, "resources.whole"),
        ({"requests": {"example.com/nic": "1"}, "limits": {"example.com/nic": "2"}}, "resources.sides"),
    ],
)
def test_an_admins_device_is_refused_when_kubernetes_would_not_count_it(given: Any, code: str) -> None:
    problem = find_problem(read_admin_resources, given)

    assert (problem.code, problem.path) == (code, ("example.com/nic",))


def test_what_was_given_stays_as_it_was_when_it_is_read() -> None:
    given = {"cpu": {"requests": "1", "limits": 2}, "gpu": "1"}
    before = deepcopy(given)

    read = read_resources(given)

    assert given == before
    with pytest.raises(TypeError):
        read["cpu"] = Sides()  # type: ignore[index]  # that it cannot be changed is the point
