import pytest

from runyard.pods.security import check_template_security
from tests.unit.pods.security.pods import Object, container, judge, pod

UNCONFINED = {"type": "Unconfined"}
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def test_unconfined_seccomp_is_refused_when_pod_and_containers_say_it() -> None:
    given = pod(
        container("a", context={"seccompProfile": UNCONFINED}),
        container("b", context={"seccompProfile": {"type": ""}}),
        context={"seccompProfile": UNCONFINED},
    )
    detail = 'pod and containers "a", "b" must not set securityContext.seccompProfile.type to "", "Unconfined"'
    assert judge(given, level="baseline") == {"seccompProfile_baseline": detail}
    assert judge(given) == {"seccompProfile_restricted": detail}


def test_seccomp_is_required_by_restricted_when_neither_pod_nor_container_says_it() -> None:
    given = pod(
        container("a"),
        container("b", context={"seccompProfile": {"type": "Localhost"}}),
        context={"seccompProfile": None},
    )
    must = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    assert judge(given) == {"seccompProfile_restricted": f'pod or container "a" {must}'}
    assert judge(given, version="1.18") == {}
    assert judge(given, level="baseline") == {}


def test_windows_pod_may_leave_seccomp_unset_when_the_version_is_1_25_or_later() -> None:
    given = pod(context={"seccompProfile": None}, os={"name": "windows"})
    assert judge(given, version="1.25") == {}
    assert judge(given, version="1.24").keys() == {"seccompProfile_restricted"}
    assert judge(pod(context={"seccompProfile": UNCONFINED}, os={"name": "windows"})) != {}


@pytest.mark.parametrize("value", ["unconfined", "", "runtime", 'a"\n\u200b'])
def test_seccomp_annotation_is_refused_before_1_19_when_it_does_not_confine(value: str) -> None:
    keys = ("seccomp.security.alpha.kubernetes.io/pod", "container.seccomp.security.alpha.kubernetes.io/main")
    given = pod(annotations=dict.fromkeys(keys, value))
    quoted = {"unconfined": '"unconfined"', "": '""', "runtime": '"runtime"'}.get(value, '"a\\"\\n\\u200b"')
    assert judge(given, level="baseline", version="1.18") == {
        "seccompProfile_baseline": f"forbidden annotations {keys[1]}={quoted}, {keys[0]}={quoted}"
    }
    assert judge(given, level="baseline", version="1.19") == {}


@pytest.mark.parametrize("value", ["runtime/default", "docker/default", "localhost/x"])
def test_seccomp_annotation_is_allowed_when_it_confines(value: str) -> None:
    given = pod(annotations={"seccomp.security.alpha.kubernetes.io/pod": value})
    assert judge(given, version="1.18") == {}


def test_seccomp_annotation_is_ignored_when_no_container_has_that_name() -> None:
    given = pod(annotations={"container.seccomp.security.alpha.kubernetes.io/other": "unconfined"})
    assert judge(given, version="1.18") == {}


def test_unconfined_apparmor_is_refused_when_a_field_says_it() -> None:
    given = pod(container(context={"appArmorProfile": UNCONFINED}), context={"appArmorProfile": UNCONFINED})
    detail = 'pod and container "main" must not set AppArmor profile type to "Unconfined"'
    assert judge(given, level="baseline", version="1.0") == {"appArmorProfile": detail}


def test_unconfined_apparmor_is_refused_when_an_annotation_says_it() -> None:
    key = f"{APPARMOR}main"
    given = pod(annotations={key: "unconfined"})
    detail = f'container "main" and annotation must not set AppArmor profile type to "Unconfined", "{key}="unconfined""'
    assert judge(given) == {"appArmorProfile": detail}


@pytest.mark.parametrize(
    "spoilt",
    [{"context": {"appArmorProfile": UNCONFINED}}, {"os": {"name": "windows"}}],
    ids=["pod says it", "windows"],
)
def test_annotation_does_not_become_a_field_when_the_apiserver_leaves_it(spoilt: Object) -> None:
    given = pod(annotations={f"{APPARMOR}main": "unconfined"}, **spoilt)
    assert "container" not in judge(given)["appArmorProfile"].partition(" must ")[0]


def test_annotation_stays_an_annotation_when_a_template_is_judged() -> None:
    key = f"{APPARMOR}main"
    given = pod(annotations={key: "unconfined"})
    template = {"metadata": given["metadata"], "spec": given["spec"]}
    [found] = check_template_security(template, level="baseline")
    assert found.reason == "forbidden AppArmor profile"
    assert found.detail == f'annotation must not set AppArmor profile type to "{key}="unconfined""'


@pytest.mark.parametrize("value", ["", "runtime/default", "localhost/x"])
def test_apparmor_annotation_is_allowed_when_it_confines(value: str) -> None:
    assert judge(pod(annotations={f"{APPARMOR}main": value})) == {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"type": "spc_t"}, 'type "spc_t"'),
        ({"user": "u"}, "user may not be set"),
        ({"role": "r"}, "role may not be set"),
        ({"type": "x", "user": "u", "role": "r"}, 'type "x"; user may not be set; role may not be set'),
    ],
)
def test_selinux_options_are_refused_when_they_loosen(options: Object, said: str) -> None:
    given = pod(container(context={"seLinuxOptions": options}))
    detail = f'container "main" set forbidden securityContext.seLinuxOptions: {said}'
    assert judge(given, level="baseline") == {"seLinuxOptions": detail}


@pytest.mark.parametrize("options", [{}, {"level": "s0"}, {"type": ""}, {"type": "container_kvm_t", "user": None}])
def test_selinux_options_are_allowed_when_they_are_made_for_containers(options: Object) -> None:
    assert judge(pod(context={"seLinuxOptions": options})) == {}


def test_engine_type_is_allowed_when_the_version_is_1_31_or_later() -> None:
    given = pod(context={"seLinuxOptions": {"type": "container_engine_t"}})
    assert judge(given, version="1.31") == {}
    assert judge(given, version="1.30") == {
        "seLinuxOptions": 'pod set forbidden securityContext.seLinuxOptions: type "container_engine_t"'
    }
