"""What the exit of a container says: its signal, its memory, and the reason of its end."""

from runyard.domain.reasons import Reason
from runyard.engines.kubernetes.views import PodView, Terminated
from runyard.pods.termination import REQUIREMENTS_STEP, find_failed_step
from runyard.spec.kubernetes.quantity import Quantity, QuantityError

OUT_OF_MEMORY = "OOMKilled"
START_ERRORS = frozenset({"StartError", "ContainerCannotRun", "RunContainerError"})
MOST_SIGNAL = 64
LONGEST_QUANTITY = 64
"""How many characters an amount of memory in a pod's spec may have to be read."""


def classify_exit(ended: Terminated) -> Reason:
    """Why an instance of a container failed, by its own words."""
    if ended.reason == OUT_OF_MEMORY:
        return Reason.MEMORY_EXCEEDED
    if ended.reason in START_ERRORS:
        return Reason.START_FAILED
    is_environment = find_failed_step(ended.message) == REQUIREMENTS_STEP
    return Reason.ENVIRONMENT_FAILED if is_environment else Reason.RUN_FAILED


def find_signal(ended: Terminated) -> int | None:
    """The signal that ended a process. Container runtimes report it as 128 + its number, as shells do."""
    if ended.signal:
        return ended.signal
    return ended.exit_code - 128 if 0 < ended.exit_code - 128 <= MOST_SIGNAL else None


def read_memory(pod: PodView, container: str) -> tuple[int | None, int | None]:
    """The limit and the request of a container, in bytes; None if it has none, or none that can be read."""
    found = next((each for each in pod.spec.containers if each.name == container), None)
    if found is None:
        return None, None
    return _read_bytes(found.resources.limits.memory), _read_bytes(found.resources.requests.memory)


def _read_bytes(text: str) -> int | None:
    if not text or len(text) > LONGEST_QUANTITY:
        return None
    try:
        return int(Quantity.parse(text).value)
    except QuantityError:
        return None
