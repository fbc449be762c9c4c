"""The YAML loader: reads pasted snippets, refuses hostile and invalid text with its position."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from runyard.spec.problems import Refused
from runyard.spec.yaml.loader import Document, load_document, load_documents
from tests.unit.spec.refusals import find_problem, find_problems

SEEDS = Path(__file__).parents[3] / "data" / "seeds"
PASTED = sorted((*SEEDS.glob("000-*.yaml"), *SEEDS.glob("001-*.yaml"), *SEEDS.glob("002-*.yaml")))
PVC = {"volume_type": "persistent_volume_claim", "name": "my-pvc", "mount_path": "/data", "spec": {"size": "10Gi"}}
EXPECTED: dict[str, Any] = {
    "000-node-selector": {"node_selector": [{"key": "selectorKey", "value": "selectValue"}]},
    "000-volumes": {"volumes": [PVC]},
    "000-cpu": {"resources": {"cpu": {"requests": "10", "limits": "12"}}},
    "000-mem": {"resources": {"mem": {"requests": "32Gi", "limits": "64Gi"}}},
    "000-gpu": {"resources": {"gpu": {"limits": "1"}}},
    "000-secrets": {"secrets": ["my-secret-key"]},
    "000-envs": {"envs": [{"name": "ENV1", "value": "VALU123123"}, {"name": "ENV2", "value": "VALU123123"}]},
    "000-fs-group": {"fs_group": 1000},
    "000-run-as-user": {"run_as_user": 1000},
    "000-run-as-group": {"run_as_group": 1000},
    "000-resources": {"resources": {"cpu": {"requests": 8}, "mem": {"requests": "32Gi"}, "gpu": {"limits": "1"}}},
    "001-resources": {"resources": {"cpu": {"requests": 8}, "mem": {"requests": "32Gi"}, "gpu": {"limits": "1"}}},
    "002-resources": {"resources": {"cpu": "8", "mem": "32Gi", "gpu": "1", "disk": "10Gi"}},
    "002-volumes": {"volumes": [PVC]},
    "002-cpu": {"resources": {"cpu": "10"}},
    "002-mem": {"resources": {"mem": "32Gi"}},
    "002-gpu": {"resources": {"gpu": "1"}},
    "002-disk": {"resources": {"disk": "10Gi"}},
    "002-secrets": {"secrets": ["my-secret-key"]},
    "002-envs": {"envs": [{"name": "ENV1", "value": "VALU123123"}, {"name": "ENV2", "value": "VALU123123"}]},
    "002-fs-group": {"fs_group": 1000},
    "002-run-as-user": {"run_as_user": 1000},
    "002-run-as-group": {"run_as_group": 1000},
}


def load(text: str | bytes) -> Any:
    return load_document(text).data


@pytest.mark.parametrize("path", PASTED, ids=lambda path: path.stem)
def test_snippet_is_read_when_it_is_pasted_from_the_seeds(path: Path) -> None:
    assert load(path.read_bytes()) == EXPECTED[path.stem]


def test_every_snippet_is_there_when_they_are_counted() -> None:
    assert {path.stem for path in PASTED} == EXPECTED.keys()


@pytest.mark.parametrize(("name", "lines"), [("000-volumes", (2, 3, 4, 6)), ("002-volumes", (2, 3, 4, 6))])
def test_commas_are_skipped_with_a_warning_each_when_they_follow_quoted_values(name: str, lines: tuple[int]) -> None:
    document = load_document((SEEDS / f"{name}.yaml").read_text())
    assert [warning.code for warning in document.warnings] == ["yaml.trailing_comma"] * 4
    assert [warning.message.split(",")[0] for warning in document.warnings] == [f"line {line}" for line in lines]


@pytest.mark.parametrize(
    "text", ['a: "x" ,  # why\nb: 1', "a: 'x',\nb: 1", "a: 'x', \t\nb: 1", 'a: "x",\r\nb: 1', "'a': 'x',\n'b': 1"]
)
def test_comma_is_skipped_when_blanks_or_a_comment_follow_it(text: str) -> None:
    document = load_document(text)
    assert document.data == {"a": "x", "b": 1}
    assert len(document.warnings) == 1


def test_comma_is_skipped_when_it_follows_a_quoted_item() -> None:
    assert load("- \"a\",\n- 'b',\n- c\n") == ["a", "b", "c"]


def test_comma_is_kept_with_a_warning_when_value_is_not_quoted() -> None:
    document = load_document("name: my-pvc,\nsize: 1\nargs:\n- -t,\n")
    assert document.data == {"name": "my-pvc,", "size": 1, "args": ["-t,"]}
    assert [(warning.code, warning.path) for warning in document.warnings] == [("yaml.comma_in_value", ("name",))]


def test_no_warning_is_given_when_commas_stand_in_brackets_or_texts() -> None:
    assert load_document('a: ["x", "y",]\nb: "c,"\nd: |\n  "e",\n').warnings == ()


@pytest.mark.parametrize("text", ['a: "x", "y"', 'a: ["x"],', "a: ,", 'a: "x",,\n', '"a", b: 1'])
def test_comma_is_refused_when_it_is_not_the_end_of_a_quoted_value(text: str) -> None:
    assert find_problem(load, text).code == "yaml.syntax"


def test_commas_belong_to_their_document_when_there_are_several() -> None:
    first, second, third = load_documents('a: "x",\n--- "y",\n---\nb: 1\n')
    assert [len(document.warnings) for document in (first, second, third)] == [1, 1, 0]
    assert second.data == "y"


def test_lost_indentation_is_told_when_a_list_was_flattened() -> None:
    problem = find_problem(load, (SEEDS / "flattened" / "002-envs.yaml").read_text())
    assert problem.code == "yaml.indentation"
    assert problem.message.startswith("line 4, column 1: ")
    assert "`value` in line 3" in problem.message
    assert "indentation seems to be lost" in problem.message


def test_lost_indentation_is_told_when_keys_stand_beside_items() -> None:
    problem = find_problem(load, "- name: A\nvalue: x\n")
    assert (problem.code, problem.message.startswith("line 2, column 1: ")) == ("yaml.indentation", True)


def test_lost_indentation_is_hinted_at_when_it_makes_keys_repeat() -> None:
    problem = find_problem(load, 'resources:\ncpu:\nrequests: "10"\nmem:\nrequests: 32Gi\n')
    assert problem.code == "yaml.duplicate_key"
    assert "the lines under `cpu` lost their indentation" in problem.message


@pytest.mark.parametrize("name", ["cpu", "disk", "fs-group", "gpu", "mem", "resources", "secrets", "volumes"])
def test_flattened_snippet_is_read_when_it_still_is_yaml(name: str) -> None:
    assert isinstance(load((SEEDS / "flattened" / f"002-{name}.yaml").read_text()), dict)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((word, True) for word in ("true", "True", "TRUE")),
        *((word, False) for word in ("false", "False", "FALSE")),
        *((word, None) for word in ("null", "Null", "NULL", "~", "")),
        *(("0", 0), ("8", 8), ("-1", -1), ("+1", 1), ("0x1F", 31), ("0o17", 15), ("9" * 100, int("9" * 100))),
        *(("0.10", 0.1), (".5", 0.5), ("1e3", 1000.0), ("-1.5E-2", -0.015), ("5.", 5.0)),
        *((word, word) for word in ("yes", "no", "on", "off", "y", "N", "12:30", "12:30:00", "1_000", "0777", "007.5")),
        *((word, word) for word in ("2026-07-20", "2026-07-20T10:00:00Z", "1.2.3", "0b1", "1e", "e3", ".", "+", "=")),
        *((word, word) for word in ("10Gi", "500m", "nan", "inf", "0o8", "0xg", "--1", "trUe", "٣")),
        *(("'8'", "8"), ('"true"', "true"), ("!!str 8", "8"), ("! 8", "8"), ("!!int '8'", 8), ("!!float 8", 8.0)),
    ],
)
def test_scalar_is_read_by_safe_rules_when_it_could_mean_several_things(text: str, value: object) -> None:
    read = load(f"value: {text}")["value"]
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("text", [".inf", "-.INF", ".NaN", "1e400", "9" * 101, "0x" + "f" * 100])
def test_number_is_refused_when_it_is_not_finite_or_too_long(text: str) -> None:
    assert find_problem(load, f"value: {text}").code == "yaml.number"


@pytest.mark.parametrize("key", ["on", "yes", "y", "off", "0777", "12:30", "2026-07-20", "'1'", '"true"', "a b", "<<<"])
def test_key_stays_text_when_it_looks_like_something_else(key: str) -> None:
    assert load(f"{key}: 1") == {key.strip("'\""): 1}


@pytest.mark.parametrize("key", ["1", "true", "~", "1.5", "null", "0x1"])
def test_key_is_refused_when_it_is_not_text(key: str) -> None:
    problem = find_problem(load, f"a:\n  {key}: b")
    assert problem.code == "yaml.key"
    assert problem.message.startswith("line 2, column 3: ")
    assert problem.suggestion == f'"{key}"'


def test_key_is_refused_when_it_is_empty() -> None:
    assert find_problem(load, "?\n: b").code == "yaml.key"
    assert load("'': b") == {"": "b"}


def test_key_is_refused_when_it_is_longer_than_any_key() -> None:
    assert load(f"? {'a' * 1024}\n: b") == {"a" * 1024: "b"}
    assert find_problem(load, f"? {'a' * 1025}\n: b").code == "yaml.key"


@pytest.mark.parametrize("text", ["? [a]\n: b", "{a: b}: c", "? {a: b}\n: c", "x: &x [1]\n*x : b"])
def test_key_is_refused_when_it_is_a_collection(text: str) -> None:
    assert find_problem(load, text).code == "yaml.key"


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object:os.system {}",
        "!!python/name:os.system",
        "!Ref a",
        "!!set {a}",
        "!!binary YQ==",
        "!!timestamp 2026-01-01",
        "!!int x",
        "!<x> [a]",
        "!!str [a]",
    ],
)
def test_tag_is_refused_when_it_is_not_plain(text: str) -> None:
    assert find_problem(load, f"value: {text}").code == "yaml.tag"


def test_every_duplicate_key_is_named_with_both_lines_when_there_are_several() -> None:
    problems = find_problems(load, "a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\na: 4\nlist:\n- {e: 1, e: 2}\n")
    assert {where: problem.message for where, problem in problems.items()} == {
        "b.c": "line 5, column 3: duplicate key `c`; the first is in line 3",
        "a": "line 6, column 1: duplicate key `a`; the first is in line 1",
        "list[0].e": "line 8, column 10: duplicate key `e`; the first is in line 8",
    }
    assert {problem.code for problem in problems.values()} == {"yaml.duplicate_key"}


def test_duplicates_are_told_with_the_syntax_error_when_the_text_has_both() -> None:
    with pytest.raises(Refused) as refused:
        load("a: 1\na: 2\nb: [")
    assert [problem.code for problem in refused.value.problems] == ["yaml.duplicate_key", "yaml.syntax"]


def bomb(merge: bool) -> str:
    lines = ["l0: &l0 {a: 1, b: 2}"]
    for level in range(1, 20):
        aliases = ", ".join([f"*l{level - 1}"] * 9)
        lines.append(f"l{level}: &l{level} {{<<: [{aliases}]}}" if merge else f"l{level}: &l{level} [{aliases}]")
    return "\n".join(lines)


@pytest.mark.parametrize("merge", [False, True])
def test_alias_bomb_is_refused_when_it_would_unfold(merge: bool) -> None:
    problem = find_problem(load, bomb(merge))
    assert problem.code == "yaml.alias_bomb"
    assert "line 6" in problem.message


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: *a}", "&a [[*a]]", "a: &a\n  <<: *a\n"])
def test_alias_is_refused_when_it_contains_itself(text: str) -> None:
    assert find_problem(load, text).code == "yaml.alias_recursion"


def test_alias_is_refused_when_nothing_has_its_name() -> None:
    assert find_problem(load, "a: *b").code == "yaml.alias_unknown"
    assert find_problem(load_documents, "a: &b 1\n---\na: *b").code == "yaml.alias_unknown"


def test_aliases_and_merges_are_read_when_they_are_sane() -> None:
    text = "base: &base {a: 1, b: [x]}\nmore: &more {b: 2, c: 3}\none:\n  b: 9\n  <<: [*base, *more]\ntwo: *base\n"
    data = load(f'{text}"<<": text\n')
    assert data["one"] == {"b": 9, "a": 1, "c": 3}
    assert data["<<"] == "text"
    assert data["two"] == data["base"] == {"a": 1, "b": ["x"]}
    data["two"]["b"].append("y")
    assert data["base"]["b"] == ["x"]


def test_inner_anchor_is_taken_when_it_has_the_name_of_an_open_one() -> None:
    assert load("&a [&a x, *a]") == ["x", "x"]


@pytest.mark.parametrize("text", ["a:\n  <<: 1", "a:\n  <<: [1]", "a: &x [1]\nb:\n  <<: *x"])
def test_merge_is_refused_when_it_is_not_of_mappings(text: str) -> None:
    assert find_problem(load, text).code == "yaml.merge"


def test_text_is_refused_when_it_nests_too_deep() -> None:
    assert load("[" * 64 + "]" * 64) is not None
    for text in ("[" * 65 + "]" * 65, "[" * 500_000, "{a: " * 65, "- " * 65, "[" * 5000 + "]" * 5000):
        with pytest.raises(Refused) as refused:
            load(text)
        assert refused.value.problems[-1].code == "yaml.too_deep"
    aliased = "a: &a " + "[" * 40 + "]" * 40 + "\nb: " + "[" * 40 + "*a" + "]" * 40
    assert find_problem(load, aliased).code == "yaml.too_deep"


def test_text_is_refused_when_it_is_too_large_or_has_too_many_values() -> None:
    assert find_problem(load, "a: " + "x" * 1024 * 1024).code == "yaml.too_large"
    assert find_problem(load, "ä" * (1024 * 512 + 1)).code == "yaml.too_large"
    assert find_problem(load, json.dumps([1] * 100_000)).code == "yaml.too_many_values"
    assert find_problem(lambda text: load_document(text, most_bytes=3), "a: 1").code == "yaml.too_large"


def test_position_is_reported_when_a_text_has_too_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.spec.yaml.tree_builder.MOST_NODES", 5)
    assert load("- 1\n- [2, 3]\n") == [1, [2, 3]]
    problem = find_problem(load, "- 1\n- [2, 3,\n   4]\n")
    assert problem.code == "yaml.too_many_values"
    assert problem.message.startswith("line 3, column 4: ")


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        (b"a: 1\nb: \xff", "yaml.encoding", "line 2, byte 4"),
        (b"\xef\xbb\xbfa: 1", "yaml.encoding", "line 1, column 1"),
        ("\ufeffa: 1", "yaml.encoding", "line 1, column 1"),
        ("a: 1".encode("utf-16"), "yaml.encoding", "line 1, column 1"),
        ("a: 1\nb: x\0y", "yaml.character", "line 2, column 5"),
        ("a: \x1b[31m", "yaml.character", "line 1, column 4"),
        ("a: \x7f", "yaml.character", "line 1, column 4"),
        ("a: \x80", "yaml.character", "line 1, column 4"),
        ("a: \ud800", "yaml.character", "line 1, column 4"),
        ("a: \uffff", "yaml.character", "line 1, column 4"),
        ('a: "\\ud83d"', "yaml.character", "line 1, column 4"),
        ('{"a": "\\ud83d"}', "yaml.character", "line 1, column 7"),
    ],
)
def test_character_is_refused_with_its_place_when_it_cannot_be_text(text: str | bytes, code: str, place: str) -> None:
    problem = find_problem(load, text)
    assert problem.code == code
    assert problem.message.startswith(place)


def test_character_is_one_when_it_is_escaped_in_two_halves() -> None:
    assert load('a: "\\ud83d\\ude00"') == load('{"a": "\\ud83d\\ude00"}') == {"a": "😀"}


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a:\n\tb: 1", "line 2, column 1", "tab in the indentation"),
        ("a:\n  \tb: 1", "line 2, column 3", "tab in the indentation"),
        ("a: [1, 2\nb: 3", "line 1, column 4", "`[` that opens here"),
        ("a: {b: 1", "line 1, column 4", "`{` that opens here"),
        ("a: 'x\nb: 1", "line 1, column 4", "never closed"),
        ('a: "x\n---\nb', "line 1, column 4", "not closed"),
        (
            "a: b: c",
            "line 1, column 5",
            "a `:` where no key is allowed: quote a value that contains `: `, and check the indentation",
        ),
        ("a: 1\nbc\nd: 1", "line 2, column 1", "no `:` after"),
        ("a: @b", "line 1, column 4", "begin with `@`"),
        ("a: %b", "line 1, column 4", "begin with `%`"),
        (
            'a: "\\q"',
            "line 1, column 6",
            "unknown escape sequence in double quotes; write `\\\\`, or use single quotes",
        ),
        ('a: "\\x1"', "line 1, column 7", "hexadecimal"),
        ("a: - b", "line 1, column 4", "list item"),
        ("a: ]", "line 1, column 4", "closing bracket"),
        ("a:\n  b: 1\n c: 2", "line 3, column 2", "indentation"),
        ("[1] x", "line 1, column 5", "document ended"),
        ("a: |x\n  y", "line 1, column 5", "new line"),
        ("a: !x!y z", "line 1, column 4", "tag"),
        ("a: & b", "line 1, column 5", "anchor"),
        ("%YAML 2.0\n---\na", "line 1, column 1", "`%` line"),
    ],
)
def test_fault_is_told_in_plain_words_when_text_is_not_yaml(text: str, place: str, words: str) -> None:
    problem = find_problem(load, text)
    assert problem.code == "yaml.syntax"
    assert problem.message.startswith(f"{place}: ")
    assert words in problem.message


def test_value_is_not_repeated_in_the_message_when_text_is_not_yaml() -> None:
    for text in ("password: 'hunter2", 'password: "hunter2\\q"', "password: [hunter2", "password: hunter2: x"):
        assert "hunter2" not in str(find_problem(load, text))
    assert "hunter2" not in str(load_document("password: hunter2,").warnings[0])


@pytest.mark.parametrize("text", ["a:\t1\t# x\n\t\n\t# y\nb:\t\n  - c\t\n", "a: 1\nb: [\tc\n\t]\n"])
def test_tabs_are_blanks_when_they_are_no_indentation(text: str) -> None:
    assert load(text) == {"a": 1, "b": ["c"]}


def test_source_is_named_when_it_is_given() -> None:
    with pytest.raises(Refused) as refused:
        load_document("a: 1\na: 2", source="profiles.yaml")
    assert refused.value.problems[0].message.startswith("profiles.yaml: line 2, column 1: ")


@pytest.mark.parametrize("text", ["", "   \n", "# only a comment\n", "---\n---\n", "---\nnull\n", b""])
def test_text_is_refused_when_it_holds_nothing(text: str | bytes) -> None:
    assert load_documents(text) == []
    assert find_problem(load, text).code == "yaml.empty"


def test_empty_documents_are_skipped_when_there_are_several() -> None:
    assert [document.data for document in load_documents("---\na: 1\n---\n---\n# x\n---\n- b\n...\n")] == [
        {"a": 1},
        ["b"],
    ]


def test_second_document_is_refused_when_one_is_expected() -> None:
    problem = find_problem(load, "a: 1\n---\nb: 2\n")
    assert (problem.code, problem.message.split(":")[0]) == ("yaml.several_documents", "line 3, column 1")


def test_documents_are_refused_when_they_are_too_many() -> None:
    assert len(load_documents("--- a\n" * 100)) == 100
    assert find_problem(load_documents, "--- a\n" * 101).code == "yaml.too_many_documents"
    assert find_problem(load_documents, "---\n" * 100_000).code == "yaml.too_many_documents"


def test_json_is_read_when_it_has_tabs_and_everything_json_has() -> None:
    text = '\n{\t"a": [1, 2.5, true, null,\n\t"x\\/y\\u00e9"],\r\n\t"b":{}\t}\n'
    assert load(text) == {"a": [1, 2.5, True, None, "x/yé"], "b": {}}


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ('{"a": 1,\n\t"a": 2}', "yaml.duplicate_key", "line 2, column 2"),
        ('{"a": [1, 2}', "yaml.syntax", "line 1, column 7"),
        ('{"a": 1e999}', "yaml.number", "line 1, column 7"),
        (f'{{"a": {"1" * 101}}}', "yaml.number", "line 1, column 7"),
        ('{"a": "x\ty" "b"}', "yaml.syntax", "line 1, column 1"),
    ],
)
def test_fault_has_its_place_when_text_is_json(text: str, code: str, place: str) -> None:
    problem = find_problem(load, text)
    assert (problem.code, problem.message.startswith(place)) == (code, True)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(10**50), 10**50)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    ).map(lambda value: [value]),
    st.sampled_from([None, 1, "\t"]),
)
def test_json_is_read_as_json_when_it_is_anything(value: Any, indent: str | int | None) -> None:
    assert load(json.dumps(value, indent=indent)) == value


@given(st.binary(max_size=80) | st.text(max_size=80) | st.text("ab:-,[]{}&*!|>'\"#%?\t\n 1~<\\", max_size=60))
def test_text_is_read_or_refused_when_it_is_anything(text: str | bytes) -> None:
    try:
        documents = load_documents(text)
    except Refused as refused:
        told = [problem.message for problem in refused.problems]
    else:
        told = [json.dumps([document.data for document in documents], allow_nan=False)]
    assert all(told)


@given(st.text("ab:- \n[]{},'\"#", max_size=40))
def test_reading_agrees_with_pyyaml_when_both_take_the_text(text: str) -> None:
    try:
        theirs = [data for data in yaml.load_all(text, yaml.SafeLoader) if data is not None]
        ours = [document.data for document in load_documents(text)]
    except (Refused, yaml.YAMLError):
        return
    assert ours == theirs


DOCUMENT = """\
profile: 1xa100
resources:
  cpu: 1.10
  mem:
