"""Why a command could not be started."""

MOUNT_IMPOSSIBLE = "mount.impossible"
USER_IMPOSSIBLE = "user.impossible"
START_FAILED = "start.failed"
STEP_FAILED = "step.failed"
SUPERVISOR_LOST = "supervisor.lost"
LONGEST_MESSAGE_CHARACTERS = 2000
"""How much of a message is kept."""


class Failed(Exception):
    """The supervision cannot go on; `code` and message become the failure in its state."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message[:LONGEST_MESSAGE_CHARACTERS])
        self.code = code
