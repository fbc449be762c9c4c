from pathlib import Path
from typing import Any

import pytest

from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.problems import Problem, Refused
from runyard.spec.profile import Profile
from runyard.spec.profile_documents import load_profile_files, read_profiles
from runyard.spec.resources import Sides
from runyard.spec.services import ServicePort

FILES = Path(__file__).parents[2] / "data" / "digitalhub"


def _load(*names: str) -> tuple[dict[str, Profile], list[Problem]]:
    profiles, warnings = load_profile_files({name: (FILES / name).read_text() for name in names})
    return dict(profiles), warnings


def _refuse(*documents: Any) -> dict[str, Problem]:
    with pytest.raises(Refused) as refused:
        read_profiles(documents)
    return {problem.where: problem for problem in refused.value.problems}


def _job(pod: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": {**spec, "template": {"spec": pod}}}


@pytest.fixture(scope="module")
def a100() -> Profile:
    return _load("a100.yaml")[0]["1xa100"]


def test_every_documented_key_is_honoured_when_digitalhubs_file_is_loaded(a100: Profile) -> None:
    fields = a100.fields

    assert (a100.name, a100.description) == (
        "One A100",
        "One A100 with its share of the node.\nFor training; jobs end after two days.\n",
    )
    assert fields.resources is not None
    assert fields.resources["cpu"] == Sides(requests=Quantity.parse("8"), limits=Quantity.parse("12"))
    assert fields.resources["mem"] == Sides(requests=Quantity.parse("64Gi"), limits=Quantity.parse("80Gi"))
    assert fields.resources["nvidia.com/gpu"].limits == Quantity.parse("1")
    assert fields.node_selector == {"accelerator": "a100"}
    assert fields.tolerations == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert fields.affinity is not None
    assert "nodeAffinity" in fields.affinity
    assert (fields.runtime_class, fields.priority_class, fields.image_pull_policy) == ("nvidia", "training", "Always")
    assert fields.envs == {"NVIDIA_VISIBLE_DEVICES": "all", "OMP_NUM_THREADS": "8"}
    assert fields.secrets is not None
    assert [use.name for use in fields.secrets] == ["WANDB_API_KEY"]
    assert (fields.run_as_user, fields.run_as_group, fields.fs_group) == (8877, 999, 999)
    assert fields.labels == {"example.org/cost-centre": "research"}
    assert fields.volumes is not None
    assert [(volume.name, volume.mount_path) for volume in fields.volumes] == [("shm", "/dev/shm")]


def test_the_job_becomes_weak_fields_when_a_file_has_base_objects(a100: Profile) -> None:
    base = a100.base["Job"]

    assert (base.ttl, base.timeout, base.backoff_limit, base.grace_period) == (3600, 172_800, 2, 60)
    assert (base.service_account, base.scheduler_name) == ("trainer", "gpu-scheduler")
    assert base.host_aliases == ({"ip": "10.1.2.3", "hostnames": ["license.example.org"]},)
    assert base.topology_spread is not None
    assert base.topology_spread[0]["topologyKey"] == "kubernetes.io/hostname"
    assert base.image_pull_secrets == ("registry",)
    assert (base.run_as_user, base.fs_group) == (None, 2000)
    assert base.image_pull_policy == "IfNotPresent"
    assert dict(base.resources or {}) == {"mem": Sides(limits=Quantity.parse("4Gi"))}
    assert base.envs == {"TZ": "Europe/Rome", "EMPTY": ""}
    assert (base.image, base.command) == (None, None)


def test_deployment_and_service_become_weak_fields_when_a_file_has_them(a100: Profile) -> None:
    assert set(a100.base) == {"Job", "Deployment", "Service"}
    assert a100.base["Deployment"].replicas == 2
    assert a100.base["Deployment"].node_selector == {"pool": "serving"}
    assert a100.base["Service"].service_type == "NodePort"
    assert a100.base["Service"].service_ports == (ServicePort(port=80, target_port=8080, name="http"),)


def test_what_is_not_used_is_told_with_its_line_when_a_file_is_loaded() -> None:
    _, warnings = _load("a100.yaml")

    assert {warning.where for warning in warnings} == {
        "documents[1].metadata",
        "documents[1].spec.template.spec.restartPolicy",
        "documents[1].spec.template.spec.containers[0].name",
        "documents[1].spec.template.spec.containers[0].image",
        "documents[1].spec.template.spec.containers[0].command",
        "documents[2].metadata",
        "documents[2].spec.selector",
        "documents[2].spec.template.metadata",
        "documents[3].metadata",
        "documents[3].spec.selector",
        "documents[4].kind",
    }
    cron = next(warning for warning in warnings if warning.where == "documents[4].kind")
    lines = (FILES / "a100.yaml").read_text().splitlines()
    assert cron.message.startswith(f"a100.yaml: line {lines.index('kind: CronJob') + 1}, column ")
    assert all("line " in warning.message for warning in warnings)


def test_both_spellings_load_when_files_mix_them() -> None:
    profiles, warnings = _load("small.yaml", "own.yaml")

    assert list(profiles) == ["small", "default", "spot"]
    small = profiles["small"].fields
    assert (small.backoff_limit, small.replicas, small.service_type) == (1, 1, "ClusterIP")
    assert small.service_ports == (ServicePort(port=8080, target_port=8080),)
    assert profiles["default"].fields.ttl == 86_400
    assert profiles["spot"].fields.node_selector == {"pool": "spot"}
    assert warnings == []


def test_every_problem_is_named_when_a_file_would_weaken_pods() -> None:
    with pytest.raises(Refused) as refused:
        _load("weakened.yaml")
    problems = {problem.where: problem for problem in refused.value.problems}
    pod = "documents[1].spec.template.spec"

    assert set(problems) == {
        "documents[0].runtimeClas",
        "documents[0].securityContext.runAsUser",
        f"{pod}.hostNetwork",
        f"{pod}.nodeName",
        f"{pod}.volumes[0].hostPath",
        f"{pod}.containers[0].securityContext.privileged",
        f"{pod}.containers[0].securityContext.capabilities.add",
        f"{pod}.containers[0].ports[0].hostPort",
        f"{pod}.containers[0].envFrom",
        f"{pod}.containers[1].securityContext.privileged",
    }
    assert problems["documents[0].runtimeClas"].suggestion == "runtime_class"
    assert problems[f"{pod}.hostNetwork"].message.startswith("weakened.yaml: line 12, column 20: ")


@pytest.mark.parametrize(
    ("pod", "where"),
    [
        ({"hostPID": True}, "hostPID"),
        ({"hostIPC": True}, "hostIPC"),
        ({"hostNetwork": 1}, "hostNetwork"),
        ({"hostUsers": False}, "hostUsers"),
        ({"automountServiceAccountToken": True}, "automountServiceAccountToken"),
        ({"initContainers": [{"image": "x"}]}, "initContainers"),
        ({"securityContext": {"runAsNonRoot": False}}, "securityContext.runAsNonRoot"),
        ({"securityContext": {"runAsUser": 0}}, "securityContext.runAsUser"),
        ({"securityContext": {"fsGroup": 0}}, "securityContext.fsGroup"),
        ({"securityContext": {"supplementalGroups": [1]}}, "securityContext.supplementalGroups"),
        ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "securityContext.seccompProfile"),
        ({"securityContext": {"sysctls": []}}, "securityContext.sysctls"),
        ({"containers": [{"securityContext": {"runAsUser": 0}}]}, "containers[0].securityContext.runAsUser"),
        (
            {"containers": [{"securityContext": {"allowPrivilegeEscalation": True}}]},
            "containers[0].securityContext.allowPrivilegeEscalation",
        ),
        ({"containers": [{"env": [{"name": "A", "valueFrom": {}}]}]}, "containers[0].env[0].valueFrom"),
        ({"containers": [{"resources": {"claims": []}}]}, "containers[0].resources.claims"),
        ({"containers": [{"resources": {"limits": {"memory": "4 Gi"}}}]}, "containers[0].resources.limits.memory"),
        ({"containers": {}}, "containers"),
        ({"containers": ["main"]}, "containers[0]"),
        ({"volumes": "all"}, "volumes"),
        ({"tolerations": [{"operator": "Sometimes"}]}, "tolerations[0].operator"),
        ({"schedulerName": "Not A Name"}, "schedulerName"),
        ({"terminationGracePeriodSeconds": -1}, "terminationGracePeriodSeconds"),
        ({"priority": 1000}, "priority"),
    ],
)
def test_the_place_is_named_when_a_base_pod_cannot_be_taken_over(pod: dict[str, Any], where: str) -> None:
    problems = _refuse({"id": "p"}, _job(pod))

    assert list(problems) == [f"documents[1].spec.template.spec.{where}"]


