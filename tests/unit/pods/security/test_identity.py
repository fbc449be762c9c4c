import pytest

from tests.unit.pods.security.pods import Object, container, judge, pod

MUST_FORBID = 'container "main" must set securityContext.allowPrivilegeEscalation=false'


@pytest.mark.parametrize("value", [None, True])
def test_privilege_escalation_is_refused_when_it_is_not_forbidden(value: bool | None) -> None:
    given = pod(container(context={"allowPrivilegeEscalation": value}))
    assert judge(given) == {"allowPrivilegeEscalation": MUST_FORBID}
    assert judge(given, version="1.7") == {}
    assert judge(given, level="baseline") == {}


def test_windows_pod_may_leave_escalation_unset_when_the_version_is_1_25_or_later() -> None:
    silent, loud = (
        pod(container(context={"allowPrivilegeEscalation": value}), os={"name": "windows"}) for value in (None, True)
    )
    assert judge(silent, version="1.25") == {}
    assert judge(silent, version="1.24") == {"allowPrivilegeEscalation": MUST_FORBID}
    assert judge(loud) == {"allowPrivilegeEscalation": MUST_FORBID}


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        (
            pod(container("a"), container("b"), context={"runAsNonRoot": None}),
            'pod or containers "a", "b" must set securityContext.runAsNonRoot=true',
        ),
        (
            pod(container("a", context={"runAsNonRoot": True}), container("b"), context={"runAsNonRoot": None}),
            'pod or container "b" must set securityContext.runAsNonRoot=true',
        ),
        (
            pod(container(context={"runAsNonRoot": False})),
            'container "main" must not set securityContext.runAsNonRoot=false',
        ),
        (
            pod(container("a"), container(context={"runAsNonRoot": False}), context={"runAsNonRoot": False}),
            'pod and container "main" must not set securityContext.runAsNonRoot=false',
        ),
    ],
)
def test_root_is_refused_when_it_is_left_open_or_asked_for(given: Object, detail: str) -> None:
    assert judge(given, version="1.0")["runAsNonRoot"] == detail
    assert judge(given) == {"runAsNonRoot": detail}
    assert judge(given, level="baseline") == {}


def test_each_container_may_say_it_when_the_pod_does_not() -> None:
    assert judge(pod(container(context={"runAsNonRoot": True}), context={"runAsNonRoot": None})) == {}


def test_user_0_is_refused_when_the_version_is_1_23_or_later() -> None:
    given = pod(container(context={"runAsUser": 0}), container("b", context={"runAsUser": 7}), context={"runAsUser": 0})
    assert judge(given) == {"runAsUser": 'pod and container "main" must not set runAsUser=0'}
    assert judge(given, version="1.22") == {}


def test_root_is_allowed_since_1_35_when_users_are_the_pods_own() -> None:
    given = pod(context={"runAsUser": 0, "runAsNonRoot": False}, hostUsers=False)
    assert judge(given, version="1.35") == {}
    assert judge(given, version="1.34").keys() == {"runAsNonRoot", "runAsUser"}
    assert judge({**given, "spec": {**given["spec"], "hostUsers": True}}).keys() == {"runAsNonRoot", "runAsUser"}
