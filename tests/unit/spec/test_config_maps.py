from typing import Any

import pytest

from runyard.spec.config_maps import (
    MOST_CONFIG_MAP_BYTES,
    ConfigMapReference,
    count_bytes,
    parse_config_map_reference,
    read_config_data,
)
from runyard.spec.problems import Refused
from runyard.spec.readers import MOST_ENTRIES


def _refuse_reference(given: Any) -> str:
    with pytest.raises(Refused) as caught:
        parse_config_map_reference(given)
    (problem,) = caught.value.problems
    return problem.code.value


def _refuse_data(given: Any) -> dict[str, str]:
    with pytest.raises(Refused) as caught:
        read_config_data(given)
    return {problem.where: problem.code.value for problem in caught.value.problems}


@pytest.mark.parametrize(
    ("text", "name", "version", "project"),
    [
        ("settings", "settings", None, None),
        ("team.settings", "team.settings", None, None),
        ("settings:0a1b", "settings", "0a1b", None),
        ("store://demo/configmap/configmap/settings:0a1b", "settings", "0a1b", "demo"),
        ("store://demo/configmap/configmap/settings", "settings", None, "demo"),
    ],
)
def test_reference_is_read_when_it_names_a_config_map(
    text: str, name: str, version: str | None, project: str | None
) -> None:
    reference = parse_config_map_reference(text)
    assert reference == ConfigMapReference(name=name, version=version, project=project)
    assert str(reference) == (name if version is None else f"{name}:{version}")


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("", "text.empty"),
        (5, "type.text"),
        ("Settings", "name.invalid"),
        ("a/b", "name.invalid"),
        ("settings:", "name.invalid"),
        ("settings:a b", "name.invalid"),
        (":v1", "name.invalid"),
        ("a" * 254, "name.invalid"),
        ("a" * 3000, "text.long"),
        ("store://demo", "reference.invalid"),
        ("store://demo/function/python/f:1", "reference.invalid"),
        ("store://demo/configmap/other/settings:1", "reference.invalid"),
        ("store://demo/configmap/configmap/Settings:1", "name.invalid"),
    ],
)
def test_reference_is_refused_when_it_names_no_config_map(given: Any, code: str) -> None:
    assert _refuse_reference(given) == code


def test_files_become_text_when_they_are_numbers() -> None:
    assert read_config_data({"a": "x\r\n\ty", "n": 3, "f": 0.5}) == {"a": "x\r\n\ty", "n": "3", "f": "0.5"}


@pytest.mark.parametrize(
    ("given", "problems"),
    [
        ("text", {"": "type.mapping"}),
        ({5: "x"}, {"": "type.key"}),
        ({"../a": "x", "": "x", "b c": "x"}, dict.fromkeys(["[../a]", "[]", "[b c]"], "volumes.data_key")),
        ({"k" * 254: "x"}, {"k" * 254: "volumes.data_key"}),
        ({"a": True, "b": None, "c": [], "d": 1 << 20_000}, dict.fromkeys("abcd", "type.text")),
        ({"a": "\x00", "b": "\x1b", "c": "\x85", "d": "\ud800"}, dict.fromkeys("abcd", "text.control")),
        ({f"f{n}": "" for n in range(MOST_ENTRIES + 1)}, {"": "size.entries"}),
        ({"a": "x" * MOST_CONFIG_MAP_BYTES}, {"": "size.bytes"}),
        ({"a": "\x00" * (MOST_CONFIG_MAP_BYTES + 1)}, {"": "size.bytes"}),
        ({"a": "é" * (MOST_CONFIG_MAP_BYTES // 2)}, {"": "size.bytes"}),
        ({"a" * 253: "x" * (MOST_CONFIG_MAP_BYTES - 252)}, {"": "size.bytes"}),
    ],
)
def test_files_are_refused_when_kubernetes_or_the_limit_forbids_them(given: Any, problems: dict[str, str]) -> None:
    assert _refuse_data(given) == problems


def test_files_are_taken_when_they_have_exactly_the_limit() -> None:
    data = read_config_data({"a": "é" * (MOST_CONFIG_MAP_BYTES // 2 - 1), "b": ""})
    assert count_bytes(data) == MOST_CONFIG_MAP_BYTES