@pytest.mark.parametrize(
    ("document", "where"),
    [
        ({"id": "p", "profile": "q"}, "documents[0].profile"),
        ({"id": "Ä"}, "documents[0].id"),
        ({"id": None}, "documents[0].id"),
        ({"id": "p", "name": ["x"]}, "documents[0].name"),
        ({"id": "p", "description": "\x1b[2J"}, "documents[0].description"),
        ({"id": "p", "nodeSelektor": {}}, "documents[0].nodeSelektor"),
        ({"id": "p", "frobnicate": None}, "documents[0].frobnicate"),
        ({"id": "p", "nodeSelector": {}, "node_selector": {}}, "documents[0].node_selector"),
        ({"id": "p", "run_as_user": 5, "securityContext": {"runAsUser": 6}}, "documents[0].run_as_user"),
        ({"id": "p", "securityContext": {"privileged": True}}, "documents[0].securityContext.privileged"),
        ({"id": "p", "kind": "Job"}, "documents[0].kind"),
        ({"name": "nameless"}, "documents[0]"),
        ({"kind": "Pod", "apiVersion": "v1"}, "documents[0].kind"),
        ({"kind": "ConfigMap", "apiVersion": "v1"}, "documents[0].kind"),
        ("text", "documents[0]"),
        ([], "documents[0]"),
    ],
)
def test_the_place_is_named_when_a_document_is_broken(document: Any, where: str) -> None:
    assert list(_refuse(document)) == [where]


