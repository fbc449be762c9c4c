import ast
import copy
import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from runyard.domain import admission
from runyard.domain.admission import check_objects
from runyard.domain.admission.identity import hash_text
from runyard.domain.admission.plain_json import MOST_DEPTH, MOST_VALUES, check_plain_json
from runyard.manifests.metadata import to_label_value
from runyard.spec.policy import read_policy
from runyard.spec.problems import Problem
from tests.unit.domain.legal_objects import (
    ENVS,
    LABELS,
    PROJECT,
    SHARED_CLAIMS,
    hold,
    make_job,
    make_profile,
    make_service,
)
from tests.unit.domain.planted_bypasses import ADMINS_OWN, Objects, find, judge, label_all, main, pod
from tests.unit.domain.planted_forms import FORMS
from tests.unit.domain.planted_reaches import MARKS, REFERENCES, SERVICES


@pytest.mark.parametrize("name", FORMS)
def test_it_is_refused_when_a_form_is_not_one_that_we_send(name: str) -> None:
    objects = make_job()
    FORMS[name](objects)

    problems = judge(objects)

    assert problems
    assert not any(problem.code == "admission.failed" for problem in problems)


@pytest.mark.parametrize("name", MARKS)
def test_it_is_refused_when_objects_are_not_clearly_the_runs_own(name: str) -> None:
    objects = make_job()
    MARKS[name](objects)

    assert judge(objects)


@pytest.mark.parametrize("name", REFERENCES)
def test_it_is_refused_when_a_pod_reaches_for_what_is_not_its_own(name: str) -> None:
    objects = make_job()
    REFERENCES[name](objects)

    problems = judge(objects)

    assert problems
    assert not any(problem.code == "admission.failed" for problem in problems)


@pytest.mark.parametrize("name", SERVICES)
def test_it_is_refused_when_a_service_reaches_further(name: str) -> None:
    objects = make_service()
    SERVICES[name](objects)

    assert judge(objects)


@pytest.mark.parametrize("make", [make_job, make_service])
def test_nothing_is_found_when_all_is_legal(make: Callable[[], Objects]) -> None:
    assert judge(make()) == []


def test_nothing_is_found_when_only_what_the_anchor_owns_is_sent() -> None:
    assert judge([item for item in make_job() if item["kind"] != "Job"]) == []


def test_an_anchor_passes_when_it_is_at_rest() -> None:
    objects, service = make_job(), make_service()
    hold(find(objects, "Job"))
    hold(find(service, "Deployment"))
    policy = {"ttl": {"default": "10m", "locked": True}, "replicas": {"min": 2}}

    assert judge(objects, policy=policy, is_anchor=True) == []
    assert judge(service, policy=policy, is_anchor=True) == []


@pytest.mark.parametrize(
    ("make", "policy", "code"),
    [
        (make_job, {"ttl": {"max": "9m"}}, "policy.max"),
        (make_job, {"timeout": {"max": "1h"}}, "policy.max"),
        (make_service, {"replicas": {"max": 1}}, "policy.max"),
        (make_service, {"replicas": {"default": 3, "locked": True}}, "policy.locked"),
    ],
)
def test_an_anchor_is_refused_when_a_later_patch_would_break_a_rule(
    make: Callable[[], Objects], policy: dict[str, Any], code: str
) -> None:
    objects = make()
    hold(next(item for item in objects if item["kind"] in ("Job", "Deployment")))

    assert [problem.code for problem in judge(objects, policy=policy, is_anchor=True)] == [code]


@pytest.mark.parametrize(
    ("timeout", "grace", "deadline", "passes"),
    [
        (7200, 30, 7200 + 30 + 3600, True),
        (7200, None, 7200 + 30 + 3600, True),
        (7200, 600, 7200 + 600 + 3600, True),
        (7200, 30, 7200, False),
        (7200, 30, 7200 + 30 + 3601, False),
        (7200, 30, None, False),
        (None, 30, 7200, False),
        (None, 30, None, True),
    ],
)
def test_an_anchors_own_deadline_is_a_late_backstop_when_it_has_a_timeout(
    timeout: int | None, grace: int | None, deadline: int | None, passes: bool
) -> None:
    objects = make_job()
    job = find(objects, "Job")
    hold(job)
    for part, key, value in (
        (job["metadata"]["annotations"], "runyard.io/timeout", None if timeout is None else str(timeout)),
        (job["spec"], "activeDeadlineSeconds", deadline),
        (pod(objects), "terminationGracePeriodSeconds", grace),
    ):
        part.pop(key)
        part.update({} if value is None else {key: value})

    assert [problem.code for problem in judge(objects, is_anchor=True)] == ([] if passes else ["admission.deadline"])


