"""CPU time of one run: read, resolve, render and admission, with 50 profiles loaded."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.report import Cell, Goal, Section, Table, progress
from runyard.domain.admission import check_objects
from runyard.domain.resolution import Resolution, resolve
from runyard.domain.resolve_inputs import AdminRules, ProjectInventory, Request
from runyard.manifests.environment import get_platform_envs
from runyard.manifests.identity import RunIdentity
from runyard.manifests.render import render_run
from runyard.spec.policy import Policy, read_policy
from runyard.spec.profile import Profile
from runyard.spec.profile_documents import load_profile_files
from runyard.spec.run_documents import read_run_file
from runyard.spec.yaml.loader import load_document

PROFILES = 50
ROUNDS = 40
CALLS = 50
PROJECT = "vision"
GOAL_MS = 1.0
NOTES = (
    f"CPU time of this process per run, in {ROUNDS} rounds of {CALLS} calls. Goals are held against the least:",
    "what disturbs a measurement, such as another process on the same core, only ever adds.",
    "The run has a profile, 8 variables, 2 secrets, 2 volumes, tolerations and a node selector; the policy 15 rules.",
    "Reading YAML is apart: a server gets JSON, which the standard library parses.",
)

RUN = """\
kind: container
action: job
project: vision
image: registry.example.org/train:1.2
command: [python, train.py]
args: [--epochs, 3]
profile: gpu-07
resources: {cpu: "6", mem: 32Gi, gpu: 1, disk: 10Gi}
envs: {EPOCHS: 3, RATE: 0.1, HF_HOME: /data/hf, SEED: 7, DEBUG: false, LEVEL: info, WORKERS: 4, NAME: a}
secrets: [WANDB, {name: kaggle, mount_path: /secrets/kaggle.json}]
volumes:
  - {volume_type: persistent_volume_claim, name: data, mount_path: /data, spec: {size: 10Gi}}
  - {volume_type: empty_dir, name: shm, mount_path: /dev/shm, spec: {size_limit: 1Gi}}
tolerations: [{key: spot, operator: Exists, effect: NoSchedule}]
node_selector: {pool: gpu, zone: a}
fs_group: "8877"
run_as_user: 1000
timeout: 2h
"""
POLICY = """\
resources.cpu: {default: 100m, max: 16}
resources.mem: {default: 256Mi, max: 64Gi}
resources.gpu: {max: 4}
resources.disk: {max: 500Gi}
volumes.size: {default: 2Gi, max: 100Gi}
volumes.storage_class: {options: [standard, fast], default: standard}
volumes.type: {denied: [image]}
tolerations: {allowed: [{key: spot}, {key: nvidia.com/gpu}]}
node_selector: {denied: ["node-role.kubernetes.io/*"]}
image: {allowed: ["registry.example.org/*"]}
priority_class: {options: [low, high], default: low}
service_type: {options: [ClusterIP, NodePort]}
run_as_user: {default: 1000, min: 1000}
timeout: {default: 3d, max: 7d}
envs: {denied: ["LD_*"]}
projects:
  vision:
    resources.gpu: {max: 2}
    profile: {allowed: ["gpu-*"], required: true}
"""
PROFILE = """\
id: gpu-{number:02}
resources:
  requests: {{cpu: "8", memory: 64Gi, nvidia.com/gpu: "1"}}
  limits: {{memory: 64Gi, nvidia.com/gpu: "1"}}
node_selector: {{gpu: a100}}
tolerations: [{{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}}]
envs: {{NCCL_DEBUG: WARN}}
priority_class: high
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """What one step takes, in milliseconds."""

    median: float
    least: float


def measure() -> Section:
    """The section `resolve`."""
    steps = _make_steps()
    figures = {}
    for name, step in steps.items():
        progress(f"resolve: {name}")
        figures[name] = _measure_step(step)
    rows: list[list[Cell]] = [[name, figure.least, figure.median] for name, figure in figures.items()]
    return Section(
        title="A run from its fields to its objects",
        tables=[Table("per run", ["step", "least ms", "median ms"], rows)],
        goals=[
            Goal(f"resolve, {PROFILES} profiles loaded", figures["resolve"].least, "ms", at_most=GOAL_MS),
            Goal("read fields and resolve", _sum(figures, "read fields", "resolve"), "ms", at_most=GOAL_MS),
        ],
        notes=NOTES,
    )


def _make_steps() -> dict[str, Callable[[], object]]:
    """Each step on what the step before gives; that nothing is refused is checked once, here."""
    fields = load_document(RUN).data
    policy = read_policy(load_document(POLICY).data)
    profiles, _ = load_profile_files({f"{number}.yaml": PROFILE.format(number=number) for number in range(PROFILES)})
    run = read_run_file(fields)
    request = Request(project=PROJECT, action="job", run=run.fields)
    admin_rules = AdminRules(profiles=profiles, policy=policy)
    inventory = ProjectInventory(secrets=frozenset({"WANDB", "kaggle"}))
    identity = RunIdentity(
        run_id="0b5c1f0e-7d5e-4a3b-9a51-7a9ed1f0c001",
        run_uid="3f2504e04f8941d39a0c0305e82c3301",
        project=PROJECT,
        namespace="runyard-vision",
    )
    resolution = resolve(request, admin_rules, inventory)
    if resolution.refusals:
        raise RuntimeError(f"the run must be a legal one: {resolution.refusals}")
    objects = _render(resolution, identity)
    if problems := _check(objects, policy, resolution.profile, identity):
        raise RuntimeError(f"the objects must be legal: {problems}")
    return {
        "load YAML": lambda: load_document(RUN),
        "read fields": lambda: read_run_file(fields),
        "resolve": lambda: resolve(request, admin_rules, inventory),
        "render": lambda: _render(resolution, identity),
        "last look": lambda: _check(objects, policy, resolution.profile, identity),
    }


def _render(resolution: Resolution, identity: RunIdentity) -> list[dict[str, Any]]:
    return render_run(resolution.spec, identity, secret_values={"WANDB": "x", "kaggle": "y"})


def _check(objects: Any, policy: Policy, profile: Profile | None, identity: RunIdentity) -> list[Any]:
    envs = get_platform_envs(identity)
    return list(check_objects(objects, policy=policy, project=PROJECT, profile=profile, platform_envs=envs))


def _measure_step(step: Callable[[], object]) -> Figure:
    rounds = []
    for _ in range(ROUNDS):
        before = time.process_time()
        for _ in range(CALLS):
            step()
        rounds.append((time.process_time() - before) / CALLS * 1000)
    return Figure(statistics.median(rounds), min(rounds))


def _sum(figures: dict[str, Figure], *names: str) -> float:
    return sum(figures[name].least for name in names)
