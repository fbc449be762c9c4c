"""What all tests share: the hypothesis profile, and how they take an interrupt.

Examples have no deadline, and slow data generation is not a failure: on a fresh checkout the first text that hypothesis
draws builds its Unicode tables, and the machine runs several test processes at once.
"""

import signal
import threading

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("runyard", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("runyard")


def pytest_configure(config: pytest.Config) -> None:
    """Heed SIGINT also as a background job of a shell, which ignores it: programs that tests interrupt inherit that."""
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if is_ignored and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