@pytest.mark.parametrize("make", [make_job, make_service])
def test_an_anchor_is_refused_when_it_would_start(make: Callable[[], Objects]) -> None:
    assert {problem.code for problem in judge(make(), is_anchor=True)} == {
        "admission.anchor",
        *(["admission.deadline"] if make is make_job else []),
    }


@pytest.mark.parametrize(
    "notes",
    [
        {"runyard.io/wish": "run"},
        {"runyard.io/wish": "stop"},
        {"runyard.io/wish": "hold\n"},
        {"runyard.io/wish": None},
        {"runyard.io/generation": None},
        {"runyard.io/generation": "-1"},
        {"runyard.io/generation": "1.5"},
        {"runyard.io/generation": "9" * 19},
        {"runyard.io/timeout": "2h"},
        {"runyard.io/replicas": "1"},
        {"runyard.io/other": "1"},
    ],
    ids=str,
)
def test_an_anchor_is_refused_when_it_does_not_say_what_it_was_told(notes: dict[str, str | None]) -> None:
    objects = make_job()
    job = find(objects, "Job")
    hold(job)
    told = {**job["metadata"]["annotations"], **notes}
    job["metadata"]["annotations"] = {key: value for key, value in told.items() if value is not None}

    assert judge(objects, is_anchor=True)


@pytest.mark.parametrize("key", ["runyard.io/wish", "runyard.io/generation", "runyard.io/timeout", "runyard.io/ttl"])
def test_an_annotation_of_anchors_is_refused_when_the_run_starts_at_once(key: str) -> None:
    objects = make_job()
    find(objects, "Job")["metadata"]["annotations"][key] = "1"

    assert [problem.code for problem in judge(objects)] == ["admission.annotation"]


def test_objects_are_refused_when_they_are_of_another_run() -> None:
    assert judge(make_job(), run_uid="u1") == []
    assert {problem.code for problem in judge(make_job(), run_uid="u2")} == {"admission.label"}


@pytest.mark.parametrize("project", ["-odd-", "x" + "0" * 20])
def test_only_its_own_hash_passes_when_a_project_cannot_be_a_label(project: str) -> None:
    def judge_labelled(value: str) -> list[Problem]:
        text = json.dumps(make_job())
        for key in ("runyard.io/project", "dhcore/project", "app.kubernetes.io/part-of"):
            text = text.replace(f'"{key}": "{PROJECT}"', f'"{key}": "{value}"')
        return check_objects(
            json.loads(text),
            policy=read_policy(ADMINS_OWN),
            project=project,
            platform_envs=ENVS,
            shared_claims=SHARED_CLAIMS,
        )

    ending = hashlib.sha256(project.encode()).hexdigest()[:20]

    assert judge_labelled(f"odd-x{ending}") == []
    assert judge_labelled(f"x{ending}") == []
    assert judge_labelled(f"x{ending[::-1]}")
    assert judge_labelled(f"odd{ending}")
    assert judge_labelled(PROJECT)


U1 = hash_text("u1")[:15]


def iter_metadata(part: Any) -> Iterator[dict[str, Any]]:
    """Every mapping with labels, at any depth."""
    if isinstance(part, dict):
        if "labels" in part:
            yield part
        part = list(part.values())
    if isinstance(part, list):
        for item in part:
            yield from iter_metadata(item)


