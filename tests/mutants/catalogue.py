"""The planted mutants, read from `planted/*.toml`."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLANTED = Path(__file__).parent / "planted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One fault: `find` becomes `replace` in `file`, and one of `tests` must fail because of it."""

    id: str
    file: str
    """Path below the repository root."""
    find: str
    """Occurs exactly once in the file."""
    replace: str
    tests: tuple[str, ...]
    """Arguments of pytest: folders, files, test ids, `-k` and its expression."""

    def plant(self, text: str) -> str:
        """Return the text of the file with the fault in it. Raises `ValueError` if the mutant no longer applies."""
        count = text.count(self.find)
        if count != 1:
            raise ValueError(f"{self.id}: `find` occurs {count} times in {self.file}; it must occur once")
        return text.replace(self.find, self.replace)


def load_mutants(folder: Path = PLANTED) -> list[Mutant]:
    """Return every planted mutant, in the order of the files. Raises `ValueError` if an id is used twice."""
    mutants = [_read(entry, file) for file in sorted(folder.glob("*.toml")) for entry in _list_entries(file)]
    known: set[str] = set()
    for mutant in mutants:
        if mutant.id in known:
            raise ValueError(f"{mutant.id}: two mutants have this id")
        known.add(mutant.id)
    return mutants


def list_tests(mutants: Sequence[Mutant]) -> list[tuple[str, ...]]:
    """Return the test selections of these mutants, each once."""
    return list(dict.fromkeys(mutant.tests for mutant in mutants))


def _list_entries(file: Path) -> list[dict[str, object]]:
    entries: list[dict[str, object]] = tomllib.loads(file.read_text())["mutant"]
    return entries


def _read(entry: dict[str, object], file: Path) -> Mutant:
    tests = entry["tests"]
    if not isinstance(tests, list) or not tests or set(entry) != {"id", "file", "find", "replace", "tests"}:
        raise ValueError(f"{file.name}: {entry.get('id')}: needs id, file, find, replace and a list of tests")
    values = {key: str(value) for key, value in entry.items() if key != "tests"}
    return Mutant(**values, tests=tuple(str(test) for test in tests))
