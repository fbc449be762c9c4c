"""The section `light`: `import runyard` and the base install beside `digitalhub`, in environments of one Python."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.report import Cell, Goal, Section, Table, progress
from tests.e2e.sdk.environments import ensure_packages

ROUNDS = 15
IMPORT_GOAL = 0.2
SIZE_GOAL = 0.05
NOTES = (
    "Each import is a new process; the time of `python -c pass` is subtracted. Rounds take the programs in turn, with",
    "byte code compiled and files in the page cache. Goals are held against the medians of processor time.",
    "A time below what can be measured is 0. Sizes are those of site-packages without byte code. Their goal is held",
    "against digitalhub with the runtimes of python and container functions; the table has the SDK alone as well.",
)
_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_UV = Path(sys.executable).parent / "uv"
_EVERY_NAME = "import runyard; [getattr(runyard, name) for name in getattr(runyard, '__all__', ())]"
OURS, EVERY_NAME, THEIRS = "import runyard", "import runyard, every public name", "import digitalhub"
BASE, ALONE, WITH_RUNTIMES = "runyard", "digitalhub", "digitalhub with runtimes"
THEIRS_AND_RUNTIMES = "import digitalhub, runtimes installed"


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one process, in milliseconds."""

    cpu_ms: float
    wall_ms: float


def measure(rounds: int = ROUNDS) -> Section:
    """Make the environments, import in turns, and weigh."""
    progress("environments, made by uv and kept in its cache")
    theirs = ensure_packages("light-digitalhub", _HERE / "digitalhub.txt")
    runtimes = ensure_packages("light-digitalhub-runtimes", _HERE / "digitalhub-runtimes.txt")
    with TemporaryDirectory(prefix="runyard-light-") as folder:
        ours = _install_base(Path(folder))
        programs = {
            OURS: (ours, "import runyard"),
            EVERY_NAME: (ours, _EVERY_NAME),
            THEIRS: (theirs, "import digitalhub"),
            THEIRS_AND_RUNTIMES: (runtimes, "import digitalhub"),
        }
        costs = _measure_imports(programs, rounds)
        sizes = {
            BASE: _weigh(ours),
            ALONE: _weigh(theirs),
            WITH_RUNTIMES: _weigh(runtimes),
        }
    return _describe(costs, sizes, rounds)


def _install_base(folder: Path) -> Path:
    """The python of an environment with the wheel of this tree and nothing but what it needs."""
    _run([_UV, "--quiet", "build", "--wheel", "--out-dir", folder / "dist", _ROOT])
    (wheel,) = (folder / "dist").glob("*.whl")
    python = folder / "venv/bin/python"
    _run([_UV, "--quiet", "venv", "--python", sys.executable, folder / "venv"])
    options: list[str | Path] = ["--compile-bytecode", "--constraint", _ROOT / "constraints.txt", "--python", python]
    _run([_UV, "--quiet", "pip", "install", *options, wheel])
    return python


def _run(words: list[str | Path]) -> None:
    subprocess.run(words, check=True, cwd=_ROOT)


def _measure_imports(programs: Mapping[str, tuple[Path, str]], rounds: int) -> dict[str, Cost]:
    found: dict[str, list[Cost]] = {name: [] for name in programs}
    for number in range(rounds + 1):
        progress(f"imports, round {number} of {rounds}")
        for name, (python, code) in programs.items():
            bare, loaded = _start(python, "pass"), _start(python, code)
            if number:  # round 0 fills the page cache
                found[name].append(Cost(loaded.cpu_ms - bare.cpu_ms, loaded.wall_ms - bare.wall_ms))
    return {
        name: Cost(max(0.0, median(cost.cpu_ms for cost in costs)), max(0.0, median(cost.wall_ms for cost in costs)))
        for name, costs in found.items()
    }


def _start(python: Path, code: str) -> Cost:
    begun = time.perf_counter()
    process = subprocess.Popen([python, "-I", "-c", code], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{python} -c {code!r} failed")
    return Cost((usage.ru_utime + usage.ru_stime) * 1000, (time.perf_counter() - begun) * 1000)


def _weigh(python: Path) -> float:
    """Megabytes of the packages of an environment."""
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    files = [path for path in packages.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return sum(path.stat().st_size for path in files) / 1e6


def _describe(costs: Mapping[str, Cost], sizes: Mapping[str, float], rounds: int) -> Section:
    theirs = costs[THEIRS]
    imports: list[list[Cell]] = [
        [name, cost.cpu_ms, cost.wall_ms, 100 * cost.cpu_ms / theirs.cpu_ms] for name, cost in costs.items()
    ]
    weights: list[list[Cell]] = [
        [name, size, 100 * size / sizes[ALONE], 100 * size / sizes[WITH_RUNTIMES]] for name, size in sizes.items()
    ]
    return Section(
        title="light: the base install beside the published SDK",
        tables=[
            Table(f"imports, medians of {rounds} rounds", ["", "CPU ms", "wall ms", "% of digitalhub"], imports),
            Table("packages on disk", ["", "MB", "% of digitalhub", "% with runtimes"], weights),
        ],
        goals=[
            Goal("import runyard / import digitalhub", costs[OURS].cpu_ms / theirs.cpu_ms, at_most=IMPORT_GOAL),
            Goal("base install / digitalhub with runtimes", sizes[BASE] / sizes[WITH_RUNTIMES], at_most=SIZE_GOAL),
        ],
        notes=NOTES,
    )
