"""Valid and invalid names of Kubernetes, with edge cases."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.spec.names import (
    check_config_key,
    check_dns_1035_label,
    check_dns_label,
    check_dns_subdomain,
    check_env_name,
    check_label_value,
    check_port_name,
    check_project_name,
    check_qualified_name,
    check_slug,
    check_toleration_key,
    suggest_dns_1035_label,
    suggest_dns_label,
    suggest_env_name,
    suggest_project_name,
)

Check = Callable[[str], str | None]

ACCEPTED: list[tuple[Check, tuple[str, ...]]] = [
    (check_dns_label, ("a", "0", "a-b", "9a", "x" * 63)),
    (check_dns_subdomain, ("a", "a.b", "a-1.b-2.0", "x" * 253)),
    (check_dns_1035_label, ("a", "a-0", "x" * 63)),
    (check_qualified_name, ("a", "A_b.c-d", "x" * 63, "a.b/C", f"{'a' * 253}/b", "1/1")),
    (check_toleration_key, ("nvidia.com/gpu", "spot")),
    (check_label_value, ("", "a", "A_b.c-d", "1", "x" * 63)),
    (check_env_name, ("A", "_", "a.b-c", ".a", "-a", "x" * 1000)),
    (check_config_key, ("a", ".a", "-", "a.b_c-D", "1", "x" * 253)),
    (check_port_name, ("a", "http-8080", "8080a", "x" * 15)),
    (check_slug, ("a", "A.b_c+d-e", "0" * 32)),
    (check_project_name, ("ab", "--", "1-a", "x" * 38)),
]
REFUSED: list[tuple[Check, tuple[str, ...]]] = [
    (check_dns_label, ("", "A", "a.b", "-a", "a-", "a_b", "a b", "x" * 64, "a/b", "ä")),
    (check_dns_subdomain, ("", "A", "a..b", ".a", "a.", "a.-b", "a-.b", "a_b", "x" * 254)),
    (check_dns_1035_label, ("", "0a", "-a", "a-", "a.b", "A", "x" * 64)),
    (
        check_qualified_name,
        ("", "/a", "a/", "a/b/c", "-a", "a-", "A/b", "a_b/c", "x" * 64, f"{'a' * 254}/b", "ä", "a b"),
    ),
    (check_toleration_key, ("", "a b")),
    (check_label_value, (" ", "-a", "a-", "a/b", "a b", "x" * 64, "ä")),
    (check_env_name, ("", "1a", "a=b", "a b", "ä", ".", "..", "..a")),
    (check_config_key, ("", "a b", "a/b", ".", "..", "..a", "ä", "x" * 254)),
    (check_port_name, ("", "80", "-a", "a-", "a--b", "A", "a_b", "x" * 16)),
    (check_slug, ("", "a b", "a/b", "ä", "a:b", "x" * 254)),
    (check_project_name, ("", "a", "A1", "a_b", "a.b", "x" * 39)),
]
CHECKS = [check for check, _ in ACCEPTED]


@pytest.mark.parametrize(("check", "name"), [(check, name) for check, names in ACCEPTED for name in names])
def test_name_is_taken_when_it_keeps_the_rule(check: Check, name: str) -> None:
    assert check(name) is None


@pytest.mark.parametrize(("check", "name"), [(check, name) for check, names in REFUSED for name in names])
def test_name_is_refused_with_a_sentence_when_it_breaks_the_rule(check: Check, name: str) -> None:
    error = check(name)
    assert error
    assert error.split()[0] in ("must", "has")


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("tail", ["\n", "\r", " ", "\u0000", "\u0660"])
def test_name_is_refused_when_something_strange_follows_it(check: Check, tail: str) -> None:
    assert check(f"ab{tail}")


@pytest.mark.parametrize(
    ("suggest", "name", "suggestion"),
    [
        (suggest_dns_label, "My_PVC 1", "my-pvc-1"),
        (suggest_dns_label, "a.b", "a-b"),
        (suggest_dns_label, "ä", None),
        (suggest_dns_label, f"{'x' * 62}-y", "x" * 62),
        (suggest_dns_1035_label, "1-Service", "service"),
        (suggest_dns_1035_label, "123", None),
        (suggest_env_name, "1 A=b", "_1_A_b"),
        (suggest_env_name, "ok", None),
        (suggest_env_name, "=", None),
        (suggest_project_name, "My Project", "my-project"),
        (suggest_project_name, "x", None),
    ],
)
def test_nearest_name_is_proposed_when_there_is_one(
    suggest: Callable[[str], str | None], name: str, suggestion: str | None
) -> None:
    assert suggest(name) == suggestion


@given(st.text())
def test_proposed_name_keeps_the_rule_when_text_is_anything(name: str) -> None:
    pairs = [
        (suggest_dns_label, check_dns_label),
        (suggest_dns_1035_label, check_dns_1035_label),
        (suggest_env_name, check_env_name),
        (suggest_project_name, check_project_name),
    ]
    for suggest, check in pairs:
        suggestion = suggest(name)
        assert suggestion is None or check(suggestion) is None
