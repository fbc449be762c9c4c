"""The step before a container's command: waits until the init container before it has ended well.

Run by path, with the standard library alone: `python init_wait.py SUPERVISION COMMAND`. It needs no agent, so that a
pod begins although the agent is restarted. Exits with 1 if the init container has failed for good.
"""

import json
import sys
import time

POLL_SECONDS = 0.1
MOST_BYTES = 1 << 20


def find_outcome(state_file: str, command: str) -> bool | None:
    """Whether the command has ended well; None: it has not ended, or nobody knows yet."""
    try:
        with open(state_file, "rb") as file:  # noqa: PTH123 - a small program starts faster without pathlib
            state = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError):
        return None
    if state.get("phase") != "ended":
        return None
    codes = [each.get("exit_code") for each in state.get("instances", ()) if each.get("command") == command]
    return bool(codes) and codes[-1] == 0


def main(state_file: str, command: str) -> int:
    """Wait; the exit code."""
    while (outcome := find_outcome(state_file, command)) is None:
        time.sleep(POLL_SECONDS)
    return 0 if outcome else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