volumes:
  - name: "a"
    spec: {size: 10Gi}
  - b
"""


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ((), (1, 1)),
        (("profile",), (1, 10)),
        (("profile", "x", 1), (1, 10)),
        (("resources",), (2, 1)),
        (("resources", "cpu"), (3, 8)),
        (("resources", "mem"), (4, 3)),
        (("resources", "gpu", "limits"), (2, 1)),
        (("volumes", 0), (6, 5)),
        (("volumes", 0, "name"), (6, 11)),
        (("volumes", 0, "spec"), (7, 5)),
        (("volumes", 0, "spec", "size"), (7, 18)),
        (("volumes", 1), (8, 5)),
        (("volumes", 2), (5, 1)),
        (("volumes", "name"), (5, 1)),
        (("nothing",), (1, 1)),
    ],
)
def test_position_is_found_when_path_exists_or_its_parent_does(
    path: tuple[str | int, ...], place: tuple[int, int]
) -> None:
    assert load_document(DOCUMENT).find_position(path) == place


def test_position_is_found_when_text_is_json() -> None:
    document = load_document('{\n\t"a": [1,\n\t\t{"b": "x"}]}')
    assert document.find_position(("a", 1, "b")) == (3, 9)


def test_position_is_unknown_when_document_was_made_without_a_text() -> None:
    assert Document({"a": 1}).find_position(("a",)) is None


def test_position_is_that_of_the_source_when_a_key_is_merged() -> None:
    assert load_document("a: &a\n  b: 1\nc:\n  <<: *a\n").find_position(("c", "b")) == (2, 6)


def test_written_text_is_found_when_value_is_a_number() -> None:
    document = load_document(DOCUMENT)
    assert document.data["resources"]["cpu"] == 1.1
    assert document.find_text(("resources", "cpu")) == "1.10"
    assert document.find_text(("volumes", 0, "name")) == "a"
    assert document.find_text(("volumes",)) is None
    assert document.find_text(("volumes", 7, "x")) is None
