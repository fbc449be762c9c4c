import copy
import dataclasses
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import runyard
from runyard.domain.admission import AdmittedObject, AdmittedObjects, admit, admitted_objects
from runyard.spec.policy import read_policy
from runyard.spec.problems import Refused
from tests.unit.domain.legal_objects import ENVS, PROJECT, SHARED_CLAIMS, make_job, make_service
from tests.unit.domain.planted_bypasses import ADMINS_OWN, Objects, find, main


def ask(objects: Any, **more: Any) -> AdmittedObjects:
    known = {"platform_envs": ENVS, "shared_claims": SHARED_CLAIMS, **more}
    return admit(objects, policy=read_policy(ADMINS_OWN), project=PROJECT, **known)


@pytest.mark.parametrize("objects", [make_job(), make_service()], ids=["job", "service"])
def test_objects_are_as_they_were_given_when_they_are_admitted(objects: Objects) -> None:
    found = ask(objects)

    assert [json.loads(item.body) for item in found] == objects
    assert [(item.api_version, item.kind, item.name, item.namespace) for item in found] == [
        (item["apiVersion"], item["kind"], item["metadata"]["name"], item["metadata"].get("namespace"))
        for item in objects
    ]
    assert len(found) == len(objects)
    assert list(found[1:]) == list(found)[1:]


def test_all_problems_are_named_when_objects_are_refused() -> None:
    objects = make_job()
    main(objects)["securityContext"]["privileged"] = True
    find(objects, "Job")["spec"]["completions"] = 2

    with pytest.raises(Refused) as refused:
        ask(objects)

    assert [problem.path[-1] for problem in refused.value.problems] == ["completions", "privileged"]


def test_bytes_stay_when_the_dictionaries_change_afterwards() -> None:
    objects = make_job()
    found = ask(objects)
    before = [item.body for item in found]
    main(objects)["image"] = "evil.example/root:1"
    find(objects, "Job")["metadata"]["name"] = "another"

    assert [item.body for item in found] == before
    assert not any(b"evil.example" in item.body for item in found)
    assert "another" not in [item.name for item in found]


class TwoFaced(dict[str, Any]):
    """Shows a legal image to whoever looks it up, and another one to a serialiser that iterates."""

    def items(self) -> Any:
        return {**self, "image": "evil.example/root:1", "privileged": True}.items()


def test_what_is_sent_is_checked_when_a_dictionary_answers_differently() -> None:
    objects = make_job()
    container = main(objects)
    find(objects, "Job")["spec"]["template"]["spec"]["containers"] = [TwoFaced(container)]

    with pytest.raises(Refused) as refused:
        ask(objects)

    assert "admission.unknown" in {problem.code for problem in refused.value.problems}


def test_objects_of_the_run_are_checked_and_not_returned_when_they_are_not_sent_now() -> None:
    objects = make_job()
    job = find(objects, "Job")
    others = [item for item in objects if item is not job]

    found = ask([job], unsent=others)

    assert [item.kind for item in found] == ["Job"]
    with pytest.raises(Refused):
        ask([job])
    others[0]["metadata"]["labels"]["runyard.io/project"] = "other"
    with pytest.raises(Refused):
        ask([job], unsent=others)


def make_deep() -> Any:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    return deep


def make_circle() -> Any:
    circle: dict[str, Any] = {}
    circle["circle"] = circle
    return circle


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({1: "a", "1": "b"}, "admission.type"),
        ({"a": float("nan")}, "admission.type"),
        ({"a": {1, 2}}, "admission.type"),
        ({"a": b"bytes"}, "admission.type"),
        (make_deep(), "admission.type"),
        (make_circle(), "admission.type"),
        ({"a": "x" * (3 << 20)}, "admission.size"),
        ({"a": None}, "admission.type"),
        ({"a": "\ud800"}, "admission.type"),
        ("text", "admission.kind"),
    ],
    ids=["keys", "nan", "set", "bytes", "deep", "circle", "large", "null", "surrogate", "text"],
)
def test_it_is_refused_when_it_cannot_be_sent_as_it_is(given: Any, code: str) -> None:
    with pytest.raises(Refused) as refused:
        ask([given])

    assert [problem.code for problem in refused.value.problems] == [code]


def test_it_is_refused_when_there_are_too_many() -> None:
    with pytest.raises(Refused, match="at most 600 objects"):
        ask([{}] * 601)


def test_secret_values_are_hidden_when_objects_are_shown() -> None:
    objects = make_job()
    secret = find(objects, "Secret")
    secret["data"] = dict.fromkeys(secret["data"], "aHVudGVyMg==")

    found = ask(objects)

    assert any(b"aHVudGVyMg==" in item.body for item in found)
    assert f"Secret {secret['metadata']['name']}" in repr(found)
    assert "aHVudGVyMg==" not in repr([found, *found])


def forge_objects() -> Any:
    return AdmittedObjects([(b"{}", {})], seal=object())


def forge_object() -> Any:
    return AdmittedObject(b"{}", parsed={}, seal=None)


def forge_without_seal() -> Any:
    return AdmittedObjects([])  # type: ignore[call-arg]


def forge_by_extension() -> Any:
    return type("Forged", (AdmittedObject,), {})


def forge_by_copy() -> Any:
    return copy.copy(ask(make_job())[0])


def forge_by_deep_copy() -> Any:
    return copy.deepcopy(ask(make_job()))


def forge_by_pickle() -> Any:
    return pickle.dumps(ask(make_job()))


def forge_by_replacement() -> Any:
    return dataclasses.replace(ask(make_job())[0], body=b"{}")  # type: ignore[type-var]


@pytest.mark.parametrize(
    "forge",
    [
        forge_objects,
        forge_object,
        forge_without_seal,
        forge_by_extension,
        forge_by_copy,
        forge_by_deep_copy,
        forge_by_pickle,
        forge_by_replacement,
    ],
)
def test_admitted_objects_cannot_be_made_when_admission_was_not_asked(forge: Any) -> None:
    with pytest.raises(TypeError):
        forge()


def test_admitted_objects_cannot_be_changed_when_they_exist() -> None:
    found = ask(make_job())

    with pytest.raises(AttributeError):
        found[0].body = b"{}"
    with pytest.raises(AttributeError):
        found._objects = ()
    with pytest.raises(AttributeError):
        del found[0].body
    with pytest.raises(TypeError):
        found[0] = found[1]  # type: ignore[index]


def test_seal_stays_in_its_module_when_the_source_is_searched() -> None:
    sources = Path(runyard.__file__).parent.rglob("*.py")
    own = Path(admitted_objects.__file__)
    assert [str(path) for path in sources if "_SEAL" in path.read_text() and path != own] == []
