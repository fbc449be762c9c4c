"""Sealed values open where they were sealed, and nowhere else."""

import traceback
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.app.model import SealedValue
from runyard.vault import Tampered, TextVault, UnknownKey, VaultError
from runyard.vault.keyring import Keyring, make_key

VALUE = "canary-5f1c"
OLD, NEW = (Keyring([make_key()]).to_text() for _ in range(2))


@pytest.fixture
def vault() -> TextVault:
    return TextVault(OLD)


@given(st.text(st.characters(), max_size=50), st.text(max_size=20), st.text(max_size=20), st.integers(1, 2**40))
def test_text_comes_back_when_it_is_opened_where_it_was_sealed(
    text: str, project: str, name: str, version: int
) -> None:
    vault = TextVault(OLD)
    assert vault.open(vault.seal(project, name, version, text)) == text


@pytest.mark.parametrize("text", ["", "\0", "\ud800 half", "x" * 1_000_000, "naïve ✓"])
def test_text_comes_back_when_it_is_odd(vault: TextVault, text: str) -> None:
    assert vault.open(vault.seal("p", "n", 1, text)) == text


def test_nothing_is_alike_when_the_same_text_is_sealed_twice(vault: TextVault) -> None:
    one, other = (vault.seal("p", "n", 1, VALUE) for _ in range(2))
    assert one.ciphertext != other.ciphertext
    assert one.wrapped_key != other.wrapped_key
    assert VALUE.encode() not in one.ciphertext + one.wrapped_key


@pytest.mark.parametrize("field", ["wrapped_key", "ciphertext"])
def test_every_changed_bit_is_noticed_when_a_row_was_tampered_with(vault: TextVault, field: str) -> None:
    sealed = vault.seal("p", "n", 1, VALUE)
    content = getattr(sealed, field)
    changed = [bytes([*content[:at], content[at] ^ 1 << at % 8, *content[at + 1 :]]) for at in range(len(content))]
    cut = [content[:size] for size in range(len(content))]
    for one in [*changed, *cut, content + b"\0"]:
        with pytest.raises(Tampered):
            vault.open(replace(sealed, **{field: one}))


@pytest.mark.parametrize(
    "other",
    [{"project": "q"}, {"name": "m"}, {"version": 2}, {"project": "pn", "name": ""}, {"project": "", "name": "pn"}],
)
def test_row_is_refused_when_it_stands_in_anothers_place(vault: TextVault, other: dict[str, object]) -> None:
    sealed = vault.seal("p", "n", 1, VALUE)
    with pytest.raises(Tampered):
        vault.open(replace(sealed, **other))  # type: ignore[arg-type]
    with pytest.raises(Tampered):
        TextVault(OLD + NEW).rewrap(replace(sealed, **other))  # type: ignore[arg-type]


def test_row_is_refused_when_its_halves_come_from_two_values(vault: TextVault) -> None:
    one, other = vault.seal("p", "n", 1, VALUE), vault.seal("p", "n", 1, "other")
    with pytest.raises(Tampered):
        vault.open(replace(one, ciphertext=other.ciphertext))
    with pytest.raises(Tampered):
        vault.open(replace(one, wrapped_key=other.wrapped_key))


def test_key_is_named_when_it_is_not_at_hand(vault: TextVault) -> None:
    sealed = TextVault(NEW).seal("p", "n", 1, VALUE)
    with pytest.raises(UnknownKey, match=sealed.key_id):
        vault.open(sealed)


def test_old_key_opens_and_new_one_seals_when_there_are_two(vault: TextVault) -> None:
    both = TextVault(OLD + NEW)
    old = vault.seal("p", "n", 1, VALUE)
    assert both.open(old) == VALUE
    assert both.old_key_ids == (old.key_id,)
    assert both.seal("p", "n", 2, VALUE).key_id == both.current_key_id == TextVault(NEW).current_key_id


def test_value_is_not_opened_when_it_is_wrapped_anew(vault: TextVault) -> None:
    both = TextVault(OLD + NEW)
    old = vault.seal("p", "n", 1, VALUE)
    wrapped = both.rewrap(old)
    assert wrapped.ciphertext == old.ciphertext
    assert TextVault(NEW).open(wrapped) == VALUE
    assert both.rewrap(wrapped) is wrapped
    with pytest.raises(Tampered):
        both.rewrap(replace(old, wrapped_key=both.seal("p", "n", 1, "x").wrapped_key))


def test_nothing_is_shown_when_values_and_keys_are_printed_or_fail(vault: TextVault) -> None:
    sealed = vault.seal("p", "n", 1, VALUE)
    shown = [repr(vault), str(vault), repr(Keyring([b"k" * 32])), repr(sealed)]
    for broken in (replace(sealed, version=2), replace(sealed, key_id="gone\n" * 100)):
        with pytest.raises(VaultError) as caught:
            vault.open(broken)
        shown.append("".join(traceback.format_exception(caught.value)))
    text = "\n".join(shown)
    assert VALUE not in text
    assert OLD.strip() not in text
    assert "k" * 32 not in text
    assert max(map(len, map(str, shown))) < 5000


@pytest.mark.parametrize("separator", ["", "/", ":", ".", ",", "|", "-", " ", "\0", "\n"])
def test_bindings_differ_when_parts_only_meet_differently(vault: TextVault, separator: str) -> None:
    whole = f"b{separator}c"
    places = [
        ("a", whole, 1),
        (f"a{separator}b", "c", 1),
        ("", f"a{separator}{whole}", 1),
        ("abc", "", 1),
        ("abc", "1", 1),
        ("abc", "", 11),
    ]
    for one, other in pairwise(places):
        sealed = vault.seal(*one, VALUE)
        moved = SealedValue(
            project=other[0],
            name=other[1],
            version=other[2],
            key_id=sealed.key_id,
            wrapped_key=sealed.wrapped_key,
            ciphertext=sealed.ciphertext,
        )
        with pytest.raises(Tampered):
            vault.open(moved)
