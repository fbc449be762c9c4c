"""Password hashing with argon2id, on its own threads."""

import asyncio
import secrets
import unicodedata
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from runyard.app.errors import TooMany
from runyard.app.identity import MOST_PASSWORD_CHARACTERS

WORKERS = 2
MOST_WAITING = 64
_SALT_BYTES, _HASH_BYTES = 16, 32
_Result = TypeVar("_Result")


class Passwords:
    """`app.identity.accounts.PasswordHasher`. Each hash is expensive on purpose."""

    def __init__(self, *, hasher: PasswordHasher | None = None, most_waiting: int = MOST_WAITING) -> None:
        self._hasher = hasher or PasswordHasher()
        self._threads = ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="passwords")
        self._most_waiting = most_waiting
        self._waiting = 0
        self._nobodys_hash = self._make_nobodys_hash()

    async def hash(self, password: str) -> str:
        """The hash to store. Raises `TooMany` if the queue is full."""
        encoded = _encode(password)
        return await self._run(lambda: self._hasher.hash(encoded))

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Whether the password matches. Raises `TooMany` if the queue is full.

        Without a hash it never matches but takes as long, so that the time does not reveal which accounts exist
        (timing attack).
        """
        encoded = _encode(password)
        stored = password_hash or self._nobodys_hash
        is_right = await self._run(lambda: self._is_right(stored, encoded))
        return is_right and password_hash is not None

    def close(self) -> None:
        """Stop the threads when they are idle."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _is_right(self, stored: str, encoded: bytes) -> bool:
        try:
            return self._hasher.verify(stored, encoded)
        except (VerificationError, InvalidHashError):
            return False

    async def _run(self, work: Callable[[], _Result]) -> _Result:
        if self._waiting >= self._most_waiting:
            raise TooMany("too many passwords are being checked; try again in a second", retry_after=1.0)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= 1

    def _make_nobodys_hash(self) -> str:
        """A hash that matches no password but takes as long to check as any other."""
        salt, digest = (
            b64encode(secrets.token_bytes(size)).decode().rstrip("=") for size in (_SALT_BYTES, _HASH_BYTES)
        )
        costs = f"m={self._hasher.memory_cost},t={self._hasher.time_cost},p={self._hasher.parallelism}"
        return f"$argon2id$v=19${costs}${salt}${digest}"


def _encode(password: str) -> bytes:
    """Normalize (NFC), so that composed and decomposed letters are the same. Never fails.

    That takes quadratic time and holds the GIL, so longer texts than a password can be stay as they are.
    """
    is_possible = len(password) <= MOST_PASSWORD_CHARACTERS
    normal = unicodedata.normalize("NFC", password) if is_possible else password
    return normal.encode("utf-8", "surrogatepass")
