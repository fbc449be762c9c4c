from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from pydantic import ValidationError

from runyard.spec.problems import Problem, Refused
from runyard.spec.run_fields import ADMIN_FIELDS, USER_FIELDS, read_admin_fields, read_run_fields
from tests.unit.spec.refusals import find_problem, find_problems

IDENTITIES = ("fs_group", "run_as_user", "run_as_group")
DURATIONS = ("timeout", "pending_timeout", "ttl", "grace_period")


def _refuse(name: str, given: Any) -> Problem:
    return find_problem(read_run_fields, {name: given})


@pytest.mark.parametrize("name", IDENTITIES)
@pytest.mark.parametrize("given", [1000, "1000", 1000.0, "+1000", "01000"])
def test_an_identity_is_read_when_it_is_a_number_or_numeric_text(name: str, given: Any) -> None:
    assert getattr(read_run_fields({name: given}), name) == 1000


@pytest.mark.parametrize("name", IDENTITIES)
@pytest.mark.parametrize("given", [0, "0", "00", "+0", "-0", 0.0, -0.0])
def test_an_identity_is_refused_as_root_when_it_is_zero(name: str, given: Any) -> None:
    problem = _refuse(name, given)

    assert (problem.code, problem.where) == ("identity.root", name)
    assert "root" in problem.message


@pytest.mark.parametrize("name", IDENTITIES)
@pytest.mark.parametrize(
    "given",
    [-1, "-1", 2**31, 2**63, "99999999999999999999", "1e3", "0x10", 1.5, True, False, "", "root", [1], {}, "１０"],
)
def test_an_identity_is_refused_when_it_is_no_user_or_group(name: str, given: Any) -> None:
    problem = _refuse(name, given)

    assert (problem.where, problem.allowed) == (name, "a whole number from 1 to 2147483647")


@pytest.mark.parametrize("name", [*IDENTITIES, "replicas", "backoff_limit", "timeout"])
def test_a_number_is_refused_when_python_itself_cannot_write_it(name: str) -> None:
    assert _refuse(name, 10**5000).where == name
    assert _refuse(name, [10**5000]).where == name


@pytest.mark.parametrize("name", DURATIONS)
@pytest.mark.parametrize(
    ("given", "seconds"),
    [("90s", 90), ("15m", 900), ("2h", 7200), ("7d", 604_800), ("1w", 604_800), ("1h30m", 5400), (90, 90), ("90", 90)],
)
def test_a_duration_is_read_when_people_write_it(name: str, given: Any, seconds: int) -> None:
    assert getattr(read_run_fields({name: given}), name) == seconds


@pytest.mark.parametrize("name", DURATIONS)
@pytest.mark.parametrize(
    ("given", "suggestion"),
    [
        ("2 hours", "2h"),
        ("1.5h", "90m"),
        (1.5, None),
        ("soon", None),
        (0, "1s"),
        ("-1h", "1s"),
        (True, None),
        ([], None),
    ],
)
def test_a_duration_is_refused_with_the_nearest_when_it_is_none(name: str, given: Any, suggestion: str | None) -> None:
    problem = _refuse(name, given)

    assert (problem.code, problem.where, problem.suggestion) == ("duration.invalid", name, suggestion)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("sh", ("sh",)),
        ("a program with spaces", ("a program with spaces",)),
        (["python", "train.py"], ("python", "train.py")),
        (["sleep", 3600, 0.5, True], ("sleep", "3600", "0.5", "true")),
        ([], ()),
    ],
)
def test_a_command_is_read_when_it_is_one_word_or_several(given: Any, expected: tuple[str, ...]) -> None:
    assert read_run_fields({"command": given}).command == expected


@pytest.mark.parametrize(
    ("given", "where"), [({}, "command"), ("", "command"), ([[]], "command[0]"), (["a", None], "command[1]")]
)
def test_a_command_is_refused_when_it_is_no_words(given: Any, where: str) -> None:
    assert _refuse("command", given).where == where


def test_args_are_refused_when_they_are_one_text() -> None:
    assert _refuse("args", "-c 'echo hi'").code == "type.list"


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("profile", "1xa100", "1xa100"),
        ("profile", "", None),
        ("runtime_class", "nvidia", "nvidia"),
        ("priority_class", "batch-low", "batch-low"),
        (
            "image",
            "registry.example.org:5000/a/b:1@sha256:" + "0" * 64,
            "registry.example.org:5000/a/b:1@sha256:" + "0" * 64,
        ),
        ("image_pull_policy", "IfNotPresent", "IfNotPresent"),
        ("working_dir", "/app", "/app"),
        ("replicas", 0, 0),
        ("replicas", "3", 3),
        ("backoff_limit", 0, 0),
        ("disruptions", "count", "count"),
        ("service_type", "ClusterIP", "ClusterIP"),
        ("service_name", "svc1", "svc1"),
        ("readiness_path", "/healthz", "/healthz"),
        ("parameters", {"x": 41, "y": [1, {"z": None}]}, {"x": 41, "y": [1, {"z": None}]}),
        ("inputs", {"data": "store://p/dataitem/table/d"}, {"data": "store://p/dataitem/table/d"}),
        ("init_parameters", {}, {}),
        ("python_version", "PYTHON3_11", "PYTHON3_11"),
        ("source", {"source": "main.py", "handler": "main:run"}, {"source": "main.py", "handler": "main:run"}),
        ("requirements", ["numpy", "torch>=2"], ("numpy", "torch>=2")),
        ("tolerations", [{"key": "a", "operator": "Exists"}], [{"key": "a", "operator": "Exists"}]),
        (
            "tolerations",
            [{"key": "a", "operator": "Exists", "effect": "NoExecute", "toleration_seconds": 3}],
            [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}],
        ),
        (
            "affinity",
            {"node_affinity": {"preferred_during_scheduling_ignored_during_execution": []}},
            {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        ),
    ],
)
def test_a_field_is_read_when_it_is_written_well(name: str, given: Any, expected: Any) -> None:
    assert getattr(read_run_fields({name: given}), name) == expected


