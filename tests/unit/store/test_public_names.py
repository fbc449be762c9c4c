"""The names of the package."""

import pytest

from runyard import store


def test_every_name_is_there_when_it_is_asked_for() -> None:
    assert sorted(store._HOMES) == sorted(store.__all__)
    for name in store.__all__:
        assert getattr(store, name).__name__ == name


def test_error_is_the_usual_one_when_a_name_is_unknown() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = store.nothing
