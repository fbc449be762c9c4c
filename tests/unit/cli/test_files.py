from pathlib import Path

import pytest

from runyard.cli.files import Unreadable, list_profile_files, read_bytes


def test_content_is_refused_when_it_is_larger_than_is_read(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 11)
    assert len(read_bytes(str(tmp_path / "large"), most_bytes=11)) == 11
    with pytest.raises(Unreadable, match="larger than the limit of 10 bytes"):
        read_bytes(str(tmp_path / "large"), most_bytes=10)


def test_endless_file_is_refused_when_it_is_read() -> None:
    with pytest.raises(Unreadable, match="larger"):
        read_bytes("/dev/zero")


def test_reason_is_told_when_a_file_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="No such file"):
        read_bytes(str(tmp_path / "none"))
    with pytest.raises(Unreadable, match="Is a directory"):
        read_bytes(str(tmp_path))
    assert Unreadable.exit_code == 2


def test_profile_files_are_sorted_and_others_left_out_when_a_folder_is_given(tmp_path: Path) -> None:
    for name in ("b.yml", "a.yaml", "c.json", "README.md", ".hidden.yaml"):
        (tmp_path / name).write_text("")
    (tmp_path / "folder.yaml").mkdir()
    single = str(tmp_path / "README.md")
    found = [Path(file).name for file in list_profile_files([str(tmp_path), single])]
    assert found == ["a.yaml", "b.yml", "c.json", "README.md"]


def test_folder_is_refused_when_it_has_no_profile_files(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match=r"contains no file that ends with \.yaml, \.yml, \.json"):
        list(list_profile_files([str(tmp_path)]))