@pytest.mark.parametrize(
    ("name", "given", "suggestion"),
    [
        ("profile", "a b", None),
        ("profile", 3, None),
        ("runtime_class", "Not A Class", None),
        ("priority_class", "", None),
        ("image", "two words", None),
        ("image", "bild:ä", None),
        ("image", "", None),
        ("image_pull_policy", "always", "Always"),
        ("image_pull_policy", "IfNotPresnt", "IfNotPresent"),
        ("replicas", -1, None),
        ("replicas", 1001, None),
        ("replicas", True, None),
        ("backoff_limit", 101, None),
        ("disruptions", "ignored", "ignore"),
        ("service_type", "clusterip", "ClusterIP"),
        ("parameters", [1], None),
        ("parameters", {1: 2}, None),
        ("python_version", "3.11", "PYTHON3_11"),
        ("python_version", "3.11.7", "PYTHON3_11"),
        ("python_version", "PYTHON3_9", "PYTHON3_10"),
        ("python_version", "PYTHON3_99", "PYTHON3_14"),
        ("python_version", "python3.12", "PYTHON3_12"),
        ("python_version", 3.11, "PYTHON3_11"),
        ("source", "main.py", None),
    ],
)
def test_a_field_is_refused_with_the_nearest_when_it_is_wrong(name: str, given: Any, suggestion: str | None) -> None:
    problem = _refuse(name, given)

    assert (problem.where, problem.suggestion) == (name, suggestion)


@pytest.mark.parametrize("name", USER_FIELDS)
def test_a_field_is_blank_when_it_is_null(name: str) -> None:
    assert read_run_fields({name: None}) == read_run_fields({})


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("fsGroup", "fs_group"),
        ("runAsUser", "run_as_user"),
        ("nodeSelector", "node_selector"),
        ("backoffLimit", "backoff_limit"),
    ],
)
def test_a_field_is_read_when_its_name_is_camel_case(written: str, name: str) -> None:
    given: Any = {"a": "b"} if name == "node_selector" else 5

    assert getattr(read_run_fields({written: given}), name) == given


def test_problems_are_told_where_the_user_wrote_when_names_are_camel_case() -> None:
    problems = find_problems(read_run_fields, {"fsGroup": "x", "nodeSelector": [{"key": "a", "value": "b c"}]})

    assert set(problems) == {"fsGroup", "nodeSelector[0].value"}


def test_a_field_is_refused_when_it_stands_in_both_spellings() -> None:
    problem = find_problem(read_run_fields, {"fs_group": 1, "fsGroup": 1})

    assert (problem.code, problem.where) == ("field.twice", "fsGroup")


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("env", "envs"),
        ("resource", "resources"),
        ("runtimeClassName", "runtime_class"),
        ("priorityClassName", "priority_class"),
        ("volume", "volumes"),
        ("secret", "secrets"),
        ("toleration", "tolerations"),
        ("image_pull_polcy", "image_pull_policy"),
        ("hostNetwork", None),
        ("privileged", None),
        ("__class__", None),
        ("model_config", None),
        ("security_context", None),
    ],
)
def test_a_field_is_refused_with_the_nearest_when_it_is_unknown(name: str, suggestion: str | None) -> None:
    problem = find_problem(read_run_fields, {name: "x"})

    assert (problem.code, problem.where, problem.suggestion) == ("field.unknown", name, suggestion)
    assert "resources" in (problem.allowed or "")


@pytest.mark.parametrize("name", sorted(set(ADMIN_FIELDS) - set(USER_FIELDS)))
def test_a_user_is_refused_when_a_field_is_only_the_admins(name: str) -> None:
    assert find_problems(read_run_fields, {name: "x"})[name].code == "field.unknown"


def test_all_fields_of_the_issue_can_be_asked_for_when_a_user_writes_a_run() -> None:
    assert set(USER_FIELDS) >= {
        *(
            "resources",
            "node_selector",
            "tolerations",
            "affinity",
            "runtime_class",
            "priority_class",
            "volumes",
            "secrets",
        ),
        *("envs", "fs_group", "run_as_user", "run_as_group", "profile", "replicas", "service_ports", "service_type"),
        *("service_name", "readiness_path", "args", "parameters", "inputs", "image", "command", "image_pull_policy"),
        *("backoff_limit", "timeout", "pending_timeout", "ttl"),
    }


