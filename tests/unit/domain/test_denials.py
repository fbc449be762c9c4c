from typing import Any

import pytest

from runyard.domain.resolve_inputs import ProjectInventory
from tests.unit.domain.worlds import decide, list_refusals

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
MASTER = "node-role.kubernetes.io/master"


def _tolerate(*tolerations: dict[str, Any]) -> dict[str, Any]:
    return {"tolerations": list(tolerations)}


def _look_into(**term: Any) -> dict[str, Any]:
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", **term}]}
    return {"affinity": {"podAffinity": rules}}


def _prefer(**term: Any) -> dict[str, Any]:
    weighted = {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", **term}}
    return {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}}


def _mount(claim: str) -> dict[str, Any]:
    spec = {"claim_name": claim}
    return {"volumes": [{"volume_type": "persistent_volume_claim", "name": "v", "mount_path": "/v", "spec": spec}]}


OURS = ProjectInventory(secrets=frozenset({"RUN_ID", "RUNYARD_TOKEN", "MINE"}), claims=frozenset({"data", "data-2"}))

DENIED: list[tuple[str, dict[str, Any], str, str, dict[str, Any]]] = [
    (
        "a toleration without a key",
        _tolerate({"operator": "Exists"}),
        "denied.toleration",
        "tolerations[0]",
        {"tolerations": {"allowed": [{"key": ""}]}},
    ),
    (
        "a toleration without a key, of one effect",
        _tolerate({"operator": "Exists", "effect": "NoExecute"}),
        "denied.toleration",
        "tolerations[0]",
        {"tolerations": {"allowed": [{"key": "", "effect": "NoExecute"}]}},
    ),
    (
        "a toleration of the control plane",
        _tolerate({"key": CONTROL_PLANE, "operator": "Exists"}),
        "denied.toleration",
        "tolerations[0]",
        {"tolerations": {"allowed": [{"key": CONTROL_PLANE}]}},
    ),
    *(
        (
            f"a toleration of {key}",
            _tolerate({"key": key, "operator": "Exists"}),
            "denied.toleration",
            "tolerations[0]",
            {"tolerations": {"allowed": [{"key": key}]}},
        )
        for key in (
            *("node-role.kubernetes.io/controlplane", "CriticalAddonsOnly", "criticaladdonsonly", "k3s-controlplane"),
            *("node-role.kubernetes.io/etcd", "node-role.kubernetes.io/infra", "node-role.kubernetes.io/api-server"),
            "components.gke.io/gke-managed-components",
        )
    ),
    (
        "a toleration of the old control plane",
        _tolerate({"key": MASTER, "value": ""}),
        "denied.toleration",
        "tolerations[0]",
        {"tolerations": {"allowed": [{"key": MASTER}]}},
    ),
    (
        "a load balancer",
        {"service_type": "LoadBalancer"},
        "denied.service_type",
        "service_type",
        {"service_type": {"options": ["ClusterIP", "LoadBalancer"]}},
    ),
    (
        "an external name",
        {"service_type": "ExternalName"},
        "denied.service_type",
        "service_type",
        {"service_type": {"allowed": ["ExternalName"]}},
    ),
    (
        "another namespace",
        _look_into(namespaces=["other"]),
        "denied.namespace",
        "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaces[0]",
        {"affinity.namespaces": {"allowed": ["other"]}},
    ),
    (
        "another namespace, as a wish",
        _prefer(namespaces=["other"]),
        "denied.namespace",
        "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.namespaces[0]",
        {"affinity.namespaces": {"allowed": ["other"]}},
    ),
    (
        "namespaces by selector",
        _look_into(namespaceSelector={}),
        "denied.namespace",
        "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaceSelector",
        {"affinity.namespaces": {"allowed": ["*"]}},
    ),
    (
        "an existing claim",
        _mount("data"),
        "denied.claim",
        "volumes.v.claim_name",
        {"volumes.claim_name": {"allowed": ["data"]}},
    ),
    ("the run's id", {"envs": {"RUN_ID": "x"}}, "denied.env", "envs.RUN_ID", {"envs": {"allowed": ["RUN_ID"]}}),
    (
        "our variables",
        {"envs": {"RUNYARD_URL": "x"}},
        "denied.env",
        "envs.RUNYARD_URL",
        {"envs": {"allowed": ["RUNYARD_URL"]}},
    ),
    (
        "DigitalHub's variables",
        {"envs": {"DHCORE_ACCESS_TOKEN": "x"}},
        "denied.env",
        "envs.DHCORE_ACCESS_TOKEN",
        {"envs": {"allowed": ["DHCORE_ACCESS_TOKEN"]}},
    ),
    (
        "the project's name",
        {"envs": {"PROJECT_NAME": "x"}},
        "denied.env",
        "envs.PROJECT_NAME",
        {"envs": {"allowed": ["PROJECT_NAME"]}},
    ),
    (
        "our variables by a secret",
        {"secrets": ["RUN_ID"]},
        "denied.env",
        "secrets.RUN_ID",
        {"envs": {"allowed": ["RUN_ID"]}},
    ),
]
"""What is denied, asked for how, told as what and where, and the platform's policy that allows it."""
ROWS = [pytest.param(*row[1:], id=row[0]) for row in DENIED]


