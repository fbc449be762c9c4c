"""The termination message of a container: what the program or the launcher left in its termination log.

The launcher writes one line of JSON there (`launcher/termination_log.py`); any other program may write what it likes.
"""

import json
from typing import Any

REQUIREMENTS_STEP = "requirements"
"""The step that the launcher names if the function's requirements could not be installed."""
LARGEST_PEAK_BYTES = 1 << 50
"""The largest peak of memory that a program may say it had: the number is the program's own."""


def read_termination(text: str | None) -> tuple[str | None, int | None]:
    """The message and the peak of memory that the launcher left, or whatever else the program left as its message."""
    if not text or not text.strip():
        return None, None
    found = _find_record(text)
    if found is None:
        return text.strip(), None
    message, peak = found.get("message"), found.get("peak_bytes")
    return (
        message if isinstance(message, str) and message else None,
        peak if type(peak) is int and 0 <= peak <= LARGEST_PEAK_BYTES else None,
    )


def find_failed_step(text: str | None) -> str | None:
    """The step of its preparation that the launcher says failed; only one that is known."""
    found = _find_record(text or "")
    return REQUIREMENTS_STEP if found is not None and found.get("step") == REQUIREMENTS_STEP else None


def _find_record(text: str) -> dict[str, Any] | None:
    """The launcher's line; None if the text is another program's."""
    try:
        found = json.loads(text.strip())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.get("runyard") == 1 else None
