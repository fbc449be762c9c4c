from pathlib import Path

import pytest

from runyard.cli.findings import Failed
from runyard.cli.profile_files import load_profiles


def test_problems_of_all_files_have_their_places_when_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("id: a\nresources: {mem: 6Gb}\n---\nid: b\nmem: 1\n")
    (tmp_path / "b.yaml").write_text("id: a\nfs_group: 0\n")
    (tmp_path / "c.yaml").write_bytes(b"id: \xff\n")
    (tmp_path / "d.yaml").write_text("id: [\n")
    with pytest.raises(Failed) as caught:
        load_profiles([str(tmp_path)])
    found = {(Path(error.file or "").name, error.place, error.problem.where) for error in caught.value.errors}
    assert ("a.yaml", (2, 18), "resources.mem") in found
    assert ("a.yaml", (5, 6), "mem") in found
    assert ("b.yaml", (2, 11), "fs_group") in found
    assert {file for file, _, _ in found} == {"a.yaml", "b.yaml", "c.yaml", "d.yaml"}
    assert all(place for _, place, _ in found)


def test_profiles_come_with_doubts_when_files_are_sound(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text('id: a\nname: "A",\nenvs: {A: 1}\n')
    profiles, warned = load_profiles([str(file), str(file)])
    assert list(profiles) == ["a"]
    assert [(doubt.problem.code, doubt.file, doubt.place) for doubt in warned] == [
        ("yaml.trailing_comma", str(file), (2, 10))
    ]


def test_digitalhub_template_is_read_when_it_is_given_as_it_is() -> None:
    template = Path(__file__).parents[2] / "data/digitalhub/a100.yaml"
    profiles, _ = load_profiles([str(template)])
    assert profiles
