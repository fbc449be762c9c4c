"""The signing keys of tokens: ES256, encrypted by the vault, shared by all replicas through the store, rotated by age.

They are stored as one encrypted value without a project. The first replica to write wins; the others read its keys. An
old key is published until every token that it signed has expired.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from joserfc.jwk import ECKey

from runyard.app.audit import note_act
from runyard.app.core import Core
from runyard.app.model import Json, Principal
from runyard.app.ports import UnitOfWork

ALGORITHM = "ES256"
PLACE = ("", "signing-keys")
"""Project and name of the encrypted value; no user's project has an empty name."""
KEY_LIFE = timedelta(days=30)
READ_EVERY = timedelta(minutes=1)
SOUGHT_EVERY = timedelta(seconds=5)
"""Minimum interval between lookups of unknown key ids, which anyone can send."""
_SYSTEM = Principal(name="system", is_admin=True, via="system")


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key, and when it was created."""

    key: ECKey
    made_at: datetime

    @property
    def id(self) -> str:
        """The `kid` in its tokens."""
        return str(self.key.kid)

    def __repr__(self) -> str:
        return f"SigningKey({self.id})"


class SigningKeys:
    """The signing keys, the same for all replicas of an installation."""

    def __init__(self, core: Core, *, longest_token: timedelta, key_life: timedelta = KEY_LIFE) -> None:
        self._core = core
        self._key_life = key_life
        # One more day: another replica may have signed with it shortly after the rotation.
        self._kept_for = longest_token + timedelta(days=1)
        self._keys: tuple[SigningKey, ...] = ()
        self._read_at: datetime | None = None
        self._turn = asyncio.Lock()

    async def prepare(self) -> None:
        """Load or create the current key. May write; never call it inside a unit of work."""
        if self._is_due(self._keys):
            async with self._turn:
                if self._is_due(self._keys):
                    await self._renew()

    @property
    def current(self) -> SigningKey:
        """The key that signs."""
        if not self._keys:
            raise RuntimeError("the signing keys were not prepared")
        return self._keys[-1]

    async def find(self, key_id: str) -> SigningKey | None:
        """By id. Looks in the store if unknown: another replica may have created it."""
        found = next((key for key in self._keys if key.id == key_id), None)
        if found is None and self._is_older(SOUGHT_EVERY):
            await self._read()
            found = next((key for key in self._keys if key.id == key_id), None)
        return found

    async def list_public(self) -> list[Json]:
        """The public parts of all keys that may have signed a valid token."""
        await self.prepare()
        if self._is_older(READ_EVERY):
            await self._read()
        return [dict(key.key.as_dict(private=False)) for key in self._keys]

    async def _read(self) -> None:
        self._read_at = self._core.clock.now()
        async with self._core.store.begin(is_read_only=True) as unit:
            self._keys = (await self._load(unit))[0]

    async def _renew(self) -> None:
        async with self._core.store.begin() as unit:
            await unit.lock("signing-keys")
            keys, version = await self._load(unit)
            if self._is_due(keys):
                keys = self._succeed(keys)
                await unit.secrets.delete(*PLACE)
                await unit.secrets.put(self._core.vault.seal(*PLACE, version + 1, _write(keys)))
                details = {"key": keys[-1].id, "kept": [key.id for key in keys[:-1]]}
                await note_act(
                    self._core, unit, _SYSTEM, "signing_keys.renew", of=("key", keys[-1].id), details=details
                )
                await unit.commit()
        self._keys, self._read_at = keys, self._core.clock.now()

    async def _load(self, unit: UnitOfWork) -> tuple[tuple[SigningKey, ...], int]:
        sealed = await unit.secrets.find(*PLACE)
        return ((), 0) if sealed is None else (_parse(self._core.vault.open(sealed)), sealed.version)

    def _succeed(self, keys: Sequence[SigningKey]) -> tuple[SigningKey, ...]:
        newest = SigningKey(_make_key(), self._core.clock.now())
        kept = [
            key for key, successor in pairwise((*keys, newest)) if newest.made_at - successor.made_at < self._kept_for
        ]
        return (*kept, newest)

    def _is_due(self, keys: Sequence[SigningKey]) -> bool:
        return not keys or self._core.clock.now() - keys[-1].made_at >= self._key_life

    def _is_older(self, age: timedelta) -> bool:
        return self._read_at is None or self._core.clock.now() - self._read_at >= age


def _make_key() -> ECKey:
    return ECKey.generate_key("P-256", {"use": "sig", "alg": ALGORITHM}, auto_kid=True)


def _write(keys: Sequence[SigningKey]) -> str:
    return json.dumps([{"made_at": key.made_at.isoformat(), "key": key.key.as_dict(private=True)} for key in keys])


def _parse(text: str) -> tuple[SigningKey, ...]:
    return tuple(
        SigningKey(ECKey.import_key(one["key"]), datetime.fromisoformat(one["made_at"])) for one in json.loads(text)
    )