@pytest.mark.parametrize(
    ("documents", "code"),
    [
        ([], "profile.none"),
        ([None], "profile.none"),
        ([_job({})], "profile.none"),
        ([{"id": "a"}, {"id": "b"}, _job({})], "profile.several"),
        ([{"id": "a"}, {"id": "a"}], "profile.twice"),
        ([{"id": "a"}, _job({}), _job({})], "profile.base_twice"),
        ([{"id": "a"}, {**_job({}), "apiVersion": "batch/v1beta1"}], "base.forbidden"),
        ([{"id": "a"}, {"kind": "Service", "spec": {"ports": [{"port": 1, "protocol": "UDP"}]}}], "base.protocol"),
        ([{"id": "a"}, {"kind": "Service", "spec": {"externalIPs": ["10.0.0.1"]}}], "base.unknown"),
        ([{"id": "a"}, {"kind": "Service", "spec": {"type": "Balancer"}}], "value.option"),
        ([{"id": "a"}, {"kind": "Deployment", "spec": {"replicas": -1}}], "number.range"),
        ([{"id": "a"}, {"kind": "Deployment", "spec": {"strateg": {"type": "Recreate"}}}], "base.unknown"),
    ],
)
def test_the_file_is_refused_when_its_documents_do_not_fit_together(documents: list[Any], code: str) -> None:
    assert [problem.code for problem in _refuse(*documents).values()] == [code]


