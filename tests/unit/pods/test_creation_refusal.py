"""Why an apiserver refuses to create a pod."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.pods.creation_refusal import RefusalKind, read_refusal


@pytest.mark.parametrize(
    ("message", "kind", "text"),
    [
        (
            (
                'Error creating: pods "run-x" is forbidden: exceeded quota: team, requested: requests.cpu=2,pods=1,'
                " used: requests.cpu=1500m,pods=9, limited: requests.cpu=3,pods=10"
            ),
            RefusalKind.QUOTA,
            (
                "the resource quota team has no room (requests.cpu: 2 requested, 1500m of 3 used;"
                " pods: 1 requested, 9 of 10 used)"
            ),
        ),
        (
            'pods "run-" is forbidden: pod rejected: RuntimeClass "gvisor" not found',
            RefusalKind.RUNTIME_CLASS,
            "the runtime class gvisor does not exist in the cluster",
        ),
        (
            'Error creating: pods "run-" is forbidden: no PriorityClass with name urgent was found',
            RefusalKind.PRIORITY_CLASS,
            "the priority class urgent does not exist in the cluster",
        ),
        (
            'pods "run-" is forbidden: error looking up service account a/b: serviceaccount "b" not found',
            RefusalKind.SERVICE_ACCOUNT,
            "the service account b does not exist in the namespace",
        ),
        (
            'Error creating: admission webhook "x.example" denied the request: no',
            RefusalKind.ADMISSION,
            'the cluster refuses the pod: admission webhook "x.example" denied the request: no',
        ),
        (
            'Error creating: pods "run-x" is forbidden: failed quota: team: must specify limits.cpu for: main',
            RefusalKind.ADMISSION,
            "the cluster refuses the pod: failed quota: team: must specify limits.cpu for: main",
        ),
    ],
)
def test_refusal_says_what_is_missing_when_a_pod_is_not_created(message: str, kind: RefusalKind, text: str) -> None:
    found = read_refusal(message)
    assert (found.kind, found.text) == (kind, text)


def test_other_amounts_are_counted_when_a_quota_has_very_many() -> None:
    amounts = ",".join(f"r{number}=1" for number in range(50))
    found = read_refusal(f"exceeded quota: q, requested: {amounts}, used: {amounts}, limited: {amounts}")
    assert found.text.endswith("; 30 more)")


@given(st.text(alphabet='requested:usedlimited,= "qota', max_size=200))
def test_nothing_is_raised_when_the_refusal_is_garbage(rest: str) -> None:
    assert read_refusal(f"exceeded quota: {rest}").text
