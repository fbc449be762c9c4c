import base64
import json
from typing import Any

import pytest

from runyard.domain.admission import admit_project_objects
from runyard.manifests.names import claim_name
from runyard.manifests.project_objects import (
    ProjectIdentity,
    render_kept_claim,
    render_registry_secret,
)
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.problems import Refused
from runyard.spec.registries import MOST_REGISTRIES, RegistryCredential
from tests.unit.manifests.samples import IDENTITY

HERE = ProjectIdentity(project="vision", namespace="runs", installation="prod ü")
ADA = RegistryCredential(user="ada", password="hunter2")
GI = Quantity.parse("1Gi")


def make_claim(identity: ProjectIdentity = HERE, **fields: Any) -> dict[str, Any]:
    return render_kept_claim(identity, **{"claim": "vol-0a1b", "volume_id": "0a1b", "size": GI, **fields})


def make_secret(identity: ProjectIdentity = HERE) -> dict[str, Any]:
    return render_registry_secret(identity, registries={"ghcr.io": ADA})


def test_kept_claim_has_no_owner_and_no_run_when_it_is_rendered() -> None:
    claim = make_claim(storage_class="fast")
    assert claim["metadata"] == {
        "name": "vol-0a1b",
        "namespace": "runs",
        "labels": {
            "app.kubernetes.io/part-of": "vision",
            "app.kubernetes.io/managed-by": "runyard",
            "runyard.io/installation": claim["metadata"]["labels"]["runyard.io/installation"],
            "runyard.io/project": "vision",
            "dhcore/project": "vision",
            "runyard.io/volume-id": "0a1b",
        },
    }
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Filesystem",
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    }


def test_registry_secret_is_what_kubelets_read_when_it_is_rendered() -> None:
    secret = make_secret()
    assert secret["type"] == "kubernetes.io/dockerconfigjson"
    assert secret["metadata"]["name"].startswith("runyard-registry-vision-")
    (content,) = secret["data"].values()
    login = base64.b64encode(b"ada:hunter2").decode()
    assert json.loads(base64.b64decode(content)) == {
        "auths": {"ghcr.io": {"username": "ada", "password": "hunter2", "auth": login}}
    }
    assert "hunter2" not in repr(ADA)


def test_names_of_registry_secrets_differ_when_projects_look_alike() -> None:
    names = {
        make_secret(ProjectIdentity(project=project))["metadata"]["name"] for project in ("a-b", "a_b", "A.B", "p" * 63)
    }
    assert len(names) == 4
    assert max(map(len, names)) <= 63


def test_registry_secret_is_refused_when_there_are_too_many_registries() -> None:
    registries = {f"r{number}.example": ADA for number in range(MOST_REGISTRIES + 1)}
    with pytest.raises(Refused, match="at most 100"):
        render_registry_secret(HERE, registries=registries)


@pytest.mark.parametrize("claim", ["vol-0a1b", claim_name(IDENTITY, volume="data"), claim_name(IDENTITY, volume="V+")])
@pytest.mark.parametrize("project", ["vision", "-odd-", "p" * 63])
def test_project_objects_are_admitted_when_they_are_as_rendered(project: str, claim: str) -> None:
    here = ProjectIdentity(project=project, namespace="runs", installation="prod ü")
    admitted = admit_project_objects(
        [make_claim(here, claim=claim), make_secret(here)], project=project, installation="prod ü"
    )
    assert [item.kind for item in admitted] == ["PersistentVolumeClaim", "Secret"]


def break_labels(item: dict[str, Any]) -> None:
    item["metadata"]["labels"]["runyard.io/run-uid"] = "u1"


def break_owner(item: dict[str, Any]) -> None:
    item["metadata"]["ownerReferences"] = []


def break_name(item: dict[str, Any]) -> None:
    item["metadata"]["name"] = "datasets"


def break_project(item: dict[str, Any]) -> None:
    item["metadata"]["labels"]["dhcore/project"] = "speech"


def break_manager(item: dict[str, Any]) -> None:
    item["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "helm"


def break_kind(item: dict[str, Any]) -> None:
    item["kind"] = "ConfigMap"


def break_content(item: dict[str, Any]) -> None:
    if item["kind"] == "Secret":
        item["type"] = "Opaque"
    else:
        item["spec"]["accessModes"] = ["ReadWriteMany"]


def break_field(item: dict[str, Any]) -> None:
    item["immutable"] = True


@pytest.mark.parametrize("make", [make_claim, make_secret])
@pytest.mark.parametrize(
    "change",
    [
        break_labels,
        break_owner,
        break_name,
        break_project,
        break_manager,
        break_kind,
        break_content,
        break_field,
    ],
)
def test_project_object_is_refused_when_it_is_not_what_we_send(make: Any, change: Any) -> None:
    item = make()
    change(item)
    with pytest.raises(Refused) as refused:
        admit_project_objects([item], project="vision", installation="prod ü")
    assert not any(problem.code == "admission.failed" for problem in refused.value.problems)


def test_project_object_is_refused_when_it_is_of_another_installation() -> None:
    with pytest.raises(Refused, match="must name this project and installation"):
        admit_project_objects([make_claim()], project="vision", installation="staging")


def test_workload_is_refused_when_it_is_no_project_object() -> None:
    with pytest.raises(Refused, match="not a kind that outlives runs"):
        admit_project_objects([{"kind": "Job"}], project="vision", installation="prod ü")
