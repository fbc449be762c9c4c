"""Numbers that belong to somebody are known, so that no run can be their user."""

from pathlib import Path

from runyard.engines.local.user_numbers import is_project_user, read_accounts


def test_accounts_are_named_by_number_when_the_file_holds_them_among_others(tmp_path: Path) -> None:
    path = tmp_path / "passwd"
    path.write_bytes(
        b"root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n+::::::\nnobody:x:65534:65534::/:\n\xff\n"
    )
    assert read_accounts(path) == {0: "root", 1000: "ada"}
    assert read_accounts(tmp_path / "none") == {}


def test_numbers_are_those_of_projects_when_any_place_may_give_them() -> None:
    assert [is_project_user(number) for number in (599_999_999, 600_000_000, 1_599_999_999, 1_600_000_000)] == [
        False,
        True,
        True,
        False,
    ]
