"""Check name and password: rate-limited before hashing, cached for a minute, one error message for every failure."""

import asyncio

from runyard.app.core import Core
from runyard.app.errors import TooMany, Unauthenticated
from runyard.app.identity import note_failure
from runyard.app.model import Account
from runyard.auth.credential_cache import CredentialCache
from runyard.auth.failure_limiter import FailureLimiter
from runyard.auth.headers import Basic
from runyard.auth.passwords import Passwords

_WRONG = "the name or the password is wrong"


class PasswordCheck:
    """Checks passwords for the authenticator."""

    def __init__(self, core: Core, *, passwords: Passwords, limiter: FailureLimiter) -> None:
        self._core = core
        self._passwords = passwords
        self._limiter = limiter
        self._verified: CredentialCache[bool] = CredentialCache()
        self._pending: dict[bytes, asyncio.Task[bool]] = {}

    async def find_account(self, given: Basic, *, address: str | None) -> Account:
        """The account. Raises `Unauthenticated` with the same message whatever is wrong, or `TooMany`."""
        async with self._core.store.begin(is_read_only=True) as unit:
            account = await unit.accounts.find(given.name)
        password_hash = None if account is None or account.is_disabled else account.password_hash
        # The stored hash is part of the key, so that changing the password invalidates the cache.
        key = self._verified.make_key(given.name, password_hash or "", given.password)
        is_right = password_hash is not None and self._verified.find(key) is not None
        if not is_right:
            is_right = await self._verify_once(key, given, account, password_hash=password_hash, address=address)
            if is_right:
                self._verified.put(key, value=True)
        if account is None or not is_right:
            raise Unauthenticated(_WRONG)
        return account

    async def _verify_once(
        self, key: bytes, given: Basic, account: Account | None, *, password_hash: str | None, address: str | None
    ) -> bool:
        """Share one verification between concurrent requests with the same credentials."""
        task = self._pending.get(key)
        if task is None:
            task = asyncio.create_task(self._verify(given, account, password_hash=password_hash, address=address))
            self._pending[key] = task
            task.add_done_callback(lambda done: self._forget(key, done))
        # A client that disconnects must not cancel it for the others, nor get its attempt back.
        return await asyncio.shield(task)

    async def _verify(
        self, given: Basic, account: Account | None, *, password_hash: str | None, address: str | None
    ) -> bool:
        attempt = self._limiter.take(given.name, address=address)
        try:
            is_right = await self._passwords.verify(password_hash, given.password)
        except TooMany:
            self._limiter.give_back(attempt, is_right=False)
            raise
        if is_right:
            self._limiter.give_back(attempt)
        else:
            await note_failure(self._core, None if account is None else account.name, address=address)
        return is_right

    def _forget(self, key: bytes, done: asyncio.Task[bool]) -> None:
        del self._pending[key]
        if not done.cancelled():
            done.exception()  # retrieved, so that asyncio does not warn