def test_what_the_platform_does_anyway_is_taken_when_a_base_pod_says_it() -> None:
    pod: dict[str, Any] = {
        "hostNetwork": False,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "nodeSelector": None,
        "tolerations": [],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    }

    profiles, warnings = read_profiles([{"id": "p"}, _job(pod)])

    assert profiles[0].base["Job"].model_dump(exclude_none=True) == {}
    assert warnings == []


def test_only_the_first_container_counts_when_there_are_two() -> None:
    containers = [{"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "B", "value": "2"}]}]

    profiles, warnings = read_profiles([{"id": "p"}, _job({"containers": containers})])

    assert profiles[0].base["Job"].envs == {"A": "1"}
    assert [warning.where for warning in warnings] == ["documents[1].spec.template.spec.containers[1]"]


def test_the_containers_user_wins_when_pod_and_container_differ() -> None:
    pod = {"securityContext": {"runAsUser": 1}, "containers": [{"securityContext": {"runAsUser": 2}}]}

    assert read_profiles([{"id": "p"}, _job(pod)])[0][0].base["Job"].run_as_user == 2


def test_all_files_problems_are_told_at_once_when_several_are_broken() -> None:
    files = {"a.yaml": "id: a\nfoo: 1\n", "b.yaml": "id: [\n", "c.yaml": "id: c\n", "d.yaml": "id: c\n"}

    with pytest.raises(Refused) as refused:
        load_profile_files(files)

    named = [problem.message.split(":")[0] for problem in refused.value.problems]
    assert named == ["a.yaml", "b.yaml", "d.yaml"]
    assert refused.value.problems[0].message.startswith("a.yaml: line 2, column ")
    assert "duplicate profile `c`; it is also in c.yaml" in refused.value.problems[2].message


def test_inputs_stay_as_they_were_when_profiles_are_read() -> None:
    document = {"id": "p", "securityContext": {"runAsUser": 5}, "resources": {"requests": {"cpu": 1}}}
    base = _job({"containers": [{"env": [{"name": "A"}], "ports": [{"containerPort": 1}]}]})
    before = repr((document, base))

    read_profiles([document, base])

    assert repr((document, base)) == before


def test_the_other_spelling_of_a_side_is_read_with_a_warning_when_a_profile_uses_it() -> None:
    (profile,), warnings = read_profiles(
        [{"id": "p", "resources": {"cpu": {"limit": 2}, "request": {"memory": "1Gi"}}}]
    )

    assert dict(profile.fields.resources or {}) == {
        "cpu": Sides(limits=Quantity.parse("2")),
        "mem": Sides(requests=Quantity.parse("1Gi")),
    }
    assert [(warning.code, warning.where) for warning in warnings] == [
        ("field.spelling", "documents[0].resources.cpu.limit"),
        ("field.spelling", "documents[0].resources.request"),
    ]


def test_the_other_spelling_of_a_side_is_read_with_a_warning_when_a_base_object_uses_it() -> None:
    container = {"resources": {"limit": {"memory": "1Gi"}}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {"containers": [container]}}}}
    (profile,), warnings = read_profiles([{"id": "p"}, job])

    assert dict(profile.base["Job"].resources or {}) == {"mem": Sides(limits=Quantity.parse("1Gi"))}
    assert [(warning.code, warning.where) for warning in warnings] == [
        ("field.spelling", "documents[1].spec.template.spec.containers[0].resources.limit"),
    ]


def test_an_empty_object_is_a_warning_when_a_profile_has_it() -> None:
    _, warnings = read_profiles([{"id": "p", "resources": {}}])

    assert [(warning.code, warning.where) for warning in warnings] == [("resources.empty", "documents[0].resources")]


def test_no_warning_is_given_when_a_base_object_has_the_empty_resources_of_kubernetes() -> None:
    pod: dict[str, Any] = {"spec": {"containers": [{"resources": {}}]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": pod}}

    assert read_profiles([{"id": "p"}, job])[1] == []
