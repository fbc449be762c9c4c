"""What containers really printed: hard links to the kubelet's log files, which outlive the pods.

The kubelet removes the log of a deleted pod at once. A hard link made before keeps the file, and what the container
still writes to it.
"""

import os
import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

POLL_SECONDS = 0.25
_LINE = re.compile(rb"(\S+) (?:stdout|stderr) ([FP]) (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PrintedLine:
    """A line, and when the container runtime wrote it down."""

    text: str
    at: float | None = None
    """Seconds since the epoch; None: unknown."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance of a container."""

    pod_uid: str
    pod: str
    container: str
    number: int


class KeptLogs:
    """Keeps every log file of one namespace; a thread looks for new ones. Use it as `with`."""

    def __init__(self, source: Path, kept: Path, *, namespace: str) -> None:
        self._source, self._kept = source, kept
        self._prefix = f"{namespace}_"
        self._known: dict[int, tuple[Instance, Path]] = {}
        """By inode: a rotated file is another one."""
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kept-logs", daemon=True)

    def __enter__(self) -> "KeptLogs":
        self._kept.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join(10)

    def read(self) -> Mapping[Instance, list[PrintedLine]]:
        """The lines of every instance so far, in their order."""
        found: dict[Instance, list[PrintedLine]] = {}
        for instance, path in list(self._known.values()):
            found.setdefault(instance, []).extend(read_container_log(path))
        return found

    def _run(self) -> None:
        while not self._done.wait(POLL_SECONDS):
            with suppress(OSError):
                self._look()

    def _look(self) -> None:
        for pod in os.scandir(self._source):
            if not pod.name.startswith(self._prefix):
                continue
            _, name, uid = pod.name.split("_")
            with suppress(FileNotFoundError):
                for container in os.scandir(pod):
                    for file in os.scandir(container):
                        self._keep(file, Instance(uid, name, container.name, _read_number(file.name)))

    def _keep(self, file: os.DirEntry[str], instance: Instance) -> None:
        inode = file.inode()
        if inode in self._known or not file.is_file(follow_symlinks=False):
            return
        path = self._kept / f"{instance.pod}_{instance.container}_{instance.number}_{inode}.log"
        with suppress(FileNotFoundError):
            os.link(file.path, path)
            self._known[inode] = (instance, path)


def read_container_log(path: Path) -> list[PrintedLine]:
    """The lines of a log in the container runtime's format. Parts of a long line are joined, with the first stamp."""
    lines, begun, begun_at = list[PrintedLine](), b"", 0.0
    for raw in path.read_bytes().split(b"\n"):
        match = _LINE.fullmatch(raw)
        if match is None:
            continue
        begun_at = begun_at if begun else datetime.fromisoformat(match[1].decode()).timestamp()
        begun += match[3]
        if match[2] == b"F":
            lines.append(PrintedLine(begun.decode(errors="replace"), begun_at))
            begun = b""
    return [*lines, PrintedLine(begun.decode(errors="replace"), begun_at)] if begun else lines


def _read_number(name: str) -> int:
    return int(name.partition(".")[0])
