"""Servers that start quickly, so that a hundred can be killed: everything is imported once, and each is a fork.

A line on standard input, JSON of the arguments of `runyard server`, starts one, which is `runyard.bootstrap.serve`
in a process of its own; the answer is its process id. Its output goes to the file that the line names.
"""

import json
import os
import sys
from pathlib import Path

from runyard.bootstrap import serve
from runyard.settings import read_settings


def main() -> None:
    """Until standard input ends; servers that are killed meanwhile are reaped."""
    for line in sys.stdin:
        asked = json.loads(line)
        if "previous" in asked:
            os.waitpid(asked["previous"], 0)
        process_id = os.fork()
        if process_id == 0:
            _become_server(asked)
        sys.stdout.write(f"{process_id}\n")
        sys.stdout.flush()


def _become_server(asked: dict[str, object]) -> None:
    code = 1
    try:
        output = os.open(Path(str(asked["output"])), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for descriptor in (1, 2):
            os.dup2(output, descriptor)
        os.close(0)
        flags = asked["flags"]
        assert isinstance(flags, dict)
        serve(read_settings(flags).settings)
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
