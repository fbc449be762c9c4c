import pytest

from runyard.telemetry.redaction import HIDDEN, redact, redact_text, redact_value

CANARY = "canary-7f3a9c"


@pytest.mark.parametrize(
    "key",
    [
        "authorization",
        "Authorization",
        "password",
        "new_password",
        "passwd",
        "token",
        "access_token",
        "refresh-token",
        "secret",
        "client_secret",
        "secrets",
        "cookie",
        "api_key",
        "s3_secret_key",
        "private_key",
        "credentials",
        "wrapped_key",
        "ciphertext",
    ],
)
@pytest.mark.parametrize("value", [CANARY, [CANARY], {"a": CANARY}, CANARY.encode()])
def test_value_is_hidden_when_its_key_tells(key: str, value: object) -> None:
    assert CANARY not in str(redact(None, "info", {"event": "x", key: value}))
    assert CANARY not in str(redact(None, "info", {"event": "x", "deep": [{"er": {key: value}}]}))


@pytest.mark.parametrize(
    "environment",
    [
        {"envs": [{"name": "HF_HOME", "value": CANARY}]},
        {"envs": {"HF_HOME": CANARY}},
        {"spec": {"env": [{"name": "A", "value": CANARY}]}},
        {"anything": [{"name": "A", "value": CANARY}]},
        {"environment": {"name": "x", "value": CANARY}},
    ],
)
def test_value_is_hidden_when_it_is_of_an_environment(environment: dict[str, object]) -> None:
    shown = str(redact_value(environment))
    assert CANARY not in shown
    assert HIDDEN in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Bearer abcdef.ghi", f"Bearer {HIDDEN}"),
        ("sent 'basic YWRhOnB3' twice", f"sent 'basic {HIDDEN}' twice"),
        ("ryp_0123456789abcdefXYZ was used", f"{HIDDEN} was used"),
        ("token eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln is bad", f"token {HIDDEN} is bad"),
        ("x-eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln,", f"x-{HIDDEN},"),
        ("postgresql://ada:pw@db/x", f"postgresql://ada:{HIDDEN}@db/x"),
        ("https://example.org:8080/a?b=c", "https://example.org:8080/a?b=c"),
        ("a bearer of news", "a bearer of news"),
    ],
)
def test_credentials_are_hidden_when_they_stand_in_a_text(text: str, shown: str) -> None:
    assert redact_text(text) == shown


def test_other_values_stay_when_nothing_tells() -> None:
    event = {"event": "run.submitted", "run": "r-1", "token_id": "t", "is_secret": True, "token": None, "count": 3}
    assert redact(None, "info", event) == event
    assert redact_value(b"1234") == "4 bytes"


def test_nothing_is_shown_when_it_is_too_deep() -> None:
    value: object = CANARY
    for _ in range(20):
        value = [value]
    assert CANARY not in str(redact_value(value))
