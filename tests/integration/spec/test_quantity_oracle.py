"""Compares quantities with Kubernetes' own code, over generated texts, pairs and sums, without one difference.

`RUNYARD_QUANTITY_SEED` repeats a run; without it every run draws another.
"""

import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal

import pytest

from runyard.spec.kubernetes.quantity import Quantity, QuantityError
from testbed import build
from tests.integration.oracle import Document, Oracle

pytestmark = pytest.mark.kubernetes

TEXTS = 100_000
PAIRS = 100_000
SUMS = 20_000
SUFFIXES = ("", "", "", *"num", *"kMGTPE", *(f"{letter}i" for letter in "KMGTPE"))
ALPHABET = "00112233445566778899++--..eEEinumkKMGTP"
STRANGE = " \t\n\0_,:xXbBgitpyYZaf%$'\"\\/()٣１²½−µäé߀𝟙\u200b\ufeff\ud800"
# Longer powers of ten do not come to an end in Kubernetes' own code.
LARGEST_POWER = 400


@pytest.fixture(scope="module")
def oracle(version: str) -> Iterator[Oracle]:
    started = Oracle(build.ensure_kube(version), "quantity")
    yield started
    assert started.close() == 0


@pytest.fixture
def generator() -> random.Random:
    seed = int(os.environ.get("RUNYARD_QUANTITY_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"to repeat this: RUNYARD_QUANTITY_SEED={seed}")  # noqa: T201 - shown with a failure
    return random.Random(seed)


def draw_digits(draw: random.Random, most: int) -> str:
    digits = "".join(draw.choices("0123456789", k=draw.randint(0, most)))
    return draw.choice([digits, digits, "0" * draw.randint(0, 3) + digits, digits + "0" * draw.randint(0, 12)])


def draw_exponent(draw: random.Random) -> str:
    power = draw.choice(
        [
            draw.randint(-12, 21),
            draw.randint(-12, 21),
            draw.randint(-LARGEST_POWER, LARGEST_POWER),
            2**32 * draw.randint(-(2**31), 2**31) + draw.randint(-30, 30),  # 64 bits are read, 32 are kept
            draw.choice([2**63, -(2**63), 10**19, 10**40]) + draw.randint(-2, 2),
        ]
    )
    zeros = "0" * draw.choice([0, 0, 0, 1, 25])
    return f"{draw.choice('eE')}{'-' if power < 0 else draw.choice(['', '+'])}{zeros}{abs(power)}"


def draw_valid(draw: random.Random) -> str:
    most = draw.choice([1, 3, 6, 12, 20, 40])
    number = draw_digits(draw, most)
    if draw.random() < 0.4:
        number += "." + draw_digits(draw, draw.choice([0, 2, 5, 10, 14, 30]))
    suffix = draw_exponent(draw) if draw.random() < 0.25 else draw.choice(SUFFIXES)
    return draw.choice(["", "", "", "+", "-"]) + number + suffix


def draw_boundary(draw: random.Random) -> str:
    """Edge cases of Kubernetes: forms, caps, rounding, suffixes."""
    if draw.random() < 0.2:
        power = draw.randint(1, 6)
        amount = draw.choice([0, 1, 1, 2, 1023, 1024, 1025, 2**63]) + Decimal(draw.randint(-3, 3)).scaleb(
            draw.randint(-12, 0)
        )
        return f"{amount / 1024**power:f}{'?KMGTPE'[power]}i"
    base = draw.choice([2 ** draw.randint(0, 75), 10 ** draw.randint(0, 25), 2**63 - 1, 1024 ** draw.randint(0, 7)])
    base = max(0, base * draw.choice([1, 1, 1, draw.randint(1, 2048)]) + draw.choice([-1, 0, 0, 1]))
    number = str(base)
    if draw.random() < 0.4:
        places = draw.randint(0, min(len(number), 22))
        number = f"{number[: len(number) - places]}.{number[len(number) - places :]}"
    elif draw.random() < 0.3:
        number += "." + "0" * draw.randint(0, 20) + draw.choice(["", "1", "5", "9"])
    suffix = f"e{draw.randint(-25, 25)}" if draw.random() < 0.2 else draw.choice(SUFFIXES)
    return draw.choice(["", "", "-", "+"]) + number + suffix


def draw_mutation(draw: random.Random) -> str:
    text = draw.choice([draw_valid, draw_boundary])(draw)
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        place = draw.randint(0, len(text))
        added = draw.choice(ALPHABET if draw.random() < 0.6 else STRANGE)
        text = draw.choice(
            [
                text[:place] + added + text[place:],
                text[:place] + added + text[place + 1 :],
                text[:place] + text[place + 1 :],
                text[:place] + text[place : place + 2][::-1] + text[place + 2 :],
                text.swapcase(),
            ]
        )
    return text


def draw_soup(draw: random.Random) -> str:
    letters = draw.choice([ALPHABET, ALPHABET, "01.e-+", "0123456789.", ALPHABET + STRANGE])
    return "".join(draw.choices(letters, k=draw.randint(0, draw.choice([2, 4, 8, 16]))))


STRATEGIES: tuple[Callable[[random.Random], str], ...] = (draw_valid, draw_boundary, draw_mutation, draw_soup)


def is_endless(text: str) -> bool:
    """Whether Kubernetes would print billions of zeros; the unit tests cover those."""
    found = re.search(r"[eE]([+-]?[0-9]+)$", text, re.ASCII)
    if not found:
        return False
    power = (int(found[1]) + 2**31) % 2**32 - 2**31
    return abs(int(found[1])) < 2**63 and abs(power) > LARGEST_POWER


def draw_texts(draw: random.Random, count: int) -> list[str]:
    """`count` different texts, of all strategies."""
    texts: set[str] = set()
    while len(texts) < count:
        for strategy in STRATEGIES:
            text = strategy(draw)
            if len(texts) < count and not is_endless(text):
                texts.add(text)
    return sorted(texts)


def draw_accepted(draw: random.Random, count: int) -> list[str]:
    texts: list[str] = []
    while len(texts) < count:
        text = draw.choice([draw_valid, draw_boundary])(draw)
        if not is_endless(text) and find_quantity(text) is not None:
            texts.append(text)
    return texts


def find_quantity(text: str) -> Quantity | None:
    try:
        return Quantity.parse(text)
    except QuantityError:
        return None


def describe(text: str) -> Document | None:
    quantity = find_quantity(text)
    if quantity is None:
        return None
    return {
        "canonical": quantity.text,
        "format": quantity.format,
        "exact": quantity.exact,
        "value": quantity.value,
        "milliValue": quantity.milli_value,
    }


def read_answer(answer: Document) -> Document | None:
    if "error" in answer:
        assert not answer["error"].startswith("panic"), answer
        return None
    return {
        **{name: answer[name] for name in ("canonical", "format", "value", "milliValue")},
        "exact": Decimal(answer["exact"]),
    }


def test_no_text_is_read_otherwise_when_kubernetes_reads_it_too(oracle: Oracle, generator: random.Random) -> None:
    texts = draw_texts(generator, TEXTS)
    answers = oracle.ask_all([{"q": text} for text in texts])

    seen: Counter[str] = Counter()
    differences = []
    for text, answer in zip(texts, answers, strict=True):
        ours, theirs = describe(text), read_answer(answer)
        seen["refused" if theirs is None else theirs["format"]] += 1
        if ours != theirs:
            differences.append((text, ours, theirs))

    assert differences[:10] == []
    assert sum(seen.values()) == TEXTS == 100_000
    # Neither side may have it easy: every format, and refusals, in numbers that mean something.
    assert {kind: count for kind, count in seen.items() if count < TEXTS // 20} == {}
    assert seen.keys() == {"refused", "BinarySI", "DecimalSI", "DecimalExponent"}


def draw_partner(draw: random.Random, text: str, texts: list[str]) -> str:
    """Another text, often with the same or nearly the same amount."""
    quantity = Quantity.parse(text)
    if not -LARGEST_POWER < quantity.exact.adjusted() < 40:
        return draw.choice(texts)
    plain = f"{quantity.exact:f}"
    last = plain[-1]
    return draw.choice(
        [
            draw.choice(texts),
            plain,
            plain[:-1] + (str((int(last) + 1) % 10)),
            f"{plain}{'' if '.' in plain else '.'}000000001",
            quantity.text if quantity.is_countable else plain,
            f"{plain}e{draw.choice([-3, 0, 3])}",
        ]
    )


def test_no_pair_is_ordered_otherwise_when_kubernetes_compares_it_too(oracle: Oracle, generator: random.Random) -> None:
    texts = draw_accepted(generator, PAIRS)
    pairs = [(text, draw_partner(generator, text, texts)) for text in texts]
    answers = oracle.ask_all([{"a": left, "b": right} for left, right in pairs])

    orders: Counter[int] = Counter()
    differences = []
    for (left, right), answer in zip(pairs, answers, strict=True):
        ours, other = Quantity.parse(left), Quantity.parse(right)
        order = (ours > other) - (ours < other)
        orders[order] += 1
        consistent = (order == 0) == (ours == other) and (order != 0 or hash(ours) == hash(other))
        if answer != {"compare": order} or not consistent:
            differences.append((left, right, order, answer))

    assert differences[:10] == []
    assert sum(orders.values()) == PAIRS == 100_000
    assert all(orders[order] > PAIRS // 10 for order in (-1, 0, 1)), orders


def test_our_text_comes_back_unchanged_when_kubernetes_prints_it(oracle: Oracle, generator: random.Random) -> None:
    quantities = [Quantity.parse(text) for text in draw_accepted(generator, SUMS)]
    countable = [quantity for quantity in quantities if quantity.is_countable]
    answers = oracle.ask_all([{"q": quantity.text} for quantity in countable])

    assert len(countable) > SUMS // 2
    for quantity, answer in zip(countable, answers, strict=True):
        # 187.5Ki is 192000, which has no binary suffix: read again it is decimal, and prints as 192k.
        is_bare = quantity.format == "BinarySI" and quantity.text[-1:] != "i"
        expected = Quantity.parse(quantity.text) if is_bare else quantity
        assert (answer["string"], Decimal(answer["exact"])) == (expected.text, quantity.exact)


def test_no_sum_differs_when_kubernetes_adds_the_same(version: str, generator: random.Random) -> None:
    texts = draw_accepted(generator, SUMS * 2)
    pairs = list(zip(texts[::2], texts[1::2], strict=True))
    adding = Oracle(build.ensure_kube(version), "pod-requests")
    answers = adding.ask_all(
        [{"spec": {"containers": [{"resources": {"requests": {"memory": text}}} for text in pair]}} for pair in pairs]
    )

    assert adding.close() == 0
    assert len(answers) == SUMS
    for (left, right), answer in zip(pairs, answers, strict=True):
        assert answer["requests"] == {"memory": str(Quantity.parse(left) + Quantity.parse(right))}, (left, right)
