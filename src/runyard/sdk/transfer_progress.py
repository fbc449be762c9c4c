"""How far the upload or download of some files is."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

Phase = Literal["checking", "uploading", "downloading"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferProgress:
    """How far it is. `checking` is the local reading of a file for its digest."""

    phase: Phase
    path: str = ""
    """The file that it is at."""
    done_bytes: int = 0
    total_bytes: int
    """Of all files together."""
    problem: str | None = None
    """Why it pauses; another attempt follows."""


OnProgress = Callable[[TransferProgress], None]


class TransferMeter:
    """Counts bytes over several files, and tells somebody. Bytes that must be sent again are taken back."""

    def __init__(self, on_progress: OnProgress | None, *, phase: Phase, total_bytes: int) -> None:
        self._on_progress = on_progress
        self._now = TransferProgress(phase=phase, total_bytes=total_bytes)
        self._before = 0
        """Bytes of the files that are done."""

    def begin(self, path: str, *, phase: Phase) -> None:
        """Begin with a file, or with another phase of it."""
        self._tell(path=path, phase=phase, done_bytes=self._before)

    def add(self, size: int) -> None:
        """So many more bytes of the file are done."""
        self._tell(done_bytes=self._now.done_bytes + size)

    def move_to(self, offset: int) -> None:
        """So many bytes of the file are done, whatever was counted before."""
        self._tell(done_bytes=self._before + offset)

    def end(self, size: int) -> None:
        """The file is done, with so many bytes."""
        self._before += size
        self._tell(done_bytes=self._before)

    def report_problem(self, problem: str) -> None:
        """It pauses."""
        self._tell(problem=problem)

    def _tell(self, **changes: object) -> None:
        self._now = replace(self._now, **{"problem": None, **changes})  # type: ignore[arg-type]
        if self._on_progress is not None:
            self._on_progress(self._now)
