"""The Authorization header, as friends and strangers send it."""

from base64 import b64encode

import pytest

from runyard.app.errors import Unauthenticated
from runyard.auth.headers import Basic, Bearer, parse_header


def encode(content: bytes) -> str:
    return f"Basic {b64encode(content).decode()}"


@pytest.mark.parametrize("header", ["Bearer abc.d-e_f", "bearer abc.d-e_f", "BEARER   abc.d-e_f", "Bearer abc.d-e_f  "])
def test_token_is_read_when_the_scheme_is_bearer(header: str) -> None:
    assert parse_header(header) == Bearer("abc.d-e_f")


@pytest.mark.parametrize(
    ("content", "name", "password"),
    [
        (b"ada:secret", "ada", "secret"),
        (b"ada:", "ada", ""),
        (b"ada:a:b:c", "ada", "a:b:c"),
        ("ada:pässwörd✓".encode(), "ada", "pässwörd✓"),
        ("ada:pässwörd".encode("latin-1"), "ada", "pässwörd"),
        (b"ada:" + b"x" * 10_000, "ada", "x" * 10_000),
        (b"ada:a\r\nb\0", "ada", "a\r\nb\0"),
    ],
)
def test_name_and_password_are_read_when_the_scheme_is_basic(content: bytes, name: str, password: str) -> None:
    assert parse_header(encode(content)) == Basic(name, password)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        " ",
        "Bearer",
        "Bearer ",
        " Bearer abc",
        "Bearer abc def",
        "Bearer abc\r\nX-Admin: 1",
        "Bearer abc\n",
        "Bearer abc\0",
        "Bearer abcé",
        "Bearer abc, Basic YTpi",
        "Bearer\tabc",
        "abc",
        "Digest abc",
        "Basic ???",
        "Basic YWRh",
        encode(b":secret"),
        encode(b""),
        "Bearer " + "x" * 20_000,
    ],
)
def test_nobody_is_known_and_nothing_is_shown_when_the_header_is_odd(header: str | None) -> None:
    with pytest.raises(Unauthenticated) as caught:
        parse_header(header)
    assert not any(part in str(caught.value) for part in ("abc", "secret", "xxx", "\n", "YWRh"))


def test_credentials_are_not_shown_when_they_are_printed() -> None:
    assert "s3cret" not in repr([Bearer("s3cret"), Basic("ada", "s3cret")])
