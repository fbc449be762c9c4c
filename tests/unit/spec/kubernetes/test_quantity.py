import copy
import dataclasses
import decimal
import pickle
import random
from decimal import Decimal
from fractions import Fraction

import pytest

from runyard.spec.kubernetes.quantity import Quantity, QuantityError

INT64_MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("given", "text", "kind", "value", "milli"),
    [
        ("0", "0", "DecimalSI", 0, 0),
        ("8", "8", "DecimalSI", 8, 8000),
        (8, "8", "DecimalSI", 8, 8000),
        (0.5, "500m", "DecimalSI", 1, 500),
        (1000.0, "1k", "DecimalSI", 1000, 10**6),
        (1e22, "10e21", "DecimalExponent", 0, 0),
        ("500m", "500m", "DecimalSI", 1, 500),
        ("1000m", "1", "DecimalSI", 1, 1000),
        (".5", "500m", "DecimalSI", 1, 500),
        ("5.", "5", "DecimalSI", 5, 5000),
        ("+1", "1", "DecimalSI", 1, 1000),
        ("-0", "0", "DecimalSI", 0, 0),
        ("-0.0Ki", "0", "BinarySI", 0, 0),
        ("007", "7", "DecimalSI", 7, 7000),
        ("1.50", "1500m", "DecimalSI", 2, 1500),
        ("1E", "1E", "DecimalSI", 10**18, 0),
        ("1E3", "1e3", "DecimalExponent", 1000, 10**6),
        ("1e-3", "1e-3", "DecimalExponent", 1, 1),
        ("1e4", "10e3", "DecimalExponent", 10**4, 10**7),
        ("32G", "32G", "DecimalSI", 32 * 10**9, 32 * 10**12),
        ("32Gi", "32Gi", "BinarySI", 2**35, 2**35 * 1000),
        ("1024Mi", "1Gi", "BinarySI", 2**30, 2**30 * 1000),
        ("1.5Gi", "1536Mi", "BinarySI", 3 * 2**29, 3 * 2**29 * 1000),
        ("1000Ki", "1000Ki", "BinarySI", 1024000, 1024000000),
        ("0.5Ki", "512", "BinarySI", 512, 512000),
        ("0.0001Ki", "102400u", "DecimalSI", 1, 103),
        ("1.1Ki", "1126400m", "BinarySI", 1127, 1126400),
    ],
)
def test_amount_is_read_and_printed_when_it_is_common(
    given: str | int | float, text: str, kind: str, value: int, milli: int
) -> None:
    quantity = Quantity.parse(given)

    assert (quantity.text, str(quantity), quantity.format) == (text, text, kind)
    assert (quantity.value, quantity.milli_value) == (value, milli)


@pytest.mark.parametrize(
    ("given", "exact"),
    [
        ("0.1n", Decimal("1e-9")),
        ("-0.1n", Decimal("-1e-9")),
        ("1.0000000001", Decimal("1.000000001")),
        ("-1.0000000001", Decimal("-1.000000001")),
        ("1e-2000000000", Decimal("1e-9")),
        ("8Ei", INT64_MAX),
        ("-100Ei", -INT64_MAX),
        ("10E", 10**19),
    ],
)
def test_amount_is_rounded_away_from_zero_to_nanos_and_capped_when_it_is_out_of_range(
    given: str, exact: Decimal | int
) -> None:
    assert Quantity.parse(given).exact == exact


@pytest.mark.parametrize(
    ("given", "value"), [("-1.5", -2), ("-1.50000Ki", -1536), ("-1.0001Ki", -1023), ("1000E", 0), ("16E", 0)]
)
def test_count_errs_as_kubernetes_does_when_it_is_negative_or_does_not_fit(given: str, value: int) -> None:
    assert Quantity.parse(given).value == value


@pytest.mark.parametrize(
    ("given", "is_countable"),
    [("8Ei", True), (str(INT64_MAX), True), (str(INT64_MAX + 1), False), ("-10E", False), ("1e2000000000", False)],
)
def test_amount_is_countable_when_64_bits_hold_it(given: str, *, is_countable: bool) -> None:
    assert Quantity.parse(given).is_countable is is_countable


@pytest.mark.parametrize("given", ["+", "-", ".", "k", "Ki", "e3", "-.Gi"])
def test_amount_is_zero_when_kubernetes_sees_no_digit(given: str) -> None:
    assert Quantity.parse(given).is_zero


@pytest.mark.parametrize("given", ["1e4294967296", "1e-4294967296", "1e+0000000000000000000000004294967296"])
def test_exponent_keeps_32_bits_when_it_is_read_from_64(given: str) -> None:
    assert Quantity.parse(given).exact == 1


