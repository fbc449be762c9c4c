"""Credentials of image registries, as `docker login` writes them."""

import base64
import json
from typing import Any

import pytest

from runyard.spec.problems import Refused
from runyard.spec.registries import MOST_REGISTRIES, RegistryCredential, read_registries

ADA = RegistryCredential(user="ada", password="hunter2:ü")


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "login",
    [
        {"username": "ada", "password": "hunter2:ü"},
        {"auth": encode("ada:hunter2:ü")},
        {"username": "ada", "password": "hunter2:ü", "auth": "whatever", "email": "ada@example.org"},
    ],
)
def test_login_is_read_when_it_is_written_in_any_form(login: dict[str, str]) -> None:
    text = json.dumps({"auths": {"registry.example.org:5000": login}, "HttpHeaders": {}})
    assert read_registries(text) == {"registry.example.org:5000": ADA}
    assert "hunter2" not in repr(read_registries(text))


@pytest.mark.parametrize(
    ("document", "path", "message"),
    [
        ([], "", "must have a mapping `auths` from registries to logins"),
        ({"auths": []}, "", "must have a mapping `auths` from registries to logins"),
        ({"auths": {"r": "hunter2"}}, "auths.r", "must be a mapping, not text"),
        ({"auths": {"r": {"password": "hunter2"}}}, "auths.r", "needs `username` and `password`, or both as `auth`"),
        ({"auths": {"r": {"auth": "hunter2!"}}}, "auths.r", "needs `username` and `password`, or both as `auth`"),
        ({"auths": {"r": {"auth": encode("hunter2")}}}, "auths.r", "needs `username` and `password`, or both as"),
        ({"auths": {"r": {"identitytoken": "hunter2"}}}, "auths.r", "has 1 unknown keys"),
        ({"auths": {"r": {"auth": 5}}}, "auths.r", "every value must be text"),
        ({"auths": {"a b": {"auth": encode("a:b")}}}, "auths[a b]", "not a registry"),
        (
            {"auths": {}, "credsStore": "hunter2"},
            "credsStore",
            "programs that know passwords do not exist on the nodes",
        ),
    ],
)
def test_configuration_is_refused_when_it_cannot_be_used(document: Any, path: str, message: str) -> None:
    with pytest.raises(Refused) as refused:
        read_registries(json.dumps(document))
    (problem,) = refused.value.problems
    assert (problem.where, message in problem.message) == (path, True), str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_text_is_refused_without_quoting_it_when_it_is_not_json() -> None:
    with pytest.raises(Refused) as refused:
        read_registries('{"auths": hunter2}')
    assert "not valid JSON" in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"auths": {f"r{number}": {"auth": encode("a:b")} for number in range(MOST_REGISTRIES + 1)}}),
        " " * 300_000,
    ],
)
def test_configuration_is_refused_when_it_is_too_large(text: str) -> None:
    with pytest.raises(Refused, match="at most"):
        read_registries(text)
