import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.pods.memory_advice import advise_memory

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("peak", "limit", "request_text"),
    [
        (None, 512 * MIB, "640Mi"),
        (512 * MIB, 512 * MIB, "640Mi"),
        (100 * MIB, 2 * GIB, "2560Mi"),
        (3 * GIB, 2 * GIB, "3840Mi"),
        (None, 8 * GIB, "10Gi"),
        (None, 100 * MIB, "128Mi"),
        (None, 1000 * MIB, "1280Mi"),
        (None, 10 * MIB, "64Mi"),
    ],
)
def test_next_request_is_a_quarter_more_and_tidy_when_a_run_was_out_of_memory(
    peak: int | None, limit: int, request_text: str
) -> None:
    advice = advise_memory(peak, limit_bytes=limit, request_bytes=None)
    assert advice.request is not None
    assert advice.request.text == request_text


def test_sentence_has_peak_limit_and_request_when_all_are_known() -> None:
    advice = advise_memory(2 * GIB - 4096, limit_bytes=2 * GIB, request_bytes=GIB)
    assert advice.text == "out of memory: it used about 2Gi and its limit is 2Gi; try resources.mem: 2560Mi"


def test_sentence_says_at_least_the_limit_when_the_peak_is_not_known() -> None:
    advice = advise_memory(None, limit_bytes=GIB, request_bytes=None)
    assert advice.text == "out of memory: it needs more than its limit of 1Gi; try resources.mem: 1280Mi"


def test_sentence_blames_the_machine_when_there_is_no_limit() -> None:
    assert advise_memory(4 * GIB, limit_bytes=None, request_bytes=None).text == (
        "out of memory: the machine had no more after it used 4Gi; try resources.mem: 5Gi"
    )
    nothing = advise_memory(None, limit_bytes=None, request_bytes=None)
    assert nothing.text == "out of memory: the machine had no more; set resources.mem to what it needs"
    assert nothing.request is None


def test_no_request_is_proposed_when_it_would_be_larger_than_allowed() -> None:
    advice = advise_memory(None, limit_bytes=512 << 50, request_bytes=None)
    assert advice.request is None
    assert advice.text.endswith("set resources.mem to what it needs")


sizes = st.none() | st.integers(0, 1 << 58)


@given(peak=sizes, limit=sizes, request=sizes)
def test_proposal_exceeds_every_figure_when_it_is_given(
    peak: int | None, limit: int | None, request: int | None
) -> None:
    advice = advise_memory(peak, limit_bytes=limit, request_bytes=request)
    if advice.request is not None:
        known = max(peak or 0, limit or 0, request or 0)
        assert known * 5 // 4 <= advice.request.value
        assert advice.request.value <= max(64 * MIB, known * 5 // 4 * 9 // 8 + 2)
