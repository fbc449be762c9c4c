from typing import Any

import pytest

from runyard.node.admission.filling import fill_pod, plan_fillings
from runyard.node.admission.judgement import find_demand, judge_pod
from runyard.node.admission.refusal import MOST_MESSAGE_CHARACTERS, Refusal, format_refusals
from runyard.node.offer import Shape
from tests.unit.node.admission.pods import ONE, TWO, Object, container, parse, pod

LABELS = {"kubernetes.io/os": "linux", "kubernetes.io/hostname": "k8s.gpu", "gpus": "8"}


def judge(given_pod: Any, shape: Shape = ONE, **options: Any) -> tuple[Refusal, ...]:
    return judge_pod(given_pod, shape, node_name="k8s.gpu", node_labels=LABELS, **options)


def reasons(given_pod: Object, shape: Shape = ONE, **options: Any) -> list[str]:
    return [refusal.reason for refusal in judge(given_pod, shape, **options)]


def good(**spec: Any) -> Object:
    return pod(container(gpu=1, cpu=2, memory="16Gi"), **spec)


def demand(given_pod: Object) -> dict[str, str]:
    return {name: amount.text for name, amount in find_demand(given_pod).items()}


def test_pods_of_the_seed_are_accepted_when_they_are_within_their_class() -> None:
    assert judge(good()) == ()
    double = pod(container("one", gpu=1, memory="16Gi", cpu=1), container("two", gpu=1, memory="16Gi", cpu=1))
    assert judge(double, TWO) == ()
    assert demand(double) == {"nvidia.com/gpu": "2", "memory": "32Gi", "cpu": "2"}


def test_each_resource_is_named_with_figures_when_the_pod_of_the_seed_is_above_its_class() -> None:
    assert judge(pod(container(gpu=2, memory="64Gi", cpu=1))) == (
        Refusal(
            "RuntimeClassLimitExceeded",
            "the pod asks for 64Gi of memory; the limit of the RuntimeClass seeweb-nvidia-1xa6000 is 32861620Ki",
        ),
        Refusal(
            "RuntimeClassLimitExceeded",
            "the pod asks for 2 of nvidia.com/gpu; the limit of the RuntimeClass seeweb-nvidia-1xa6000 is 1",
        ),
    )


def test_filled_pod_is_accepted_when_it_stated_nothing() -> None:
    given_pod = pod(container("a"), container("b"), init=[container("i"), container("s", always=True)])
    assert reasons(given_pod) == ["NotFilledAtAdmission"]
    assert judge(fill_pod(given_pod, plan_fillings(given_pod, ONE))) == ()


def test_missing_admission_is_told_when_a_container_is_not_filled() -> None:
    (refusal,) = judge(pod(container("a", gpu=1, cpu=1), container("b", cpu=1, memory="1Gi")))
    assert refusal.message.startswith("resources were not filled in (memory of a): was the admission")
    (refusal,) = judge(pod(container("a", cpu=1, memory="1Gi")))
    assert "nvidia.com/gpu of a" in refusal.message


def test_missing_admission_is_told_when_the_scheduler_is_another() -> None:
    assert reasons(good(schedulerName="default-scheduler"), scheduler_name="k8s.gpu") == ["NotFilledAtAdmission"]
    assert reasons(good(), scheduler_name="k8s.gpu") == ["NotFilledAtAdmission"]
    assert reasons(good(schedulerName="k8s.gpu"), scheduler_name="k8s.gpu") == []


def test_annotation_convinces_nobody_when_it_says_that_the_pod_was_filled() -> None:
    given_pod = pod(container("a", gpu=1))
    given_pod["metadata"]["annotations"] = {"k8s.gpu/filled": "true"}
    assert reasons(given_pod) == ["NotFilledAtAdmission"]


def test_pod_is_above_its_class_when_nothing_is_left_for_a_container() -> None:
    (refusal,) = judge(pod(container("a", gpu=1, cpu=8, memory="1Gi"), container("b", memory="1Gi")))
    assert refusal == Refusal(
        "RuntimeClassLimitExceeded",
        "no cpu is left for b: the others take all of 8 of seeweb-nvidia-1xa6000",
    )


def test_container_needs_no_figures_when_the_pod_states_them_as_a_whole() -> None:
    whole = {"limits": {"cpu": "4", "memory": "8Gi"}}
    given_pod = pod(container("a", gpu=1), container("b"), resources=whole)
    assert judge(given_pod) == ()
    assert demand(given_pod) == {"nvidia.com/gpu": "1", "cpu": "4", "memory": "8Gi"}
    assert reasons(pod(container("a", gpu=1), resources={"limits": {"cpu": "9", "memory": "8Gi"}})) == [
        "RuntimeClassLimitExceeded"
    ]


