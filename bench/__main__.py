"""`python -m bench [SECTION …] [--only MEASURE] [--small] [--json FILE]`: print the figures beside their goals."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from bench import core, log_following, reflector, resolve, testbed_figures
from bench.cluster import section as cluster
from bench.light import section as light
from bench.local import section as local
from bench.loop import section as loop
from bench.node import section as node
from bench.report import Goal, Section, progress, render

SECTIONS: Mapping[str, Callable[[], Section]] = {
    "testbed": testbed_figures.measure,
    "reflector": reflector.measure,
    "resolve": resolve.measure,
    "core": core.measure,
    "loop": loop.measure,
    "local": local.measure,
    "light": light.measure,
    "logs": log_following.measure,
    "cluster": cluster.measure,
    "node": node.measure,
}
MEASURES = (*cluster.MEASURES, *node.MEASURES)


def main(argv: Sequence[str]) -> int:
    """Run the sections that were asked for; the exit code is 0 whether or not goals are met."""
    # Servers that are measured have bytecode, as installed ones do: else each start would compile all modules.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    known = ", ".join(SECTIONS)
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure, and print the figures.")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"{known}; all if none is named")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument(
        "--only",
        action="append",
        metavar="MEASURE",
        choices=MEASURES,
        help="of cluster and node, only this",
    )
    parser.add_argument("--small", action="store_true", help="the sections cluster and node in small, for development")
    arguments = parser.parse_args(argv)
    if unknown := [name for name in arguments.sections if name not in SECTIONS]:
        parser.error(f"no section {', '.join(unknown)}: there are {known}")
    machine = _describe_machine()
    print(" · ".join(f"{key} {value}" for key, value in machine.items()), flush=True)
    only, is_small = arguments.only or MEASURES, arguments.small
    sections: dict[str, Callable[[], Section]] = {
        **SECTIONS,
        "cluster": partial(cluster.measure, cluster.SMALL if is_small else cluster.FULL, only=only),
        "node": partial(node.measure, node.SMALL if is_small else node.FULL, only=only),
    }
    results = {}
    for name in arguments.sections or SECTIONS:
        progress(f"section {name}")
        results[name] = sections[name]()
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
