"""Preparing a project: other admission rules say nothing about its wall, and a wall that somebody changed is mended."""

import copy
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from runyard.app.engine import EngineUnavailable
from runyard.domain.reasons import Reason
from runyard.domain.resolve_inputs import AdminRules
from runyard.engines.kubernetes import projects as projects_module
from runyard.engines.kubernetes.kubernetes_settings import KubernetesSettings, ProjectLimits
from runyard.engines.kubernetes.projects import Projects
from runyard.kube import ApiError, BadRequest, Client, Conflict, Forbidden, Invalid, Listing, NotFound, Object, Resource
from runyard.kube.resources import ROLE_BINDINGS, SELF_SUBJECT_REVIEWS, SERVICES, VALIDATING_ADMISSION_POLICIES

WEBHOOK = 'admission webhook "validate.kyverno.svc-fail" denied the request: services need the label team'
QUOTA = 'services "runyard-probe" is forbidden: exceeded quota: q, requested: services=1, used: services=1, limited: 1'
NO_RIGHT = 'services is forbidden: User "runyard" cannot create resource "services" in API group ""'

Spec = dict[str, Any]


def deny(kind: type[ApiError], said: str) -> ApiError:
    return kind(said, status=400 if kind is BadRequest else 403, server_message=said, is_status=True)


