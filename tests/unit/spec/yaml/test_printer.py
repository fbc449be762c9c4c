"""Printed YAML is read back as the same value, by our loader and by YAML 1.1."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from runyard.spec.yaml.loader import dump_yaml, load_document

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=30,
)
LOOKS_TYPED = (
    *("on", "yes", "No", "OFF", "y", "N", "true", "False", "null", "Null", "~", "", "=", "<<", "1", "-1", "+1"),
    *("1e3", "012", "0777", "0x1", "0o17", "0b1", "1_000", "1.5", ".5", "5.", "-.5e3", ".inf", "-.Inf", ".nan", "0"),
    *(
        "12:30:00",
        "1:2",
        "2026-07-20",
        "2026-07-20T10:00:00Z",
        "- a",
        "a: b",
        "a #b",
        "#a",
        " a",
        "a ",
        "*a",
        "&a",
        "!a",
    ),
    *(
        "%a",
        "@a",
        "`a",
        "{a}",
        "[a]",
        "'a'",
        '"a"',
        "|",
        ">",
        "?",
        ":",
        "-",
        "---",
        "...",
        "a\tb",
        "\ta",
        "NaN",
    ),
)


@given(JSON_VALUES.filter(lambda value: value is not None))
def test_value_is_the_same_when_it_was_printed_and_read(value: Any) -> None:
    assert load_document(dump_yaml(value)).data == value


@given(st.text())
def test_text_is_the_same_when_yaml_1_1_reads_it(text: str) -> None:
    assert yaml.safe_load(dump_yaml({"key": text, "list": [text]})) == {"key": text, "list": [text]}


@given(st.text().filter(bool))
def test_key_is_the_same_when_yaml_1_1_reads_it(text: str) -> None:
    assert yaml.safe_load(dump_yaml({text: 1})) == {text: 1}


@pytest.mark.parametrize("text", LOOKS_TYPED)
def test_text_is_quoted_when_some_yaml_takes_it_for_something_else(text: str) -> None:
    printed = dump_yaml({"value": text})
    assert printed.startswith(('value: "', "value: '"))
    assert load_document(printed).data == {"value": text}
    assert yaml.safe_load(printed) == {"value": text}


@pytest.mark.parametrize(
    "text", ["10Gi", "500m", "0.5Gi", "nvidia.com/gpu", "/data", "busybox:1.36", "echo hi", "Größe"]
)
def test_text_stays_plain_when_every_yaml_takes_it_for_text(text: str) -> None:
    assert dump_yaml({"value": text}) == f"value: {text}\n"


def test_script_is_printed_as_a_block_when_it_has_lines() -> None:
    printed = dump_yaml({"command": ["sh", "-c", "set -e\n  echo hi\n\ndone\n"], "text": "a\nb"})
    assert printed == ('command:\n- sh\n- "-c"\n- |\n  set -e\n    echo hi\n\n  done\ntext: |-\n  a\n  b\n')


@pytest.mark.parametrize(
    "text", ["a\n\n", "\na", " a\nb", "a \nb", "a\r\nb", "a\x85b\n", "a\u2028b\nc", "\ufeffa\n", "a\n ", "a\tb\n"]
)
def test_lines_are_kept_when_they_begin_or_end_strangely(text: str) -> None:
    for printed in (dump_yaml({"key": text}), dump_yaml([text]), dump_yaml(text)):
        assert text in (load_document(printed).data, *_values(load_document(printed).data))
        assert text in (yaml.safe_load(printed), *_values(yaml.safe_load(printed)))


def test_order_is_kept_and_nothing_is_anchored_when_values_are_shared() -> None:
    shared = {"z": 1, "a": [True, None, 1.0, 1e20]}
    assert dump_yaml({"b": shared, "a": shared}) == (
        "b:\n  z: 1\n  a:\n  - true\n  - null\n  - 1.0\n  - 1.0e+20\na:\n  z: 1\n  a:\n  - true\n  - null\n  - 1.0\n"
        "  - 1.0e+20\n"
    )


def test_long_line_is_not_folded_when_it_is_printed() -> None:
    text = "word " * 100 + "end"
    assert dump_yaml({"a": text, "b": f"- {text}"}) == f'a: {text}\nb: "- {text}"\n'


@pytest.mark.parametrize("value", [float("inf"), float("nan"), b"bytes", {1, 2}, object()])
def test_printing_fails_when_value_is_not_json(value: Any) -> None:
    with pytest.raises((ValueError, yaml.YAMLError)):
        dump_yaml({"value": value})


def _values(data: Any) -> list[Any]:
    return list(data.values()) if isinstance(data, dict) else data if isinstance(data, list) else []