def _decide(run: Any, **world: Any) -> Any:
    return decide(run, action="serve" if "service_type" in run else "job", inventory=OURS, **world)


@pytest.mark.parametrize(("run", "code", "where", "cure"), ROWS)
def test_it_is_denied_when_no_policy_allows_it(run: Any, code: str, where: str, cure: Any) -> None:
    resolution = _decide(run)

    assert list_refusals(resolution) == [(code, where)]
    assert resolution.refusals[0].allowed


@pytest.mark.parametrize(("run", "code", "where", "cure"), ROWS)
@pytest.mark.parametrize("layer", ["function", "task"])
def test_it_is_denied_when_a_function_or_task_asks_for_it(
    run: Any, code: str, where: str, cure: Any, layer: str
) -> None:
    action = "serve" if "service_type" in run else "job"
    world: dict[str, Any] = {layer: run}

    assert list_refusals(decide(action=action, inventory=OURS, **world)) == [(code, where)]


@pytest.mark.parametrize(("run", "code", "where", "cure"), ROWS)
def test_it_is_allowed_when_the_platforms_policy_names_it(run: Any, code: str, where: str, cure: Any) -> None:
    assert list_refusals(_decide(run, policy=cure)) == []


@pytest.mark.parametrize(("run", "code", "where", "cure"), ROWS)
def test_it_stays_denied_when_only_a_projects_policy_names_it(run: Any, code: str, where: str, cure: Any) -> None:
    assert (code, where) in list_refusals(_decide(run, policy={"projects": {"vision": cure}}))


@pytest.mark.parametrize(("run", "code", "where", "cure"), ROWS)
def test_it_is_denied_again_when_the_projects_policy_does_not_name_it(
    run: Any, code: str, where: str, cure: Any
) -> None:
    (name,) = cure
    clause = next(iter(cure[name]))
    nothing: list[Any] = []

    narrower = {"projects": {"vision": {name: {clause: nothing}}}}

    assert _decide(run, policy={**cure, **narrower}).refusals


@pytest.mark.parametrize(("run", "code", "where", "cure"), ROWS)
def test_it_is_the_admins_word_when_a_profile_sets_it(run: Any, code: str, where: str, cure: Any) -> None:
    action = "serve" if "service_type" in run else "job"

    assert list_refusals(decide(profile=run, action=action, inventory=OURS)) == []


