"""Run by a test inside a mount namespace with a tiny disk: `python full_disk_scenario.py DISK ELSEWHERE`."""

import sys
import time
from pathlib import Path

from runyard.procs import Plan, State, is_supervised, read_state, start
from tests.unit.procs.lab import shell, wait_for


def main(disk: Path, elsewhere: Path) -> None:
    """Fill the disk while a command runs: it must go on, and its end must be known when there is room again."""
    folder = disk / "one"
    folder.mkdir()
    script = (
        f"while [ ! -e {elsewhere}/go ]; do sleep 0.05; done; head -c 200000 /dev/zero; touch {elsewhere}/end; exit 3"
    )
    start(folder, Plan(main=shell(script)), listeners=elsewhere / "listeners")
    wait_for(lambda: get_state(folder).phase == "running")
    with (disk / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(4096))
        except OSError:
            pass
    (elsewhere / "go").touch()
    wait_for((elsewhere / "end").exists)
    time.sleep(1.5)
    assert is_supervised(folder)
    assert get_state(folder).phase == "running"
    (disk / "filler").unlink()
    wait_for(lambda: get_state(folder).is_ended)
    (instance,) = get_state(folder).instances
    assert instance.exit_code == 3
    assert instance.dropped_bytes > 0
    assert instance.dropped_bytes + instance.log_bytes == 200_000
    assert (folder / "log" / "main.0").stat().st_size == instance.log_bytes
    wait_for(lambda: not is_supervised(folder))
    assert (folder / "errors").read_text() == ""
    sys.stdout.write("as it should be\n")


def get_state(folder: Path) -> State:
    """The state, which must be whole at any moment."""
    state = read_state(folder)
    assert state is not None
    return state


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
