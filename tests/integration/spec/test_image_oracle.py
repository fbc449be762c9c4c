"""Compares image references with the parser of the container runtimes, over generated texts, without one difference.

`RUNYARD_IMAGES_SEED` repeats a run; without it every run draws another.
"""

import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from runyard.spec.images import MOST_PORT, ImageError, parse_image, split_port
from testbed import build, doctor
from tests.integration.oracle import Document, Oracle

TEXTS = 100_000
HOSTS = (
    *(
        "docker.io",
        "index.docker.io",
        "registry-1.docker.io",
        "ghcr.io",
        "GHCR.io",
        "localhost",
        "LOCALHOST",
        "EVILREG",
    ),
    *("a-b.example.org", "reg", "10.0.0.1", "[::1]", "[fe80::1]", "[0:0::A]", "127.0.0.1", "evil.io.", ".io", "a..b"),
    *(
        "-a.io",
        "a-.io",
        "a_b.io",
        "a__b.c",
        "xn--bcher-kva.example",
        "evil.io%00",
        "[::1",
        "a.b-c",
        "Team",
        "İ.io",
        "ſ",
    ),
)
PORTS = ("", "", "", "", ":443", ":0443", ":80", ":5000", ":00080", ":65535", ":65536", ":0", ":", ":a", ":-1", ":９")
COMPONENTS = (
    *("library", "python", "team-a", "a.b", "a__b", "a_b", "a---b", "0", "x" * 100, "A", "Team", "a___b", "a..b", "-a"),
    *("a-", ".", "..", "", "a b", "ü", "a%2f", "_a", "a._b", "localhost", "docker.io", "f" * 64),
)
TAGS = (
    "",
    "",
    ":1.9",
    ":latest",
    ":_x",
    ":V1-rc.2",
    ":.x",
    ":-x",
    ":",
    ":a/b",
    ":" + "t" * 128,
    ":" + "t" * 129,
    ":a+b",
)
DIGESTS = (
    *("", "", "", "@sha256:" + "a" * 64, "@sha512:" + "0" * 128, "@sha384:" + "9" * 96, "@sha256:" + "A" * 64),
    *("@sha256:" + "a" * 63, "@sha256:" + "a" * 65, "@md5:" + "a" * 32, "@sha256", "@", "@sha256+b64:" + "a" * 64),
    *("@SHA256:" + "a" * 64, "@sha256:" + "g" * 64, "@sha256:" + "a" * 64 + "@sha256:" + "a" * 64),
)
ALPHABET = "aZ09.-_/:@[]*% \u00e9"


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    if not build.is_reference_parser_cached():
        missing = [finding.what for finding in doctor.examine_build() if not finding.is_there]
        if missing:
            pytest.skip(f"the parser cannot be built on this machine: it lacks {', '.join(missing)}")
    started = Oracle(build.ensure_reference_parser())
    yield started
    assert started.close() == 0


@pytest.fixture
def generator() -> random.Random:
    seed = int(os.environ.get("RUNYARD_IMAGES_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"to repeat this: RUNYARD_IMAGES_SEED={seed}")  # noqa: T201 - shown with a failure
    return random.Random(seed)


def draw_parts(draw: random.Random) -> str:
    host = draw.choice(HOSTS) + draw.choice(PORTS) + "/" if draw.random() < 0.7 else ""
    path = "/".join(draw.choice(COMPONENTS) for _ in range(draw.randint(1, 3)))
    return host + path + draw.choice(TAGS) + draw.choice(DIGESTS)


def draw_plain(draw: random.Random) -> str:
    host = draw.choice(HOSTS[:11]) + draw.choice(PORTS[:10]) + "/" if draw.random() < 0.7 else ""
    path = "/".join(draw.choice(COMPONENTS[:8]) for _ in range(draw.randint(1, 3)))
    return host + path + draw.choice(TAGS[:6]) + draw.choice(DIGESTS[:6])


def draw_mutation(draw: random.Random) -> str:
    text = draw.choice([draw_plain, draw_parts])(draw)
    for _ in range(draw.choice([1, 1, 2, 3])):
        place = draw.randint(0, len(text))
        added = draw.choice(ALPHABET)
        text = draw.choice(
            [
                text[:place] + added + text[place:],
                text[:place] + text[place + 1 :],
                text[:place] + text[place : place + 1].swapcase() + text[place + 1 :],
            ]
        )
    return text


def draw_soup(draw: random.Random) -> str:
    return "".join(draw.choices(ALPHABET, k=draw.randint(0, 12)))


STRATEGIES: tuple[Callable[[random.Random], str], ...] = (draw_plain, draw_plain, draw_parts, draw_mutation, draw_soup)


def describe(text: str) -> Document | None:
    try:
        image = parse_image(text)
    except ImageError:
        return None
    return {"domain": image.domain, "path": image.path, "tag": image.tag, "digest": image.digest}


BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
IPV4 = re.compile(rf"{BYTE}(?:\.{BYTE}){{3}}")
NUMBER = re.compile("[0-9]+|0[xX][0-9a-fA-F]*")


def read_answer(answer: Document) -> Document | None:
    """The runtimes' answer, but None for three forms that only we refuse.

    Where the first component is neither a host nor a path (`a_b.io/x`), the parser answers without a domain, and the
    runtimes would ask the host `a_b.io`. A port above 65535 parses, and no connection is possible. A host that ends
    with a number and is not a plain IPv4 address (`127.1`, `0x7f.0.0.1`) is another spelling of one for some resolvers.
    """
    if "error" in answer or not answer["domain"]:
        return None
    host, port = split_port(answer["domain"])
    if NUMBER.fullmatch(host.rpartition(".")[2]) and not IPV4.fullmatch(host):
        return None
    return None if port and not 0 < int(port) <= MOST_PORT else answer


def test_no_reference_is_read_otherwise_when_the_runtimes_read_it_too(oracle: Oracle, generator: random.Random) -> None:
    texts = [generator.choice(STRATEGIES)(generator) for _ in range(TEXTS)]
    texts = [text for text in texts if text]
    answers = oracle.ask_all(texts)

    seen: Counter[str] = Counter()
    differences = []
    for text, answer in zip(texts, answers, strict=True):
        ours, theirs = describe(text), read_answer(answer)
        seen["refused" if theirs is None else "read"] += 1
        seen["by digest"] += theirs is not None and bool(theirs["digest"])
        seen["by another host"] += theirs is not None and theirs["domain"] != "docker.io"
        if ours != theirs:
            differences.append((text, ours, answer))

    assert differences[:10] == []
    assert {what: count for what, count in seen.items() if count < TEXTS // 20} == {}
    assert len(seen) == 4