def test_demand_counts_what_runs_together_when_there_are_sidecars_init_containers_and_overhead() -> None:
    given_pod = pod(
        container("a", cpu=2),
        container("b", requests={"cpu": "1"}),
        init=[container("i", cpu=3), container("s", cpu="500m", always=True), container("j", cpu="3500m")],
        overhead={"cpu": "250m"},
    )
    assert demand(given_pod) == {"cpu": "4250m"}


def test_request_of_one_container_is_added_to_the_limit_of_another_when_it_has_no_limit() -> None:
    assert demand(pod(container("a", cpu=4, requests={"cpu": "1"}), container("b", requests={"cpu": "3"}))) == {
        "cpu": "7"
    }


def test_pod_fits_on_no_machine_when_it_is_above_the_largest_one() -> None:
    shape = Shape("eight", "nvidia", parse(cpu="63", memory="256Gi", gpu="8"), largest_machine=parse(gpu="4"))
    assert judge(pod(container(gpu=8, cpu=1, memory="1Gi")), shape) == (
        Refusal("FitsOnNoMachine", "the pod asks for 8 of nvidia.com/gpu; the largest machine for eight has 4"),
    )
    assert judge(pod(container(gpu=4, cpu=1, memory="1Gi")), shape) == ()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"hostNetwork": True}, "host namespaces (hostNetwork=true)"),
        ({"hostPID": True}, "host namespaces (hostPID=true)"),
        ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "seccompProfile"),
        ({"volumes": [{"name": "d", "hostPath": {"path": "/"}}]}, "hostPath volumes"),
    ],
)
def test_pod_security_is_violated_when_baseline_forbids_it(spec: Object, words: str) -> None:
    messages = [each.message for each in judge(good(**spec)) if each.reason == "PodSecurityViolation"]
    assert len(messages) == 1
    assert words in messages[0]


def test_host_port_is_refused_when_a_container_asks_for_one() -> None:
    given_pod = pod(container(gpu=1, cpu=2, memory="16Gi") | {"ports": [{"containerPort": 80, "hostPort": 8080}]})
    (refusal,) = judge(given_pod)
    assert refusal.reason == "PodSecurityViolation"
    assert "hostPort 8080" in refusal.message


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERM = {"topologyKey": "zone", "labelSelector": {}}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"volumes": [{"name": "d", "hostPath": {"path": "/"}}]}, "spec.volumes[0].hostPath"),
        (
            {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]},
            "spec.volumes[0].persistentVolumeClaim",
        ),
        ({"volumes": [{"name": "e", "emptyDir": {}}, {"name": "d", "ephemeral": {}}]}, "spec.volumes[1].ephemeral"),
        ({"volumes": [{"name": "d", "csi": {"driver": "d"}}]}, "spec.volumes[0].csi"),
        ({"volumes": [{"name": "d", "nfs": {"server": "d"}}]}, "spec.volumes[0].nfs"),
        (
            {"volumes": [{"name": "d", "projected": {"sources": [{"podCertificate": {}}]}}]},
            "spec.volumes[0].projected.sources[0].podCertificate",
        ),
        ({"schedulingGroup": {"podGroupName": "g"}}, "spec.schedulingGroup"),
        ({"affinity": {"podAffinity": {REQUIRED: [TERM]}}}, f"spec.affinity.podAffinity.{REQUIRED}"),
        ({"affinity": {"podAntiAffinity": {REQUIRED: [TERM]}}}, f"spec.affinity.podAntiAffinity.{REQUIRED}"),
        (
            {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
            "spec.topologySpreadConstraints[0].whenUnsatisfiable",
        ),
        ({"resourceClaims": [{"name": "g", "resourceClaimName": "g"}]}, "spec.resourceClaims"),
        ({"hostUsers": False}, "spec.hostUsers"),
        ({"os": {"name": "windows"}}, "spec.os.name"),
        ({"securityContext": {"windowsOptions": {"runAsUserName": "x"}}}, "spec.securityContext.windowsOptions"),
    ],
)
def test_field_is_named_when_the_node_cannot_honour_it(spec: Object, field: str) -> None:
    messages = [each.message for each in judge(good(**spec)) if each.reason == "UnsupportedField"]
    assert [message.split(": ")[0] for message in messages] == [field]


