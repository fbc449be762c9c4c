"""Errors of S3-compatible storage."""


class S3Error(Exception):
    """A request failed, also when repeated. `code` is S3's own, such as `AccessDenied`; empty without an answer."""

    def __init__(self, message: str, *, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status, self.code = status, code

    @property
    def is_full(self) -> bool:
        """Whether the storage has no room, or the quota of the bucket is used up."""
        return self.status == 507 or "StorageFull" in self.code or "QuotaExceeded" in self.code


class ObjectMissing(Exception):
    """There is no such object, or it ends before the bytes that were asked for, or it has been replaced."""
