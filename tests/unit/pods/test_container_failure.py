import pytest

from runyard.pods.container_failure import is_root_refusal

ROOT = "container has runAsNonRoot and image will run as root (pod: …)"
NAMED = "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root"


@pytest.mark.parametrize("message", [ROOT, NAMED])
def test_a_root_image_is_told_when_the_kubelet_refuses_it(message: str) -> None:
    assert is_root_refusal(message)


@pytest.mark.parametrize("message", ["", 'secret "x" not found', "runAsNonRoot", "image will run as root"])
def test_nothing_is_told_when_the_kubelet_says_something_else(message: str) -> None:
    assert not is_root_refusal(message)
