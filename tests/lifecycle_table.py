"""Which state of a run may follow which, written by hand: what `domain.lifecycle` is held to."""

FOLLOWERS = {
    "CREATED": "BUILT READY RUNNING COMPLETED ERROR STOP DELETING",
    "BUILT": "READY RUNNING COMPLETED ERROR STOP DELETING",
    "READY": "PENDING RUNNING COMPLETED ERROR STOP DELETING",
    "PENDING": "RUNNING COMPLETED ERROR STOP DELETING",
    "RUNNING": "COMPLETED ERROR STOP DELETING",
    "COMPLETED": "DELETING",
    "ERROR": "DELETING",
    "STOP": "STOPPED DELETING",
    "STOPPED": "DELETING",
    "RESUME": "PENDING RUNNING ERROR STOP DELETING",
    "DELETING": "DELETED",
    "DELETED": "",
}


def may_follow(before: str, after: str, *, can_resume: bool = False) -> bool:
    """By the table; a stopped service may also be resumed."""
    return after in FOLLOWERS[before].split() or (can_resume and (before, after) == ("STOPPED", "RESUME"))
