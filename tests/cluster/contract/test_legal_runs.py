"""Legal runs against a real apiserver: what resolve accepts becomes objects that strict dry-runs take, every one."""

import os
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from runyard.domain.admission import check_objects
from runyard.domain.resolution import Resolution, resolve
from runyard.manifests.identity import Owner
from runyard.manifests.render import render_anchor, render_dependents, render_kept_claims, render_run
from testbed.cluster import Cluster
from testbed.pytest_plugin import kubernetes_version
from tests.cluster.contract.admission import Admission, Answer
from tests.cluster.contract.run_generator import (
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
    LegalRun,
    RunGenerator,
)

SEED = int(os.environ.get("RUNYARD_LEGAL_RUNS_SEED", "4"))
RUNS = int(os.environ.get("RUNYARD_LEGAL_RUNS", "1000"))
NAMESPACE = "legal-runs"
UID = "5b0a3f1e-0000-4000-8000-000000000000"
PATHS = {
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Service": "/api/v1/namespaces/{}/services",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Pod": "/api/v1/namespaces/{}/pods",
}
Object = dict[str, Any]


@pytest.fixture
async def admission(control_plane: Cluster) -> AsyncIterator[Admission]:
    """An apiserver with what the runs name. Idempotent."""
    async with Admission.connect(control_plane) as admission:
        labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
        admin_rules: list[tuple[str, Object]] = [
            ("/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": labels}}),
            *(
                (f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": name}})
                for name in ("default", *SERVICE_ACCOUNTS)
            ),
            *(
                ("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": 5})
                for name in PRIORITY_CLASSES
            ),
            *(
                ("/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": name}, "handler": "h"})
                for name in RUNTIME_CLASSES
            ),
        ]
        for path, body in admin_rules:
            answer = await admission.ask(path, body, is_dry_run=False)
            assert answer.is_accepted or answer.status == 409, answer
        yield admission


def resolve_run(run: LegalRun) -> Resolution:
    resolution = resolve(run.request, run.admin_rules, run.inventory)
    assert not resolution.refusals, f"{[str(problem) for problem in resolution.refusals]}\n{run.raw}"
    return resolution


def render_all(run: LegalRun, resolution: Resolution, *, has_owner: bool) -> list[Object]:
    """The run at once, or its anchor and what that owns; and its pod, which is what Pod Security refuses."""
    spec, identity = resolution.spec, run.identity
    if has_owner:
        anchor = render_anchor(spec, identity)
        owner = Owner(anchor["kind"], anchor["metadata"]["name"], UID)
        dependents = render_dependents(spec, identity, owner=owner, secret_values=SECRETS)
        objects = [anchor, *dependents, *render_kept_claims(spec, identity)]
    else:
        objects = render_run(spec, identity, secret_values=SECRETS)
    problems = check_objects(
        objects,
        policy=run.admin_rules.policy,
        project=run.request.project,
        profile=resolution.profile,
        project_claims=run.inventory.claims,
        shared_claims=frozenset(run.inventory.volumes.values()),
        platform_envs={"PROJECT_NAME": run.identity.project, "RUN_ID": run.identity.run_id},
        is_anchor=has_owner,
    )
    assert not problems, f"{[str(problem) for problem in problems]}\n{run.raw}"
    return [*objects, make_pod(objects)]


def make_pod(objects: list[Object]) -> Object:
    """The pod that a controller would make of the Job or Deployment."""
    workload = next(item for item in objects if item["kind"] in ("Job", "Deployment"))
    template = workload["spec"]["template"]
    metadata = {"generateName": f"{workload['metadata']['name']}-", **template["metadata"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def describe(run: LegalRun, item: Object, answer: Answer) -> str:
    return f"{item['kind']}: {answer.status} {answer.message} {answer.warnings}\n  {run.identity}\n  {run.raw}"


async def test_apiserver_takes_every_object_when_resolve_accepts_a_run(admission: Admission) -> None:
    generator = RunGenerator(SEED, has_image_volumes=kubernetes_version() != "1.34")
    sent: list[tuple[LegalRun, Object]] = []
    for number in range(RUNS):
        run = generator.draw(NAMESPACE)
        sent += [(run, item) for item in render_all(run, resolve_run(run), has_owner=number % 4 == 0)]
    answers = await admission.ask_all((PATHS[item["kind"]].format(NAMESPACE), item) for _, item in sent)

    refused = [
        describe(run, item, answer)
        for (run, item), answer in zip(sent, answers, strict=True)
        if not answer.is_accepted or any("PodSecurity" in warning for warning in answer.warnings)
    ]
    assert not refused, f"{len(refused)} of {len(sent)} objects refused\n" + "\n".join(refused[:10])
    kinds = Counter(item["kind"] for _, item in sent)
    assert kinds["Pod"] == kinds["Job"] + kinds["Deployment"] == RUNS
    assert all(kinds[kind] > RUNS / 30 for kind in PATHS), kinds


def test_sources_and_forms_are_all_drawn_when_the_generator_runs() -> None:
    generator = RunGenerator(SEED, has_image_volumes=True)
    runs = [generator.draw(NAMESPACE) for _ in range(400)]
    fields = {name for run in runs for name in run.raw["run"]}
    assert fields >= {"resources", "volumes", "secrets", "envs", "affinity", "tolerations", "service_ports", "profile"}
    types = {volume.type for run in runs for volume in run.request.run.volumes or ()}
    assert types == {"persistent_volume_claim", "config_map", "empty_dir", "ephemeral", "shared_volume", "image"}
    assert {run.request.action for run in runs} == {"job", "serve", "deploy"}
    assert {run.request.kind for run in runs} == {"container", "python"}
