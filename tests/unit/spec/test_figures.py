from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.spec.duration import LONGEST
from runyard.spec.figures import format_amount, format_bytes, format_figure, format_seconds
from runyard.spec.kubernetes.quantity import Quantity


@pytest.mark.parametrize("text", ["0", "1", "32Gi", "500m", "1536Mi", "64", "2G", "1e3", "9999"])
def test_amount_is_exact_when_it_is_short(text: str) -> None:
    assert format_amount(Quantity.parse(text), is_bytes=True) == Quantity.parse(text).text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("37795712205", "about 35.2Gi (37795712205)"),
        ("32861620Ki", "about 31.3Gi (32861620Ki)"),
        ("12345Mi", "about 12.1Gi (12345Mi)"),
        ("295279002", "about 282Mi (295279002)"),
        ("1099511627777", "about 1Ti (1099511627777)"),
        ("123456", "about 121Ki (123456)"),
    ],
)
def test_bytes_are_rounded_in_binary_units_when_the_figure_is_long(text: str, shown: str) -> None:
    assert format_amount(Quantity.parse(text), is_bytes=True) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [("1234567m", "about 1.23k (1234567m)"), ("12345m", "about 12.3 (12345m)"), ("123456", "about 123k (123456)")],
)
def test_cores_are_rounded_in_decimal_units_when_the_figure_is_long(text: str, shown: str) -> None:
    assert format_figure("resources.cpu.limits", Quantity.parse(text)) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (90, "90s"),
        (5400, "90m"),
        (691200, "8d"),
        (9999, "9999s"),
        (100000, "about 1.16d (100000s)"),
        (10001, "about 2.78h (10001s)"),
        (31536000, "365d"),
    ],
)
def test_duration_is_exact_or_rounded_with_its_seconds_when_shown(seconds: int, shown: str) -> None:
    assert format_seconds(seconds) == shown


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("resources.mem.limits", Quantity.parse("37795712205"), "about 35.2Gi (37795712205)"),
        ("resources.disk", Quantity.parse("37795712205"), "about 35.2Gi (37795712205)"),
        ("volumes.size", Quantity.parse("37795712205"), "about 35.2Gi (37795712205)"),
        ("resources.gpu", Quantity.parse("12345"), "about 12.3k (12345)"),
        ("resources.example.com/nic", Quantity.parse("12345"), "about 12.3k (12345)"),
        ("timeout", 691200, "8d"),
        ("replicas", 691200, "691200"),
        ("image", "busybox", "busybox"),
    ],
)
def test_unit_follows_from_the_field_when_a_figure_is_shown(field: str, value: object, shown: str) -> None:
    assert format_figure(field, value) == shown


@given(st.integers(min_value=0, max_value=2**59))
def test_rounded_amount_is_within_half_a_percent_when_it_is_read_back(number: int) -> None:
    shown = format_amount(Quantity.parse(number), is_bytes=True)
    if shown.startswith("about "):
        rounded = Quantity.parse(shown.split()[1]).exact
        assert abs(rounded - number) <= Decimal(number) / 200
        assert len([digit for digit in shown.split()[1] if digit.isdigit()]) <= 4
        assert Quantity.parse(shown.split("(")[1].rstrip(")")) == Quantity.parse(number)
    else:
        assert Quantity.parse(shown) == Quantity.parse(number)


@given(st.integers(min_value=0, max_value=LONGEST))
def test_every_duration_is_short_when_shown(seconds: int) -> None:
    assert len(format_seconds(seconds)) <= len("about 99.99d (9999999999s)")


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (524288, "512 KiB"),
        (1572864, "1.5 MiB"),
        (4194304, "4 MiB"),
        (900000, "about 879 KiB (900000 bytes)"),
        (1048575, "about 1020 KiB (1048575 bytes)"),
    ],
)
def test_size_in_a_sentence_has_the_largest_unit_when_it_is_exact(size: int, shown: str) -> None:
    assert format_bytes(size) == shown