class FakeCluster:
    """Keeps objects as an apiserver does, with its defaults, and refuses the probe as a test says."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.denials: list[ApiError] = []
        """What others say to the probe, one after the other; the last one stays if `is_walled` is False."""
        self.is_walled = True
        self.invalid: str | None = None
        """The plural of objects that this cluster refuses."""
        self.replaced: list[str] = []
        self.conflicts = 0
        """How many of the next replacements find the object changed."""

    async def get(self, resource: Resource, name: str, **_: object) -> Object:
        if (resource.plural, name) not in self.objects:
            raise NotFound(f"no {name}", status=404, is_status=True)
        return copy.deepcopy(self.objects[resource.plural, name])

    async def list(self, *_: object, **__: object) -> Listing:
        return Listing([], "1")

    async def create(self, resource: Resource, body: Mapping[str, Any], **_: object) -> Object:
        if resource is SELF_SUBJECT_REVIEWS:
            return {"status": {"userInfo": {"username": "runyard"}}}
        if resource is SERVICES:
            raise self._refuse_probe()
        return self._keep(resource, body)

    async def apply(self, resource: Resource, body: Mapping[str, Any], **_: object) -> Object:
        if resource.plural == self.invalid:
            raise Invalid("field", status=422, server_message="field", is_status=True)
        return self._keep(resource, body)

    async def replace(self, resource: Resource, body: Mapping[str, Any], **_: object) -> Object:
        if self.conflicts:
            self.conflicts -= 1
            raise Conflict("changed", status=409, is_status=True)
        self.replaced.append(body["metadata"]["name"])
        return self._keep(resource, body)

    def _keep(self, resource: Resource, body: Mapping[str, Any]) -> Object:
        kept = copy.deepcopy(dict(body))
        kept["metadata"] = {"uid": "u", "resourceVersion": "1", **kept["metadata"]}
        for name in ("matchConstraints", "matchResources"):
            if name in kept.get("spec", {}):
                defaults = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
                kept["spec"][name] = {**defaults, **kept["spec"][name]}
        self.objects[resource.plural, kept["metadata"]["name"]] = kept
        return kept

    def _refuse_probe(self) -> ApiError:
        if self.denials:
            return self.denials.pop(0) if self.is_walled else self.denials[0]
        plural = VALIDATING_ADMISSION_POLICIES.plural
        [policy] = [name for kind, name in self.objects if kind == plural and name.endswith("-services")]
        return deny(Forbidden, f"services \"runyard-probe\" is forbidden: ValidatingAdmissionPolicy '{policy}' denied")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    monkeypatch.setattr(projects_module, "_PAUSE_SECONDS", 0)
    return FakeCluster()


async def prepare(cluster: FakeCluster) -> None:
    await Projects(cast("Client", cluster), KubernetesSettings(installation="i1")).ensure_project("demo", AdminRules())


@pytest.mark.parametrize("kind", [Forbidden, BadRequest])
async def test_project_is_prepared_when_a_webhook_denies_the_probe_before_the_wall_stands(
    cluster: FakeCluster, kind: type[ApiError]
) -> None:
    cluster.denials = [deny(kind, WEBHOOK), deny(Forbidden, QUOTA)]
    await prepare(cluster)
    assert cluster.denials == []


@pytest.mark.parametrize("kind", [Forbidden, BadRequest])
async def test_project_waits_with_the_words_of_the_webhook_when_it_always_denies_the_probe(
    cluster: FakeCluster, kind: type[ApiError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projects_module, "WALL_SECONDS", 0.01)
    cluster.denials, cluster.is_walled = [deny(kind, WEBHOOK)], False
    with pytest.raises(EngineUnavailable, match="services need the label team") as waiting:
        await prepare(cluster)
    assert waiting.value.code == Reason.ENGINE_FAILED


async def test_missing_right_is_named_at_once_when_the_probe_may_not_be_sent(cluster: FakeCluster) -> None:
    cluster.denials, cluster.is_walled = [deny(Forbidden, NO_RIGHT)], False
    with pytest.raises(EngineUnavailable) as waiting:
        await prepare(cluster)
    assert waiting.value.code == Reason.KUBE_PERMISSIONS


async def test_nothing_is_written_when_the_wall_stands_with_the_defaults_of_the_apiserver(cluster: FakeCluster) -> None:
    for _ in range(2):
        await prepare(cluster)
    assert cluster.replaced == []


def _exempt(spec: Spec) -> None:
    spec["matchConditions"] = [{"name": "exempt", "expression": "request.userInfo.username != 'eve'"}]


@pytest.mark.parametrize(
    "tamper",
    [
        lambda spec: spec.update(failurePolicy="Ignore"),
        lambda spec: spec["validations"].pop(),
        lambda spec: spec["validations"][0].update(expression="true"),
        lambda spec: spec["matchConstraints"]["resourceRules"][0].update(operations=["DELETE"]),
        lambda spec: spec["matchConstraints"].update(objectSelector={"matchLabels": {"none": "has it"}}),
        lambda spec: spec["matchConstraints"].pop("resourceRules"),
        _exempt,
    ],
)
async def test_policy_is_mended_when_any_part_of_it_was_changed(
    cluster: FakeCluster, tamper: Callable[[Spec], object]
) -> None:
    await prepare(cluster)
    [key] = [key for key in cluster.objects if key[1].startswith("runyard-") and key[1].endswith("-services")]
    before = copy.deepcopy(cluster.objects[key]["spec"])
    tamper(cluster.objects[key]["spec"])
    await prepare(cluster)
    assert (cluster.replaced, cluster.objects[key]["spec"]) == ([key[1]], before)


async def test_policy_is_mended_when_its_status_is_written_meanwhile(cluster: FakeCluster) -> None:
    await prepare(cluster)
    [key] = [key for key in cluster.objects if key[1].startswith("runyard-") and key[1].endswith("-services")]
    before = copy.deepcopy(cluster.objects[key]["spec"])
    cluster.objects[key]["spec"].update(failurePolicy="Ignore")
    cluster.conflicts = 2
    await prepare(cluster)
    assert (cluster.replaced, cluster.objects[key]["spec"]) == ([key[1]], before)


@pytest.mark.parametrize(
    "tamper",
    [
        lambda spec: spec.update(validationActions=["Audit"]),
        lambda spec: spec["matchResources"].update(excludeResourceRules=[{"resources": ["pods"]}]),
        lambda spec: spec["matchResources"].update(namespaceSelector={"matchLabels": {"none": "has it"}}),
        lambda spec: spec["matchResources"].update(matchPolicy="Exact"),
    ],
)
async def test_binding_is_mended_when_any_part_of_it_was_changed(
    cluster: FakeCluster, tamper: Callable[[Spec], object]
) -> None:
    await prepare(cluster)
    [key] = [key for key in cluster.objects if key[1] == "runyard-demo.services"]
    before = copy.deepcopy(cluster.objects[key]["spec"])
    tamper(cluster.objects[key]["spec"])
    await prepare(cluster)
    assert (cluster.replaced, cluster.objects[key]["spec"]) == ([key[1]], before)


async def test_operator_is_told_once_when_nobody_knows_whether_networks_are_enforced(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    projects = Projects(cast("Client", cluster), KubernetesSettings(installation="i1"))
    for name in ("demo", "vision"):
        await projects.ensure_project(name, AdminRules())
    assert sum("network plugin enforces them cannot be asked" in record.message for record in caplog.records) == 1


async def test_nothing_is_told_of_networks_when_projects_have_no_network_policies(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    limits = ProjectLimits(is_network_isolated=False)
    settings = KubernetesSettings(installation="i1", project_limits=limits)
    await Projects(cast("Client", cluster), settings).ensure_project("demo", AdminRules())
    assert not [record for record in caplog.records if "network plugin" in record.message]


async def test_project_waits_when_the_cluster_refuses_one_of_its_objects(cluster: FakeCluster) -> None:
    cluster.invalid = ROLE_BINDINGS.plural
    with pytest.raises(EngineUnavailable) as failure:
        await prepare(cluster)
    assert failure.value.code == Reason.ADMISSION_REFUSED
    cluster.invalid = None
    await prepare(cluster)
