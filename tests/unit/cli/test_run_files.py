from pathlib import Path

import pytest

from runyard.cli.findings import Failed
from runyard.cli.run_files import load_run, load_runs

ENTITY = "kind: container+job:run\nproject: vision\nid: r1\nspec:\n  task: container+job://vision/t1\n  fs_group: {}\n"


def write(tmp_path: Path, text: str) -> str:
    (tmp_path / "runs.yaml").write_text(text)
    return str(tmp_path / "runs.yaml")


def test_run_is_read_when_it_is_a_digitalhub_document(tmp_path: Path) -> None:
    loaded = load_run(write(tmp_path, ENTITY.format("8877")))
    assert (loaded.run.id, loaded.run.project, loaded.run.action) == ("r1", "vision", "job")
    assert loaded.source.root == ("spec",)


def test_place_is_under_the_spec_when_a_digitalhub_document_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failed) as caught:
        load_run(write(tmp_path, ENTITY.format("0")))
    (error,) = caught.value.errors
    assert (error.problem.where, error.place) == ("spec.fs_group", (6, 13))


def test_doubts_about_the_text_are_told_when_its_fields_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Failed) as caught:
        load_run(write(tmp_path, 'image: "busybox",\nnope: 1\n'))
    assert [doubt.problem.code for doubt in caught.value.warnings] == ["yaml.trailing_comma"]


def test_runs_are_read_when_they_are_documents_and_lists(tmp_path: Path) -> None:
    text = f"id: a\n---\n- {{id: b}}\n- {{resources: {{cpu: 1}}}}\n---\n{ENTITY.format('1')}"
    loaded = load_runs(write(tmp_path, text))
    assert [run.run.id for run in loaded] == ["a", "b", None, "r1"]
    assert [run.source.root for run in loaded] == [(), (0,), (1,), ("spec",)]


def test_problems_of_all_runs_are_told_at_once_when_several_are_wrong(tmp_path: Path) -> None:
    with pytest.raises(Failed) as caught:
        load_runs(write(tmp_path, "nope: 1\n---\n- {id: a}\n- {fs_group: 0}\n- 7\n"))
    assert [error.place for error in caught.value.errors] == [(1, 7), (4, 14), None]


def test_more_than_a_hundred_runs_are_read_when_a_month_is_rehearsed(tmp_path: Path) -> None:
    assert len(load_runs(write(tmp_path, "---\n".join(f"id: r{i}\n" for i in range(300))))) == 300
