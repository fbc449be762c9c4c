import pytest

from runyard.cli.source_locations import Source, extract_place
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem, Refused
from runyard.spec.yaml.loader import load_document

RUN = """\
resources:
  mem: 6Gi
  cpu: {requests: 1, limits: 2}
nodeSelector:
  - key: disk
    value: ssd
envs:
  - name: A
    value: a
secrets:
  - first
  - name: second
    mount_path: /s
volumes:
  - volume_type: persistent_volume_claim
    name: data
    mount_path: /data
    spec:
      storageClass: fast
      size: 1Gi
timeout: 2h
"""


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("resources", "mem", "requests"), (2, 8)),
        (("resources", "mem", "limits"), (2, 8)),
        (("resources", "cpu", "requests"), (3, 19)),
        (("resources", "cpu", "limits"), (3, 30)),
        (("node_selector", "disk"), (5, 5)),
        (("envs", "A"), (8, 5)),
        (("secrets", "first"), (11, 5)),
        (("secrets", "second"), (12, 5)),
        (("volumes", "data", "size"), (20, 13)),
        (("volumes", "data", "storage_class"), (19, 21)),
        (("volumes", 0, "mount_path"), (17, 17)),
        (("volumes", "data", "lifetime"), (15, 5)),
        (("volumes", "other"), (14, 1)),
        (("timeout",), (21, 10)),
        (("image",), None),
        ((), None),
    ],
)
def test_place_is_where_the_user_wrote_it_when_a_problem_has_a_path(path: Path, place: tuple[int, int] | None) -> None:
    finding = Source("run.yaml", load_document(RUN)).locate(Problem(Code.FIELD_INVALID, path, "message"))
    assert (finding.file, finding.place) == ("run.yaml", place)


def test_place_is_under_the_spec_when_the_run_is_an_entity() -> None:
    document = load_document("kind: x\nspec:\n  resources:\n    mem: 6Gi\n")
    problem = Problem(Code.FIELD_INVALID, ("resources", "mem", "requests"), "message")
    assert Source("run.yaml", document, ("spec",)).locate(problem).place == (4, 10)


@pytest.mark.parametrize(
    "text",
    ["projects:\n  a:\n    resources.mem: {max: 9Gi}\n", "projects:\n  a:\n    resources: {mem: {max: 9Gi}}\n"],
)
@pytest.mark.parametrize(
    "path", [("projects", "a", "resources", "mem", "max"), ("projects", "a", "resources.mem", "max")]
)
def test_place_is_found_when_a_policy_has_dotted_or_nested_names(text: str, path: Path) -> None:
    finding = Source("policy.yaml", load_document(text)).locate(Problem(Code.FIELD_INVALID, path, "message"))
    assert finding.place is not None
    assert text.splitlines()[2][finding.place[1] - 1 :].startswith("9Gi")


def test_place_leaves_the_words_when_they_begin_with_it() -> None:
    problem = Problem(Code.FIELD_INVALID, (), "a.yaml: line 3, column 7: a fault")
    finding = extract_place(problem, "a.yaml")
    assert (finding.problem.message, finding.place) == ("a fault", (3, 7))
    assert extract_place(Problem(Code.FIELD_INVALID, (), "line 2, byte 1: a fault"), "b").place == (2, 1)
    assert extract_place(Problem(Code.FIELD_INVALID, (), "a fault"), "b").place is None


def test_findings_are_in_the_order_of_the_file_when_a_reader_refuses() -> None:
    source = Source("run.yaml", load_document("b: 1\na: 2\n"))
    refused = Refused([Problem(Code.FIELD_INVALID, (name,), "message") for name in ("a", "b", "c")])
    assert [finding.problem.path for finding in source.refuse(refused).errors] == [("c",), ("b",), ("a",)]
