"""`python -m bench [SECTION …] [--json FILE]`: measure, print the figures, say which goals are met."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench import core, reflector, resolve, testbed_figures
from bench.local import section as local
from bench.loop import section as loop
from bench.report import Goal, Section, progress, render

SECTIONS: Mapping[str, Callable[[], Section]] = {
    "testbed": testbed_figures.measure,
    "reflector": reflector.measure,
    "resolve": resolve.measure,
    "core": core.measure,
    "loop": loop.measure,
    "local": local.measure,
}


def main(argv: Sequence[str]) -> int:
    """Run the sections that were asked for; the exit code is 0 whether or not goals are met."""
    known = ", ".join(SECTIONS)
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure, and print the figures.")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"{known}; all if none is named")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    arguments = parser.parse_args(argv)
    if unknown := [name for name in arguments.sections if name not in SECTIONS]:
        parser.error(f"no section {', '.join(unknown)}: there are {known}")
    machine = _describe_machine()
    print(" · ".join(f"{key} {value}" for key, value in machine.items()), flush=True)
    results = {}
    for name in arguments.sections or SECTIONS:
        progress(f"section {name}")
        results[name] = SECTIONS[name]()
        print(f"\n{render(results[name])}", flush=True)
    if arguments.json:
        document = {"machine": machine, "sections": {name: _to_plain(section) for name, section in results.items()}}
        arguments.json.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return 0


def _describe_machine() -> dict[str, str]:
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": str(os.cpu_count()),
        "memory": f"{memory_bytes / 2**30:.0f} GiB",
        "load": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
        "kernel": platform.release(),
    }


def _to_plain(section: Section) -> dict[str, object]:
    plain = asdict(section)
    plain["goals"] = [_goal_to_plain(goal) for goal in section.goals]
    return plain


def _goal_to_plain(goal: Goal) -> dict[str, object]:
    return {**asdict(goal), "is_met": goal.is_met}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
