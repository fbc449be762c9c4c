"""Runs a supervisor: `python -S -I __main__.py FOLDER LISTENERS`, the plan at descriptor 3 and the lock at 4."""

import os
import sys


def _name_packages() -> None:
    """Let `runyard.procs.supervisor` be imported without running the `__init__` of the packages above it.

    They import the client's side, which takes several times the memory of a supervisor.
    """
    procs = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for name, path in (("runyard", os.path.dirname(procs)), ("runyard.procs", procs)):
        package = type(sys)(name)
        package.__path__ = [path]
        sys.modules[name] = package


if __name__ == "__main__":
    _name_packages()
    from runyard.procs.supervisor.lifecycle import supervise

    supervise(sys.argv[1], sys.argv[2], plan_descriptor=3, lock_descriptor=4)
