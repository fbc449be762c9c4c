"""Every file, function, page and make target that the documentation names exists."""

import re
from pathlib import Path

import pytest

from tests.unit.architecture.doc_references import (
    Reference,
    find_problem,
    list_code_references,
    list_links,
    list_make_targets,
)

PROJECT_ROOT = Path(__file__).resolve().parents[3]
ROOTS = (PROJECT_ROOT, PROJECT_ROOT / "src" / "runyard")
PAGES = sorted([*PROJECT_ROOT.glob("*.md"), *(PROJECT_ROOT / "docs").rglob("*.md")])
TOUR = PROJECT_ROOT / "docs" / "design" / "tour.md"
RECIPES = PROJECT_ROOT / "docs" / "design" / "recipes.md"
API_DEFINITIONS = [
    "URL=http://localhost:8080/api/v1",
    """api() { curl --silent --show-error --no-buffer --header 'Content-Type: application/json' "$@"; }""",
]

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT_ROOT)))


@pages
def test_source_exists_when_a_page_names_it(page: Path) -> None:
    problems = [find_problem(reference, roots=ROOTS) for reference in list_code_references(page.read_text())]
    assert [problem for problem in problems if problem is not None] == []


@pages
def test_page_exists_when_another_links_to_it(page: Path) -> None:
    assert [link for link in list_links(page.read_text()) if not (page.parent / link).exists()] == []


@pages
def test_target_exists_when_a_page_says_make(page: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (PROJECT_ROOT / "Makefile").read_text(), re.MULTILINE))
    assert [target for target in list_make_targets(page.read_text()) if target not in targets] == []


@pytest.mark.parametrize(("page", "least"), [(TOUR, 25), (RECIPES, 25)], ids=["tour", "recipes"])
def test_references_are_found_when_a_page_lives_by_them(page: Path, least: int) -> None:
    assert len(set(list_code_references(page.read_text()))) >= least
    assert {reference.name is None for reference in list_code_references(page.read_text())} == {True, False}


def test_problem_is_named_when_a_reference_is_stale(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("LIMIT = 1\n\nclass Box:\n    size: int\n    def open(self): ...\n")
    assert find_problem(Reference("b.py"), roots=(tmp_path,)) == "b.py: no such file"
    assert find_problem(Reference("a.py", "Box.close"), roots=(tmp_path,)) == "a.py: defines no Box.close"
    for name in (None, "LIMIT", "Box", "Box.open", "Box.size"):
        assert find_problem(Reference("a.py", name), roots=(tmp_path,)) is None


def test_references_are_read_when_a_page_has_several() -> None:
    text = "See `app/a.py:f` and `b.py`, [c](../c.md#d), [web](https://example.org).\n$ make check\nRun `make fmt`.\n"
    assert list_code_references(text) == [Reference("app/a.py", "f"), Reference("b.py")]
    assert list_links(text) == ["../c.md"]
    assert list_make_targets(text) == ["check", "fmt"]


@pages
def test_url_and_api_mean_the_same_on_every_page_when_commands_use_them(page: Path) -> None:
    text = page.read_text()
    defined = re.findall(r"^(?:URL=|api\(\)).*", text, re.MULTILINE)
    is_used = re.search(r"\$URL\b|^\$ api ", text, re.MULTILINE) is not None
    assert defined == (API_DEFINITIONS if is_used else [])