@pytest.mark.parametrize(
    ("run_id", "run_uid", "instance", "passes"),
    [
        ("r1", "u1", f"run-r1-{U1}", True),
        ("r1", "u1", f"run-r1-{U1}-b", False),
        ("r1", "u1", "run-r1", False),
        ("r1", "u1", f"run-r2-{U1}", False),
        ("r1", "u1", f"run-r1-{hash_text('u2')[:15]}", False),
        ("r1", "u1", f"run-r1-{hash_text('u1')}", False),
        ("R1", "u1", f"run-r1-{U1}", True),
        ("R1", "u1", f"run-R1-{U1}", False),
        ("a+b", "u1", f"run-a-b-{U1}", True),
        ("+", "u1", f"run-{U1}", True),
        ("+", "u1", f"run--{U1}", False),
        ("a" * 33, "u1", f"run-{'a' * 32}-{U1}", True),
        ("a" * 33, "u1", f"run-{'a' * 33}-{U1}", False),
        ("r1", "a+b", f"run-r1-{hash_text('a+b')[:15]}", True),
        ("r1", "a+b", f"run-r1-{hash_text('a-b')[:15]}", False),
        ("x" + "0" * 20, "u1", f"run-x{'0' * 20}-{U1}", True),
        ("x" + "0" * 20, "u1", f"run-x{'1' * 20}-{U1}", False),
    ],
)
def test_names_are_those_of_the_labelled_run_when_ids_are_odd(
    run_id: str, run_uid: str, instance: str, passes: bool
) -> None:
    objects = json.loads(json.dumps(make_job()).replace(f"run-r1-{U1}", instance))
    for metadata in iter_metadata(objects):
        for key, text in (("runyard.io/run", run_id), ("dhcore/run", run_id), ("runyard.io/run-uid", run_uid)):
            label = to_label_value(text)
            metadata["labels"][key] = label
            if label != text and key.startswith("runyard.io/"):
                metadata.setdefault("annotations", {})[key] = text
    text = json.dumps(objects)
    text = text.replace('"name": "RUN_ID", "value": "r1"', f'"name": "RUN_ID", "value": "{run_id}"')

    problems = judge(json.loads(text), platform_envs={**ENVS, "RUN_ID": run_id})

    assert (problems == []) == passes


def test_it_is_refused_when_an_object_exists_already() -> None:
    objects = make_job()
    pod(objects)["volumes"][1]["persistentVolumeClaim"]["claimName"] = "run-r0.kept"

    problems = judge(objects, project_claims=frozenset({"run-r1-bb82030dbc2bcab.data"}))

    assert "admission.name" in {problem.code for problem in problems}


def test_an_annotation_passes_when_it_is_what_its_label_stands_for() -> None:
    objects = make_job()
    label_all("runyard.io/user", f"x{hash_text('Ünal')}")(objects)
    find(objects, "Job")["metadata"]["annotations"]["runyard.io/user"] = "Ünal"

    assert judge(objects) == []
    find(objects, "Job")["metadata"]["annotations"]["runyard.io/user"] = "root"
    assert judge(objects)


@pytest.mark.parametrize(
    ("source", "passes"),
    [
        ({"emptyDir": {"sizeLimit": "1Gi"}}, True),
        ({"emptyDir": {"sizeLimit": "1Gi", "medium": "Memory"}}, False),
        ({"emptyDir": {}}, False),
    ],
)
def test_scratch_space_is_a_sized_folder_when_the_policy_says_so(source: dict[str, Any], passes: bool) -> None:
    objects = make_job()
    pod(objects)["volumes"][0] = {"name": "runyard-scratch", **source}

    assert (judge(objects, policy={"platform": {"disk_medium": "empty_dir"}}) == []) == passes


def test_scratch_space_passes_when_it_has_no_class() -> None:
    objects = make_job()
    del pod(objects)["volumes"][0]["ephemeral"]["volumeClaimTemplate"]["spec"]["storageClassName"]

    assert (
        check_objects(objects, policy=read_policy({}), project=PROJECT, platform_envs=ENVS, shared_claims=SHARED_CLAIMS)
        == []
    )


@pytest.mark.parametrize(("suspend", "ttl"), [(True, 600), (False, None), (None, None)])
def test_an_anchor_is_refused_when_it_is_not_wholly_at_rest(suspend: bool | None, ttl: int | None) -> None:
    objects = make_job()
    hold(find(objects, "Job"))
    spec = find(objects, "Job")["spec"]
    del spec["suspend"]
    spec |= {key: value for key, value in (("suspend", suspend), ("ttlSecondsAfterFinished", ttl)) if value is not None}

    assert [problem.code for problem in judge(objects, is_anchor=True)] == ["admission.anchor"]


def test_other_kubernetes_versions_are_judged_when_asked_for() -> None:
    assert judge(make_job(), kubernetes_version="1.34") == []
    assert judge(make_job(), kubernetes_version="2.0")


@pytest.mark.parametrize("version", ["1.18", "1.21", "1.24"])
def test_pod_security_of_today_holds_when_the_cluster_is_old(version: str) -> None:
    objects = make_job()
    del main(objects)["securityContext"]["capabilities"]
    pod(objects)["securityContext"]["runAsUser"] = 1000

    codes = {problem.code for problem in judge(objects, kubernetes_version=version)}

    assert codes == {"admission.pod_security"}


