"""Hashes of passwords: argon2id, on threads of its own, so that nothing else waits for it."""

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

WORKERS = 2
MOST_WAITING = 64
_SALT_BYTES, _HASH_BYTES = 16, 32
_Result = TypeVar("_Result")


class Passwords:
    """`app.identity.accounts.PasswordHasher`. Each hash takes a good part of a second of a processor, on purpose."""

    def __init__(self, *, hasher: PasswordHasher | None = None, most_waiting: int = MOST_WAITING) -> None:
        self._hasher = hasher or PasswordHasher()
        self._threads = ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="passwords")
        self._most_waiting = most_waiting
        self._waiting = 0
        self._nobodys_hash = self._make_nobodys_hash()

    async def hash(self, password: str) -> str:
        """What is stored. Raises `TooMany` if too many wait already."""
        encoded = _encode(password)
        return await self._run(lambda: self._hasher.hash(encoded))

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Whether it is the password. Without a hash, never, after just as much work. Raises `TooMany`."""
        encoded = _encode(password)
        stored = password_hash or self._nobodys_hash
        is_right = await self._run(lambda: self._is_right(stored, encoded))
        return is_right and password_hash is not None

    def close(self) -> None:
        """End the threads once they have nothing to do."""
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
        """A hash that no password has, but that takes as long to check as any."""
        salt, digest = (
            b64encode(secrets.token_bytes(size)).decode().rstrip("=") for size in (_SALT_BYTES, _HASH_BYTES)
        )
        costs = f"m={self._hasher.memory_cost},t={self._hasher.time_cost},p={self._hasher.parallelism}"
        return f"$argon2id$v=19${costs}${salt}${digest}"


def _encode(password: str) -> bytes:
    """The same password is the same bytes, whichever way a keyboard composes its letters; none is unencodable."""
    return unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")