@pytest.mark.parametrize(
    ("name", "given", "wheres"),
    [
        ("requirements", ["a", 3, "", "b"], {"requirements[1]", "requirements[2]"}),
        ("args", ["a", [], {}], {"args[1]", "args[2]"}),
        ("volumes", [{}, {}], {f"volumes[{i}].{key}" for i in (0, 1) for key in ("volume_type", "name", "mount_path")}),
        (
            "tolerations",
            [{"keey": "a", "operator": "Exists"}, {"key": 3}],
            {"tolerations[0].keey", "tolerations[1].key"},
        ),
    ],
)
def test_every_entry_is_told_when_several_are_wrong(name: str, given: Any, wheres: set[str]) -> None:
    assert set(find_problems(read_run_fields, {name: given})) >= wheres


@pytest.mark.parametrize(
    ("name", "given", "wheres"),
    [
        ("image_pull_secrets", ["ok", "Not Ok", 3], {"image_pull_secrets[1]", "image_pull_secrets[2]"}),
        (
            "host_aliases",
            [{"ip": "10.0.0.1"}, {"ip": "x", "hostnames": ["A_b", 3]}, "y"],
            {
                "host_aliases[0]",
                "host_aliases[1].ip",
                "host_aliases[1].hostnames[0]",
                "host_aliases[1].hostnames[1]",
                "host_aliases[2]",
            },
        ),
        ("labels", [{"name": "a b", "value": "x y"}], {"labels[0].name", "labels[0].value"}),
        ("service_account", "A B", {"service_account"}),
        ("scheduler_name", "", {"scheduler_name"}),
    ],
)
def test_every_entry_is_told_when_an_admins_are_wrong(name: str, given: Any, wheres: set[str]) -> None:
    assert set(find_problems(read_admin_fields, {name: given})) == wheres


def test_an_admins_fields_are_read_when_they_are_written_well() -> None:
    fields = read_admin_fields(
        {
            "labels": [{"name": "example.org/team", "value": "ml"}],
            "imagePullSecrets": [{"name": "registry"}, "other"],
            "host_aliases": [{"ip": "2001:db8::1", "hostnames": ["license.example.org"]}],
            "service_account": "trainer",
            "scheduler_name": "gpu-scheduler",
        }
    )

    assert fields.labels == {"example.org/team": "ml"}
    assert fields.image_pull_secrets == ("registry", "other")
    assert fields.host_aliases == ({"ip": "2001:db8::1", "hostnames": ["license.example.org"]},)
    assert (fields.service_account, fields.scheduler_name) == ("trainer", "gpu-scheduler")


def test_every_problem_of_every_field_is_told_when_a_request_is_all_wrong() -> None:
    given = {
        "resources": {"cpu": "x", "mem": {"limits": -1}},
        "volumes": [{"volume_type": "empty_dir", "name": "a", "mount_path": "etc"}],
        "envs": {"1": "x"},
        "fs_group": 0,
        "timeout": "soon",
        "cpu": 8,
        "bananas": 1,
    }

    assert set(find_problems(read_run_fields, given)) == {
        "resources.cpu",
        "resources.mem.limits",
        "volumes[0].mount_path",
        "envs.1",
        "fs_group",
        "timeout",
        "cpu",
        "bananas",
    }


@pytest.mark.parametrize("given", [None, [], "run", 3, [{"image": "x"}]])
def test_a_request_is_refused_when_it_is_no_mapping(given: Any) -> None:
    assert find_problem(read_run_fields, given).code == "type.mapping"


@pytest.mark.parametrize("read", [read_run_fields, read_admin_fields])
@pytest.mark.parametrize("entry", ["A", {"name": "A"}])
def test_a_secret_is_refused_when_it_sets_a_variable_of_envs(read: Callable[[Any], Any], entry: Any) -> None:
    with pytest.raises(Refused) as caught:
        read({"envs": {"A": "1", "B": "2"}, "secrets": ["C", entry]})

    (problem,) = caught.value.problems
    assert (problem.code, problem.where, problem.value) == ("secrets.env_twice", "secrets[1]", "A")
    assert problem.message == "`A` is also a variable of `envs`"
    assert problem.allowed == "one of them, or a `mount_path` for the secret"
    assert read({"envs": {"A": "1"}, "secrets": [{"name": "A", "mount_path": "/s"}]}).envs == {"A": "1"}


def test_a_request_is_refused_when_it_has_hundreds_of_fields() -> None:
    assert find_problem(read_run_fields, {f"x{n}": 1 for n in range(300)}).code == "size.entries"


def test_what_was_given_stays_as_it_was_when_it_is_read() -> None:
    given = {
        "envs": {"A": 1},
        "fsGroup": "8877",
        "tolerations": [{"key": "a", "operator": "Exists", "value": ""}],
        "affinity": {"node_affinity": {}},
        "parameters": {"a": [1]},
    }
    before = deepcopy(given)

    read = read_run_fields(given)

    assert given == before
    with pytest.raises(ValidationError):
        read.fs_group = 1
