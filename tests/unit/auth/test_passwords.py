"""Hashes of passwords, and how often they may be wrong."""

import asyncio
import threading
import time
from typing import Any

import pytest
from argon2 import PasswordHasher, Type, extract_parameters
from argon2.exceptions import VerifyMismatchError

from runyard.app.errors import TooMany
from runyard.auth import failure_limiter as limits
from runyard.auth.failure_limiter import FailureLimiter
from runyard.auth.passwords import Passwords
from tests.unit.auth.world import ADDRESS


class NotingHasher(PasswordHasher):
    """Notes what it really verified."""

    def __init__(self, *, time_cost: int) -> None:
        super().__init__(time_cost=time_cost, memory_cost=16, parallelism=2)
        self.verified: list[str] = []

    def verify(self, hash: str | bytes, password: str | bytes) -> Any:  # noqa: A002 - the name of argon2's argument
        self.verified.append(str(hash))
        return super().verify(hash, password)


@pytest.fixture
def passwords() -> Passwords:
    return Passwords(hasher=PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


@pytest.mark.parametrize(
    "password", ["", "a", "pässwörd ✓ 密码", "x" * 10_000, "nul\0in it", "\ud800half", "🙂" * 2500]
)
async def test_password_is_known_again_when_it_is_any_text(passwords: Passwords, password: str) -> None:
    stored = await passwords.hash(password)
    assert extract_parameters(stored).type is Type.ID
    assert await passwords.verify(stored, password)
    assert not await passwords.verify(stored, password + "x")
    assert not await passwords.verify(stored, password[:-1] if password else "b")


async def test_password_is_the_same_when_letters_are_composed_differently(passwords: Passwords) -> None:
    assert await passwords.verify(await passwords.hash("caf\u00e9"), "cafe\u0301")


async def test_time_is_linear_when_a_stranger_sends_combining_letters(passwords: Passwords) -> None:
    """The event loop normalizes passwords; to sort the marks of one letter takes quadratic time."""
    begun = time.process_time()
    assert not await passwords.verify(None, "a" + "\u0301\u0316" * 50_000)
    assert time.process_time() - begun < 2.0


@pytest.mark.parametrize("cost", [1, 2])
async def test_password_is_hashed_at_the_usual_cost_when_there_is_no_account(cost: int) -> None:
    """An early answer would tell which accounts exist (timing attack)."""
    hasher = NotingHasher(time_cost=cost)
    assert not await Passwords(hasher=hasher).verify(None, "anything")
    [stored] = hasher.verified
    assert extract_parameters(stored) == extract_parameters(hasher.hash("a"))
    with pytest.raises(VerifyMismatchError):
        PasswordHasher().verify(stored, "anything")


@pytest.mark.parametrize("stored", ["", "garbage", "$argon2id$v=19$m=8,t=1,p=1$$", "$2b$12$abcdefghijklmnopqrstuv"])
async def test_password_is_wrong_when_the_hash_cannot_be_read(passwords: Passwords, stored: str) -> None:
    assert not await passwords.verify(stored, "")


async def test_more_are_turned_away_when_many_wait() -> None:
    passwords = Passwords(hasher=PasswordHasher(time_cost=1, memory_cost=8, parallelism=1), most_waiting=3)
    gate = threading.Event()
    waiting = [asyncio.create_task(passwords._run(gate.wait)) for _ in range(3)]
    await asyncio.sleep(0)
    try:
        with pytest.raises(TooMany) as caught:
            await asyncio.wait_for(passwords.hash("a"), timeout=30)
    finally:
        gate.set()
    assert caught.value.retry_after == 1.0
    assert await asyncio.gather(*waiting) == [True] * 3
    assert await passwords.hash("a")


class Turned:
    """A clock for limits."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


def count_failures(limiter: FailureLimiter, account: str, address: str | None, *, most: int = 1000) -> int:
    """How many wrong passwords are let through at once."""
    for count in range(most):
        try:
            limiter.take(account, address=address)
        except TooMany:
            return count
    return most


def test_attempts_end_and_come_back_when_passwords_are_wrong() -> None:
    clock = Turned()
    limiter = FailureLimiter(now=clock)
    allowance = limits.PER_ACCOUNT_AND_ADDRESS
    assert count_failures(limiter, "ada", ADDRESS) == allowance.burst
    with pytest.raises(TooMany) as caught:
        limiter.take("ada", address=ADDRESS)
    assert 0 < caught.value.retry_after <= allowance.seconds
    clock.at += caught.value.retry_after
    assert count_failures(limiter, "ada", ADDRESS) == 1
    clock.at += 10**6
    assert count_failures(limiter, "ada", ADDRESS) == allowance.burst


def test_attempts_are_bounded_when_they_come_from_everywhere_or_go_everywhere() -> None:
    limiter = FailureLimiter(now=Turned())
    guesses = sum(
        count_failures(limiter, "ada", f"198.51.{high}.{low}", most=1) for high in range(4) for low in range(99)
    )
    assert guesses == limits.PER_ACCOUNT.burst
    limiter = FailureLimiter(now=Turned())
    guesses = sum(count_failures(limiter, f"user{number}", ADDRESS, most=1) for number in range(500))
    assert guesses == limits.PER_ADDRESS.burst


def test_address_is_the_whole_network_when_it_is_of_version_six() -> None:
    limiter = FailureLimiter(now=Turned())
    addresses = [f"2001:db8:0:1::{number:x}" for number in range(200)]
    guesses = sum(count_failures(limiter, f"user{number}", one, most=1) for number, one in enumerate(addresses))
    assert guesses == limits.PER_ADDRESS.burst
    assert count_failures(limiter, "else", "2001:db8:0:2::1", most=1) == 1
    assert count_failures(limiter, "else", "::ffff:192.0.2.1", most=1) == 1


def test_owner_gets_in_when_strangers_guess_at_the_account() -> None:
    limiter = FailureLimiter(now=Turned())
    limiter.give_back(limiter.take("ada", address=ADDRESS))
    for number in range(300):
        count_failures(limiter, "ada", f"198.51.100.{number % 250}", most=20)
    with pytest.raises(TooMany):
        limiter.take("ada", address="203.0.113.9")
    limiter.give_back(limiter.take("ada", address=ADDRESS))
    assert count_failures(limiter, "ada", ADDRESS) == limits.PER_ACCOUNT_AND_ADDRESS.burst


def test_right_passwords_cost_nothing_when_there_are_many() -> None:
    limiter = FailureLimiter(now=Turned())
    attempts = [limiter.take("ada", address=None) for _ in range(limits.PER_ACCOUNT_AND_ADDRESS.burst)]
    for attempt in attempts:
        limiter.give_back(attempt)
    for _ in range(1000):
        limiter.give_back(limiter.take("ada", address=None))


def test_memory_is_bounded_when_strangers_make_up_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_BUCKETS", 100)
    monkeypatch.setattr(limits, "MOST_KNOWN", 10)
    limiter = FailureLimiter(now=Turned())
    for number in range(300):
        limiter.give_back(limiter.take(f"user{number}" * 1000, address=f"10.0.{number % 250}.1"))
    assert len(limiter._buckets) <= 100
    assert len(limiter._known) <= 10
    assert all(len(key) == 16 for key in limiter._buckets)