def test_huge_exponents_are_calculated_with_when_nobody_can_write_them_out() -> None:
    huge, larger, mixed = (Quantity.parse(f"{number}e2000000000") for number in ("1", "2", "1" + "0" * 30))

    assert huge < larger < mixed
    assert len({huge, larger, mixed, Quantity.parse("10e1999999999")}) == 3
    assert (huge.text, huge.value, huge.milli_value, huge.is_whole) == ("100e1999999998", 0, 0, True)
    assert (mixed.text, mixed.value) == ("100e2000000028", 0)
    assert (huge + huge, larger - huge, huge - huge) == (larger, huge, Quantity.parse("0"))
    assert huge > Quantity.parse("8Ei") > Quantity.parse("1e-2000000000") > Quantity.parse("-1e2000000000")


def test_sum_is_refused_when_it_has_too_many_digits() -> None:
    with pytest.raises(QuantityError, match="more than 10000 digits"):
        Quantity.parse("1e2000000000") + Quantity.parse("1")
    with pytest.raises(QuantityError, match="more than 10000 digits"):
        Quantity.parse("1e2000000000").scale(Decimal("1.1"))


def test_long_texts_are_read_when_a_million_digits_come() -> None:
    quantity = Quantity.parse("9" * 10**6 + ".5")

    assert quantity.text == "9" * 10**6 + "500m"
    assert quantity.value == pow(10, 10**6, 2**64)
    assert Quantity.parse("0" * 10**6 + "8") == Quantity.parse(8)
    assert Quantity.parse(10**5000) == Quantity.parse("1" + "0" * 5000)
    with pytest.raises(QuantityError):
        Quantity.parse("0" * 10**6 + "x")


@pytest.mark.parametrize("given", ["", " ", " 1", "1\n", "1\0", "abc", "--1", "0x1", "1.2.3", "1+5", "1_000"])
def test_text_is_refused_when_its_shape_is_wrong(given: str) -> None:
    with pytest.raises(QuantityError, match="is not a valid quantity"):
        Quantity.parse(given)


@pytest.mark.parametrize("given", ["1gi", "1KB", "1K", "1i", "1Kim", "1e", "1e+", "1ee3", "1e3.5", "1e3Ki"])
def test_text_is_refused_when_its_suffix_is_unknown(given: str) -> None:
    with pytest.raises(QuantityError, match="is not a valid quantity"):
        Quantity.parse(given)


@pytest.mark.parametrize("given", ["1e9223372036854775808", "1e-9223372036854775809", "1e99999999999999999999"])
def test_text_is_refused_when_its_exponent_exceeds_64_bits(given: str) -> None:
    with pytest.raises(QuantityError, match="is not a valid quantity"):
        Quantity.parse(given)


@pytest.mark.parametrize("given", ["Pi", "-Ei", "e-10", "٣", "１", "1²", "∞"])
def test_text_is_refused_when_it_has_no_digit_that_kubernetes_knows(given: str) -> None:
    with pytest.raises(QuantityError, match="is not a valid quantity"):
        Quantity.parse(given)


@pytest.mark.parametrize("given", [True, False, float("nan"), float("inf"), float("-inf"), None, [], b"1", Decimal(1)])
def test_value_is_refused_when_it_is_neither_text_nor_a_finite_number(given: object) -> None:
    with pytest.raises(QuantityError, match="it must be text or a finite number"):
        Quantity.parse(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "suggestion"),
    [
        ("32GB", "32Gi"),
        ("32gb", "32Gi"),
        ("32GiB", "32Gi"),
        ("32g", "32Gi"),
        ("64K", "64Ki"),
        ("500mb", "500Mi"),
        ("1 Gi", "1Gi"),
        (" 1Gi\n", "1Gi"),
        ("1gi", "1Gi"),
        ("1GI", "1Gi"),
        ("1_000", "1000"),
        ("1,5Gi", "1.5Gi"),
        ("1,5 gb", "1.5Gi"),
        ("1,000", None),
        ("１Gi", "1Gi"),
        ("4 cores", "4"),
        ("2vCPU", "2"),
        ("500 millicores", "500m"),
        ("100bytes", "100"),
        ("1e", None),
        ("", None),
        ("+ ", None),
        ("lots", None),
        ("50%", None),
        ("1" * 50 + "gb", None),
    ],
)
def test_right_text_is_proposed_when_it_can_be_guessed(given: str, suggestion: str | None) -> None:
    with pytest.raises(QuantityError) as refusal:
        Quantity.parse(given)

    assert refusal.value.suggestion == suggestion


def test_both_readings_are_named_when_bytes_could_count_in_1000_or_1024() -> None:
    with pytest.raises(
        QuantityError, match=r'^"32GB" is not a valid quantity: 32Gi is in units of 1024, 32G in units of 1000$'
    ):
        Quantity.parse("32GB")


def test_quantities_are_equal_and_hash_alike_when_the_amounts_are_the_same() -> None:
    same = [Quantity.parse(text) for text in ("1", "1000m", "1.0", "1e0", "0.001k", "1.00000000000000000000")]

    assert len(set(same)) == 1
    assert Quantity.parse("1024") == Quantity.parse("1Ki")
    assert Quantity.parse("1") != 1


