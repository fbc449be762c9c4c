from typing import Any

import pytest

from runyard.domain.rule_checks import allows_toleration, denies_toleration

EVERY_TAINT = {"operator": "Exists"}
NO_KEY = {"key": "", "operator": "Exists", "effect": "NoSchedule"}
GPU = {"key": "gpu", "operator": "Equal", "value": "a100", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("matcher", "toleration", "is_denied"),
    [
        ({"key": "gpu"}, GPU, True),
        ({"key": "g*"}, GPU, True),
        ({"key": "spot"}, GPU, False),
        # Without a key a toleration reaches every taint, the denied one too.
        ({"key": "gpu"}, EVERY_TAINT, True),
        ({"key": "gpu"}, NO_KEY, True),
        # Empty text denies tolerations without a key, and no others.
        ({"key": ""}, EVERY_TAINT, True),
        ({"key": ""}, GPU, False),
        ({"key": "gpu", "effect": "NoExecute"}, GPU, False),
        ({"key": "gpu", "effect": "NoExecute"}, {"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "value": "h100"}, GPU, False),
        ({"key": "gpu", "value": "h100"}, {"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists"}, GPU, False),
        ({"key": "gpu", "operator": "Equal"}, {"key": "gpu", "value": "a"}, True),
    ],
)
def test_toleration_is_denied_when_it_reaches_anything_of_the_pattern(
    matcher: dict[str, str], toleration: dict[str, Any], is_denied: bool
) -> None:
    assert denies_toleration(matcher, toleration) is is_denied


@pytest.mark.parametrize(
    ("matcher", "toleration", "is_allowed"),
    [
        ({"key": "gpu"}, GPU, True),
        ({"key": "gpu"}, EVERY_TAINT, False),
        ({"key": ""}, EVERY_TAINT, True),
        ({"key": ""}, GPU, False),
        ({"key": "gpu", "value": "a100"}, GPU, True),
        ({"key": "gpu", "value": "a100"}, {"key": "gpu", "operator": "Exists"}, False),
        ({"key": "gpu", "operator": "Equal"}, {"key": "gpu", "value": "a"}, True),
        ({"key": "gpu", "effect": "NoSchedule"}, {"key": "gpu", "value": "a"}, False),
    ],
)
def test_toleration_is_allowed_when_all_it_reaches_is_within_the_pattern(
    matcher: dict[str, str], toleration: dict[str, Any], is_allowed: bool
) -> None:
    assert allows_toleration(matcher, toleration) is is_allowed