@pytest.mark.parametrize(
    ("run", "policy"),
    [
        (_tolerate({"operator": "Exists"}), {"tolerations": {"allowed": [{"key": "*"}]}}),
        (_tolerate({"operator": "Exists"}), {"tolerations": {"allowed": [{"key": "", "effect": "NoSchedule"}]}}),
        (_tolerate({"key": CONTROL_PLANE, "operator": "Exists"}), {"tolerations": {"allowed": [{"key": "*"}]}}),
        (
            _tolerate({"key": CONTROL_PLANE, "operator": "Exists"}),
            {"tolerations": {"allowed": [{"key": "node-role.kubernetes.io/*"}]}},
        ),
        (
            _tolerate({"key": CONTROL_PLANE, "operator": "Exists"}),
            {"tolerations": {"allowed": [{"key": CONTROL_PLANE, "effect": "NoSchedule"}]}},
        ),
        ({"service_type": "LoadBalancer"}, {"service_type": {"allowed": ["*"]}}),
        ({"service_type": "LoadBalancer"}, {"service_type": {"allowed": ["Load*"]}}),
        ({"service_type": "LoadBalancer"}, {"service_type": {"default": "LoadBalancer"}}),
        ({"envs": {"RUN_ID": "x"}}, {"envs": {"allowed": ["*"]}}),
        ({"envs": {"RUNYARD_URL": "x"}}, {"envs": {"allowed": ["RUNYARD_*"]}}),
        ({"envs": {"RUN_ID": "x"}}, {"envs": {"allowed": ["run_id", "*"]}}),
        (_look_into(namespaces=["other"]), {"affinity.namespaces": {"allowed": ["others"]}}),
        (_look_into(namespaceSelector={}), {"affinity.namespaces": {"allowed": ["other"]}}),
        (_mount("data"), {"volumes.claim_name": {"allowed": ["dat"]}}),
        (_mount("data"), {"volumes.claim_name": {"denied": ["other"]}}),
        (_mount("data"), {"volumes.type": {"allowed": ["persistent_volume_claim"]}}),
    ],
)
def test_it_stays_denied_when_the_policy_only_seems_to_name_it(run: Any, policy: Any) -> None:
    assert any(code.startswith("denied.") for code, _ in list_refusals(_decide(run, policy=policy)))


@pytest.mark.parametrize(
    "run",
    [
        _tolerate({"key": "spot", "operator": "Exists"}),
        _tolerate({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}),
        {"service_type": "ClusterIP"},
        {"service_type": "NodePort"},
        _look_into(labelSelector={"matchLabels": {"a": "b"}}),
        _look_into(namespaces=[]),
        {"envs": {"RUN_IDS": "x", "MY_RUN_ID": "x", "DHCOREX": "x", "run_id": "x", "RUNYARD": "x"}},
        {"secrets": [{"name": "RUN_ID", "mount_path": "/s/run-id"}]},
        {"secrets": ["MINE"]},
    ],
)
def test_nothing_is_denied_when_only_the_ordinary_is_asked_for(run: Any) -> None:
    assert list_refusals(_decide(run)) == []


def test_an_existing_claim_is_refused_when_it_is_allowed_but_not_the_projects() -> None:
    resolution = _decide(_mount("theirs"), policy={"volumes.claim_name": {"allowed": ["*"]}})

    assert list_refusals(resolution) == [("claim.unknown", "volumes.v.claim_name")]


def test_every_denial_is_told_when_a_run_asks_for_several() -> None:
    run = {
        **_tolerate({"operator": "Exists"}, {"key": MASTER, "operator": "Exists"}),
        "envs": {"RUN_ID": "x", "RUNYARD_A": "x"},
    }

    assert len(_decide(run).refusals) == 4


def test_given_toleration_is_shown_as_json_when_it_is_denied() -> None:
    [problem] = _decide(_tolerate({"key": "CriticalAddonsOnly", "operator": "Exists"})).refusals
    assert 'given: {"key": "CriticalAddonsOnly", "operator": "Exists"}' in str(problem)