def test_quantities_are_sorted_by_amount_when_their_suffixes_differ() -> None:
    ordered = ["-1Gi", "-1", "0", "1n", "999m", "1", "1e2", "1k", "1Ki", "1M", "1Mi", "1G", "1Gi", "8Ei", "10E"]
    shuffled = random.Random(4).sample(ordered, len(ordered))

    assert sorted(map(Quantity.parse, shuffled)) == list(map(Quantity.parse, ordered))
    assert Quantity.parse("1") <= Quantity.parse("1000m") >= Quantity.parse("1")
    with pytest.raises(TypeError):
        _ = Quantity.parse("1") < 2  # type: ignore[operator]


@pytest.mark.parametrize(
    ("left", "right", "total", "difference"),
    [
        ("1Gi", "1G", "2073741824", "73741824"),
        ("1Gi", "1Gi", "2Gi", "0"),
        ("0", "1Gi", "1Gi", "-1Gi"),
        ("1Gi", "0", "1Gi", "1Gi"),
        ("100m", "0.2", "300m", "-100m"),
        ("1k", "1e3", "2k", "0"),
        ("1e3", "1k", "2e3", "0"),
        ("8Ei", "1", "8Ei", "9223372036854775806"),
        ("1n", "9E", "9000000000000000000000000001n", "-8999999999999999999999999999n"),
    ],
)
def test_sum_and_difference_are_exact_and_keep_the_left_format_when_it_is_not_zero(
    left: str, right: str, total: str, difference: str
) -> None:
    a, b = Quantity.parse(left), Quantity.parse(right)

    assert ((a + b).text, (a - b).text) == (total, difference)


def test_count_is_rounded_by_the_finest_scale_when_a_fine_zero_was_added() -> None:
    amount = Quantity.parse("-1.5")

    assert [(amount + Quantity.parse(zero)).value for zero in ("0", "0e-18", "0e-19")] == [-2, 0, -1]


def test_amounts_stay_exact_when_the_caller_has_set_a_coarse_decimal_context() -> None:
    with decimal.localcontext(decimal.Context(prec=2, rounding=decimal.ROUND_DOWN, Emax=9, Emin=-9)):
        quantity = Quantity.parse("123456789.123456789")
        assert (quantity.text, quantity.value) == ("123456789123456789n", 123456790)
        assert (quantity + quantity).text == "246913578246913578n"
        assert Quantity.parse("1.123456789Gi").text == "1206302541806043136n"
        assert Quantity.parse("32Gi").scale(Decimal("1.1")).text == "37795712205"


@pytest.mark.parametrize(
    ("given", "factor", "text"),
    [
        ("32Gi", Decimal("1.1"), "37795712205"),
        ("10Gi", Decimal("1.1"), "11Gi"),
        ("1", Decimal("1.1"), "2"),
        ("1G", Decimal("1.1"), "1100M"),
        ("500m", Fraction(1, 3), "1"),
        ("3Ki", Fraction(1, 3), "1Ki"),
        ("-10", Decimal("0.25"), "-3"),
        ("0", Decimal("1.1"), "0"),
        ("8Ei", Decimal("1.1"), "9223372036854775807"),
        ("10E", Decimal("1.1"), "11E"),
    ],
)
def test_product_is_rounded_up_to_a_whole_unit_when_scaled(given: str, factor: Decimal | Fraction, text: str) -> None:
    quantity = Quantity.parse(given)
    product = quantity.scale(factor)

    assert (product.text, product.format, product.is_whole) == (text, quantity.format, True)


def test_numbers_are_printed_in_the_format_of_their_kind_when_made_from_integers() -> None:
    assert (Quantity.from_bytes(2**30).text, Quantity.from_int(10**9).text) == ("1Gi", "1G")
    assert Quantity.from_bytes(2**70) == Quantity.parse("1024Ei") == Quantity.from_bytes(INT64_MAX)
    assert Quantity.from_int(10**20) == Quantity.parse("100E")


@pytest.mark.parametrize(
    ("given", "is_zero", "is_negative", "is_whole"),
    [
        ("0", True, False, True),
        ("-0", True, False, True),
        ("-1", False, True, True),
        ("500m", False, False, False),
        ("1.0", False, False, True),
        ("1000m", False, False, True),
    ],
)
def test_nature_of_an_amount_is_told_when_asked(
    given: str, *, is_zero: bool, is_negative: bool, is_whole: bool
) -> None:
    quantity = Quantity.parse(given)

    assert (quantity.is_zero, quantity.is_negative, quantity.is_whole) == (is_zero, is_negative, is_whole)


def test_quantity_survives_when_it_is_copied_or_pickled_and_cannot_be_changed() -> None:
    quantity = Quantity.parse("1.5Gi")

    for other in (copy.deepcopy(quantity), pickle.loads(pickle.dumps(quantity))):
        assert (other, other.format, repr(other)) == (quantity, "BinarySI", 'Quantity("1536Mi")')
    with pytest.raises(dataclasses.FrozenInstanceError):
        quantity.format = "DecimalSI"  # type: ignore[misc]
