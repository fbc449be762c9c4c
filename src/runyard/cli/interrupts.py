"""Ctrl-C at a question: Python forgets one that comes between the words of the question and the read after them."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_AGAIN_SECONDS = 0.05
_HARMLESS = signal.SIGURG
"""Sent to interrupt a read; Python then handles the Ctrl-C that it has noted."""


@contextmanager
def repeat_interrupts() -> Iterator[None]:
    """Interrupt reads of the main thread, as often as it takes, once Ctrl-C was pressed. Only on the main thread.

    Python's C handler only notes a signal. If it does so just before a read of the terminal begins, that read waits for
    a key, and the note is not looked at. The C handler also writes to a descriptor, which a thread waits for here.
    """
    wake, written = os.pipe()
    os.set_blocking(written, False)
    main, is_over = threading.get_ident(), threading.Event()
    before = signal.signal(_HARMLESS, lambda *_: None)
    descriptor = signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    thread = threading.Thread(target=_repeat, args=(wake, main, is_over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(descriptor)
        is_over.set()
        os.write(written, b"\0")
        thread.join()
        signal.signal(_HARMLESS, before)
        os.close(wake)
        os.close(written)


def _repeat(wake: int, main: int, is_over: threading.Event) -> None:
    while not is_over.is_set() and signal.SIGINT not in os.read(wake, 64):
        pass
    while not is_over.wait(_AGAIN_SECONDS):
        signal.pthread_kill(main, _HARMLESS)
