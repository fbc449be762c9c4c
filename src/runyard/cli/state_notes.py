"""Says what a run is doing while a command waits for it and shows nothing else."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from runyard.cli.output import print_note
from runyard.sdk.errors import RunyardError
from runyard.sdk.sync.run import Run

FIRST_SECONDS = 1.0
"""A wait that is over sooner is not worth a note."""
POLL_SECONDS = 1.0


@contextmanager
def note_states(run: Run) -> Iterator[Event]:
    """Print the state of the run after a second, and when it changes, until the event is set or the block ends.

    How the run ended is left to the caller.
    """
    is_over = Event()
    watched = copy.copy(run)  # read again by the thread alone
    Thread(target=_watch, args=(watched, is_over), daemon=True).start()
    try:
        yield is_over
    finally:
        is_over.set()


def _watch(run: Run, is_over: Event) -> None:
    shown, pause = "", FIRST_SECONDS
    while not is_over.wait(pause):
        pause = POLL_SECONDS
        try:
            run.refresh()
        except RunyardError:
            continue  # whoever waits reports it
        except RuntimeError:
            return  # the client was closed meanwhile
        if run.has_ended:
            return
        if run.describe() != shown and not is_over.is_set():
            shown = run.describe()
            print_note(f"run {run.id}: {shown}")