class LyingDict(dict[str, Any]):
    """Shows one thing to whoever iterates, another to whoever asks."""

    def __iter__(self) -> Any:
        return iter(())

    def items(self) -> Any:
        return {}.items()


class LyingText(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("False")


class Exploding:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def _make_cycle() -> dict[str, Any]:
    cycle: dict[str, Any] = {"kind": "Job"}
    cycle["spec"] = cycle
    return cycle


def _make_deep() -> dict[str, Any]:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    return deep


@pytest.mark.parametrize(
    "objects",
    [
        None,
        5,
        "text",
        {},
        {"kind": "Job"},
        iter([]),
        [None],
        [5],
        [[]],
        ["Job"],
        [{}],
        [{"kind": None}],
        [{"kind": {}}],
        [{"kind": "Job"}],
        [{"kind": "Secret", "apiVersion": "v1"}],
        [LyingDict(make_job()[-1])],
        [OrderedDict(make_job()[-1])],
        [MappingProxyType(make_job()[-1])],
        [{**make_job()[-1], "kind": LyingText("Job")}],
        [{**make_job()[-1], LyingText("spec"): {}}],
        [Exploding()],
        [_make_cycle()],
        [_make_deep()],
        [make_job()[-1]] * 1000,
    ],
    ids=lambda given: type(given).__name__,
)
def test_it_is_refused_and_never_raises_when_it_is_not_what_it_should_be(objects: Any) -> None:
    assert judge(objects)


def test_it_knows_nothing_of_how_objects_were_made_when_its_imports_are_read() -> None:
    sources = Path(admission.__file__).parent.glob("*.py")
    imported = {
        name
        for source in sources
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    ours = {name for name in imported if name.startswith("runyard.")}

    assert all(name.startswith(("runyard.domain.admission", "runyard.pods", "runyard.spec")) for name in ours)


def test_every_form_problem_of_all_objects_is_told_when_there_are_several() -> None:
    objects = make_job()
    pod(objects)["hostNetwork"] = True
    find(objects, "Secret")["immutable"] = "yes"
    find(objects, "ConfigMap")["binaryData"] = {}

    assert {problem.where for problem in judge(objects)} == {
        "objects[0].immutable",
        "objects[1].binaryData",
        "objects[3].spec.template.spec.hostNetwork",
    }


def test_no_secret_value_is_shown_when_a_secret_is_refused() -> None:
    objects = make_job()
    find(objects, "Secret")["data"] = {"HF_TOKEN": ["hunter2"], "bad key": "hunter2"}
    main(objects)["env"][3]["value"] = {"a": "hunter2"}

    problems = judge(objects)

    assert problems
    assert "hunter2" not in "\n".join(f"{problem} {problem.to_dict()}" for problem in problems)


def test_objects_stay_as_they_were_when_they_are_judged() -> None:
    objects = make_job()
    before = copy.deepcopy(objects)

    judge(objects, policy={"resources.cpu": {"max": "1"}}, profile=make_profile(labels={"a": "b"}))

    assert objects == before
    assert LABELS["runyard.io/project"] == PROJECT


@pytest.mark.parametrize(("depth", "is_plain"), [(MOST_DEPTH, True), (MOST_DEPTH + 1, False), (2000, False)])
def test_value_is_refused_when_it_is_nested_too_deeply(depth: int, is_plain: bool) -> None:
    value: Any = "text"
    for _ in range(depth):
        value = {"key": value}
    assert (check_plain_json(value, ()) == []) is is_plain


@pytest.mark.parametrize(("count", "is_plain"), [(MOST_VALUES - 1, True), (MOST_VALUES, False)])
def test_list_is_refused_when_it_has_too_many_values(count: int, is_plain: bool) -> None:
    assert (check_plain_json(["text"] * count, ()) == []) is is_plain


@pytest.mark.parametrize("odd", [None, 0.5, 2**63, -(2**63) - 1, "\ud800", (), {1: "text"}, {"\udfff": "text"}])
def test_place_is_named_when_a_value_is_not_plain(odd: Any) -> None:
    [problem] = check_plain_json({"a": ["text", {"b": odd}]}, ("objects", 0))
    assert problem.path == ("objects", 0, "a", 1, "b")