def test_gang_is_refused_when_a_label_names_its_group() -> None:
    given_pod = good()
    given_pod["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "g", "kueue.x-k8s.io/queue-name": "q"}
    assert reasons(given_pod) == ["UnsupportedField"]


@pytest.mark.parametrize(
    "spec",
    [
        {
            "volumes": [
                {"name": "a"},
                {"name": "c", "configMap": {"name": "c"}},
                {"name": "e", "emptyDir": {"medium": "Memory"}},
            ]
        },
        {
            "volumes": [
                {
                    "name": "kube-api-access-x7k2p",
                    "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"secret": {}}]},
                }
            ]
        },
        {"priorityClassName": "high", "priority": 1000, "preemptionPolicy": "PreemptLowerPriority"},
        {"affinity": {"podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": TERM}]}}},
        {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}]},
        {"hostUsers": True, "os": {"name": "linux"}, "hostNetwork": False},
        {"nodeSelector": {"kubernetes.io/os": "linux"}, "tolerations": [{"operator": "Exists"}]},
        {"resourceClaims": [], "schedulingGates": []},
    ],
)
def test_pod_is_accepted_when_a_field_can_be_honoured_or_is_only_a_wish(spec: Object) -> None:
    assert judge(good(**spec)) == ()


def test_pod_waits_when_it_has_scheduling_gates() -> None:
    (refusal,) = judge(good(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]))
    assert refusal.reason == "SchedulingGated"
    assert "kueue.x-k8s.io/admission" in refusal.message


def node_affinity(*terms: Object) -> Object:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def expressions(*entries: tuple[str, str, list[str]]) -> Object:
    return {
        "matchExpressions": [{"key": key, "operator": operator, "values": values} for key, operator, values in entries]
    }


@pytest.mark.parametrize(
    ("spec", "is_match"),
    [
        ({"nodeSelector": {"zone": "a"}}, False),
        ({"nodeSelector": {"kubernetes.io/os": "windows"}}, False),
        (node_affinity(expressions(("zone", "In", ["a"]))), False),
        (node_affinity(expressions(("zone", "In", ["a"])), expressions(("gpus", "Gt", ["4"]))), True),
        (node_affinity(expressions(("gpus", "Gt", ["4"]), ("zone", "Exists", []))), False),
        (node_affinity(expressions(("gpus", "Lt", ["8"]))), False),
        (node_affinity(expressions(("gpus", "Lt", ["x"]))), False),
        (node_affinity(expressions(("zone", "NotIn", ["a"]), ("zone", "DoesNotExist", []))), True),
        (node_affinity(expressions(("gpus", "Near", ["8"]))), False),
        (node_affinity({}), False),
        (node_affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["k8s.gpu"]}]}), True),
        (node_affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}), False),
    ],
)
def test_placement_is_refused_when_the_labels_of_the_node_do_not_match(spec: Object, is_match: bool) -> None:
    found = reasons(good(**spec))
    assert found == [] if is_match else found[0] in ("NodeSelectorMismatch", "NodeAffinityMismatch")


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        {},
        {"spec": {"containers": [None]}},
        good(hostnetwork=True),
        good(volumes={"name": "a"}),
        good(nodeSelector={"a": 1}),
        pod(container(cpu="a lot")),
        good(overhead={"cpu": "x"}),
        good(somethingNew={}),
    ],
)
def test_pod_is_refused_when_it_cannot_be_read(broken: Any) -> None:
    found = judge(broken)
    assert found
    assert found[0].reason in ("UnreadablePod", "NotFilledAtAdmission")


def test_monstrous_figures_are_refused_when_they_would_overflow() -> None:
    for text in ("1e2000000000", "99E"):
        assert reasons(pod(container(gpu=1, cpu=text, memory=text)))[0] == "RuntimeClassLimitExceeded"


def test_message_is_bounded_when_there_are_many_refusals() -> None:
    volumes = [{"name": f"v{number}", "nfs": {}} for number in range(500)]
    found = judge(good(volumes=volumes))
    assert len(found) == 20
    assert len(format_refusals(found)) == MOST_MESSAGE_CHARACTERS


def test_token_is_refused_by_its_field_unless_the_agent_allows_it() -> None:
    volume = {"name": "aws-iam-token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    (refusal,) = judge(good(volumes=[volume]))
    assert refusal.reason == "UnsupportedField"
    assert "spec.volumes[0].projected.sources[0].serviceAccountToken" in refusal.message
    assert judge_pod(good(volumes=[volume]), ONE, node_name="k8s.gpu", node_labels=LABELS, allows_tokens=True) == ()
