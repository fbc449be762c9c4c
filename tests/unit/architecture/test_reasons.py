"""Run reasons and problem codes are declared once, are pinned in tests/data/codes, and are on the pages for users."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import runyard
from runyard.domain.reasons import Reason
from runyard.spec.problem_codes import Code
from tests.unit.architecture.reasons_page import PAGE, render_page

SOURCES = Path(runyard.__file__).parent
TABLES = ("domain/reasons.py", "spec/problem_codes.py", "procs/supervisor/failures.py")
"""The last one is the table of `procs`, which knows nothing of runs: the local engine passes its codes on."""
RULED_FIELD = "volumes.type"
"""The path of a field in a policy as well; these modules speak of the field."""
RULED_FIELD_MODULES = (
    "domain/admission/facts.py",
    "domain/rule_checks.py",
    "engines/kubernetes/project_rules/inexpressible.py",
    "engines/kubernetes/project_rules/volume_checks.py",
    "spec/rule_grammar.py",
)
TAKE_A_CODE_FIRST = (
    "EngineError",
    "EngineRefusal",
    "EngineUnavailable",
    "Failure",
    "NotPossible",
    "NotSupported",
    "Problem",
    "refuse",
)

TAKE_A_REASON = ("Deadline", "Move", "Observation", "Outcome", "Run", "make_first_transitions")
PINNED = Path(__file__).parents[2] / "data" / "codes"
TROUBLES = PAGE.with_name("troubleshooting.md")
NO_TROUBLE = {
    Reason.ENGINE_RELEASED: "a run that starts as it should",
    Reason.PROJECT_REMOVING: "of projects",
    Reason.VOLUME_LOST: "of volumes",
    Reason.VOLUME_TAKEN: "of volumes",
}
"""Reasons of the Kubernetes engine that the page about troubles leaves out."""


def test_run_reasons_are_these_when_listed() -> None:
    assert sorted(Reason) == (PINNED / "run_reasons.txt").read_text(encoding="utf-8").splitlines()


def test_problem_codes_are_these_when_listed() -> None:
    assert sorted(Code) == (PINNED / "problem_codes.txt").read_text(encoding="utf-8").splitlines()


def test_every_code_has_its_meaning_when_listed() -> None:
    assert [code for code in Code if not code.meaning] == []
    assert [reason for reason in Reason if not reason.meaning or not reason.remedy] == []


def test_members_are_named_by_their_codes_when_listed() -> None:
    for member in (*Code, *Reason):
        assert member.name == member.value.upper().replace(".", "_")


def test_no_code_is_written_out_when_it_has_a_name() -> None:
    named = {member.value for member in (*Code, *Reason)}
    assert [found for found in _iter_literals() if found[2] in named and not _is_excused(found[0], found[2])] == []


def test_no_undeclared_code_is_written_when_a_code_is_expected() -> None:
    assert list(_iter_undeclared()) == []


def test_page_for_users_is_up_to_date_when_compared_with_the_codes() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_page(), "run `make docs`"


def test_page_about_troubles_explains_every_reason_when_a_cluster_causes_it() -> None:
    named = set(re.findall(r"`([a-z_]+\.[a-z_]+)`", TROUBLES.read_text(encoding="utf-8")))
    engine = [path.read_text(encoding="utf-8") for path in (SOURCES / "engines" / "kubernetes").rglob("*.py")]
    caused = {Reason[name] for text in engine for name in re.findall(r"\bReason\.([A-Z_]+)", text)}
    assert len(caused) > 40
    assert caused - named == NO_TROUBLE.keys()
    assert {each for each in named if not each.startswith("status.")} <= set(Reason)


def _iter_trees() -> Iterator[tuple[str, ast.AST]]:
    for path in sorted(SOURCES.rglob("*.py")):
        yield path.relative_to(SOURCES).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def _iter_literals() -> Iterator[tuple[str, int, str]]:
    for name, tree in _iter_trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield name, node.lineno, node.value


def _is_excused(module: str, literal: str) -> bool:
    is_field = literal == RULED_FIELD and module in RULED_FIELD_MODULES
    return module in TABLES or is_field


def _iter_undeclared() -> Iterator[tuple[str, int, str]]:
    """Literals where a code or a reason is expected; mypy holds the types of `Problem`, but not of reasons."""
    for name, tree in _iter_trees():
        if name.startswith("kube/"):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.id if isinstance(node.func, ast.Name) else ""
            given = node.args[:1] if called in TAKE_A_CODE_FIRST else []
            given += [word.value for word in node.keywords if word.arg == "reason" and called in TAKE_A_REASON]
            for argument in given:
                if isinstance(argument, ast.JoinedStr | ast.Constant) and ast.unparse(argument) != "None":
                    yield name, node.lineno, ast.unparse(argument)
