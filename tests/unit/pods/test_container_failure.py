from typing import Any

import pytest

from runyard.pods.container_failure import find_failure

ROOT = "container has runAsNonRoot and image will run as root (pod: …)"
NAMED = "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root"


def make_pod(reason: str, message: str) -> dict[str, Any]:
    waiting = {"waiting": {"reason": reason, "message": message}}
    return {"status": {"containerStatuses": [{"name": "main", "state": waiting}]}}


@pytest.mark.parametrize("message", [ROOT, NAMED])
def test_a_root_image_is_told_when_the_kubelet_refuses_it(message: str) -> None:
    failure = find_failure(make_pod("CreateContainerConfigError", message))
    assert failure is not None
    assert (failure.code, failure.container) == ("image.root", "main")
    assert "run_as_user" in str(failure.suggestion)


@pytest.mark.parametrize(
    "pod",
    [
        {},
        {"status": None},
        {"status": {"containerStatuses": ["odd", {"state": None}]}},
        make_pod("ContainerCreating", ""),
        make_pod("CreateContainerConfigError", 'secret "x" not found'),
    ],
)
def test_nothing_is_told_when_the_pod_may_still_start(pod: dict[str, Any]) -> None:
    assert find_failure(pod) is None
