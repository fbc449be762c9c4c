"""What was verified is remembered for a minute at most, and not in clear."""

import pytest

from runyard.auth.credential_cache import CredentialCache


class Turned:
    """A clock for the cache."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Turned:
    return Turned()


@pytest.mark.parametrize(("asked", "kept"), [(10, 10), (60, 60), (3600, 60)])
def test_value_is_forgotten_when_its_time_is_over(clock: Turned, asked: float, kept: float) -> None:
    cache: CredentialCache[str] = CredentialCache(now=clock)
    key = cache.make_key("a")
    cache.put(key, "value", seconds=asked)
    clock.at = kept - 0.001
    assert cache.find(key) == "value"
    clock.at = kept
    assert cache.find(key) is None
    assert len(cache._entries) == 0


def test_least_used_goes_when_there_is_no_room(clock: Turned) -> None:
    cache: CredentialCache[int] = CredentialCache(most=3, now=clock)
    keys = [cache.make_key(str(number)) for number in range(4)]
    for number in range(3):
        cache.put(keys[number], number)
    cache.find(keys[0])
    cache.put(keys[3], 3)
    assert [cache.find(key) for key in keys] == [0, None, 2, 3]


def test_keys_differ_when_anything_does() -> None:
    cache: CredentialCache[int] = CredentialCache()
    other: CredentialCache[int] = CredentialCache()
    parts = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("", "abc"), ("\ud800",)]
    assert len({cache.make_key(*one) for one in parts}) == len(parts)
    assert cache.make_key("a") != other.make_key("a")
    assert cache.make_key("a") == cache.make_key("a")


def test_nothing_is_kept_in_clear_when_something_is_put() -> None:
    cache: CredentialCache[bool] = CredentialCache()
    cache.put(cache.make_key("ada", "s3cret"), value=True)
    assert "s3cret" not in repr(vars(cache))
