"""Rendered runs in real containers: what was asked for is what the program finds."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from runyard.domain.effective_spec import Disk, EffectiveSpec
from runyard.manifests.identity import RunIdentity
from runyard.manifests.names import claim_name, run_name, secret_name
from runyard.manifests.render import render_run
from runyard.pods.container_failure import is_root_refusal
from runyard.spec.environment import SecretUse
from runyard.spec.kubernetes.quantity import Quantity
from testbed.cluster import Cluster
from tests.cluster.testbed.manifests import wait
from tests.unit.manifests.samples import claim, make_sides, make_spec, make_volume

BUSYBOX, PYTHON = "busybox:1.36", "python:3.11"
SECRETS = {"TOKEN": "t0 ken$$", "kaggle": '{"key": "ü"}'}
LABEL, TAINT = "runyard.io/manifests-test", "runyard.io/manifests-test"


@pytest.fixture
def restricted(cluster: Cluster, namespace: str) -> str:
    """The test's namespace, where Pod Security refuses whatever is not restricted."""
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    return namespace


def script(text: str, **fields: Any) -> EffectiveSpec:
    """A job that runs a shell script as a user."""
    given = {"image": BUSYBOX, "run_as_user": 1000, "grace_period_seconds": 0, **fields}
    return make_spec(command=["sh", "-ec", text], image_pull_policy="IfNotPresent", **given)


def identify(run_id: str, namespace: str) -> RunIdentity:
    return RunIdentity(run_id=run_id, run_uid=run_id, project="vision", namespace=namespace, function="detector")


def start(cluster: Cluster, namespace: str, spec: EffectiveSpec, run_id: str = "r1") -> str:
    """Apply the rendered run; returns `job/…` or `deployment/…`."""
    identity = identify(run_id, namespace)
    objects = render_run(spec, identity, secret_values=SECRETS)
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return f"{'job' if spec.action == 'job' else 'deployment'}/{run_name(identity)}"


def run(cluster: Cluster, namespace: str, spec: EffectiveSpec, run_id: str = "r1") -> list[str]:
    """The lines that the job wrote, once it has completed."""
    job = start(cluster, namespace, spec, run_id)
    wait(cluster, namespace, job, until="condition=complete")
    return cluster.kubectl("logs", "-n", namespace, job).splitlines()


def wait_for_pod(cluster: Cluster, namespace: str, run_id: str, *, until: str) -> None:
    selector = f"runyard.io/run={run_id}"
    cluster.kubectl("wait", "pod", "-n", namespace, "-l", selector, "--for=create", "--timeout=60s")
    cluster.kubectl("wait", "pod", "-n", namespace, "-l", selector, f"--for={until}", "--timeout=90s")


def get(cluster: Cluster, namespace: str, what: str, path: str) -> str:
    return cluster.kubectl("get", "-n", namespace, *what.split(), "-o", f"jsonpath={path}")


@contextmanager
def node_changed(cluster: Cluster, verb: str, change: str, undo: str) -> Iterator[None]:
    cluster.kubectl(verb, "node", cluster.node_name, change)
    try:
        yield
    finally:
        cluster.kubectl(verb, "node", cluster.node_name, undo)


def test_process_has_the_ids_when_user_group_and_fs_group_are_asked_for(cluster: Cluster, restricted: str) -> None:
    spec = script("id -u; id -g; id -G", run_as_user=1234, run_as_group=2345, fs_group=3456)
    assert run(cluster, restricted, spec) == ["1234", "2345", "2345 3456"]


def test_claim_is_bound_and_writable_when_an_fs_group_is_asked_for(cluster: Cluster, restricted: str) -> None:
    # The provisioner's usual volumes are host paths, which Kubernetes leaves as they are: `local` ones get the group.
    storage_class = f"local-{restricted}"
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(local_storage_class(storage_class)))
    volumes = [claim(size="64Mi", storage_class=storage_class)]
    write = "stat -c %g /data; echo written > /data/f; stat -c %u:%g /data/f; cat /data/f"
    try:
        spec = script(write, volumes=volumes, run_as_user=1000, run_as_group=1000, fs_group=2000)
        assert run(cluster, restricted, spec) == ["2000", "1000:2000", "written"]
        plain = script("stat -c %g /data", volumes=volumes, run_as_group=1000)
        assert run(cluster, restricted, plain, "without") == ["0"]
        made = f"pvc {claim_name(identify('r1', restricted), volume='data')}"
        assert get(cluster, restricted, made, "{.status.phase} {.status.capacity.storage}") == "Bound 64Mi"
        assert get(cluster, restricted, made, "{.spec.resources.requests.storage}") == "64Mi"
    finally:
        cluster.kubectl("delete", "storageclass", storage_class)


def local_storage_class(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": {"defaultVolumeType": "local"}},
        "provisioner": "rancher.io/local-path",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


@pytest.mark.parametrize("level", ["restricted", "baseline"])
def test_kubelet_refuses_the_container_when_the_image_runs_as_root(
    cluster: Cluster, namespace: str, level: str
) -> None:
    start(cluster, namespace, script("id -u", run_as_user=None, pod_security=level))
    waiting = "{.status.containerStatuses[0].state.waiting.reason}"
    wait_for_pod(cluster, namespace, "r1", until=f"jsonpath={waiting}=CreateContainerConfigError")
    message = get(cluster, namespace, "pods", "{.items[0].status.containerStatuses[0].state.waiting.message}")
    assert "container has runAsNonRoot and image will run as root" in message
    assert is_root_refusal(message)


def test_pod_waits_for_its_node_when_a_selector_is_asked_for(cluster: Cluster, restricted: str) -> None:
    job = start(cluster, restricted, script("echo placed", node_selector={LABEL: restricted}))
    check_waits_until(cluster, restricted, job, verb="label", change=f"{LABEL}={restricted}", undo=f"{LABEL}-")


def test_pod_waits_for_its_node_when_an_affinity_is_asked_for(cluster: Cluster, restricted: str) -> None:
    terms = [{"matchExpressions": [{"key": LABEL, "operator": "In", "values": [restricted, "other"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    job = start(cluster, restricted, script("echo placed", affinity=affinity))
    check_waits_until(cluster, restricted, job, verb="label", change=f"{LABEL}={restricted}", undo=f"{LABEL}-")


def check_waits_until(cluster: Cluster, namespace: str, job: str, *, verb: str, change: str, undo: str) -> None:
    unschedulable = 'jsonpath={.status.conditions[?(@.type=="PodScheduled")].reason}=Unschedulable'
    wait_for_pod(cluster, namespace, "r1", until=unschedulable)
    with node_changed(cluster, verb, change, undo):
        wait(cluster, namespace, job, until="condition=complete")
    assert cluster.kubectl("logs", "-n", namespace, job) == "placed\n"


def test_pod_is_placed_on_a_tainted_node_when_it_tolerates_the_taint(cluster: Cluster, restricted: str) -> None:
    toleration = {"key": TAINT, "operator": "Equal", "value": restricted, "effect": "NoSchedule"}
    with node_changed(cluster, "taint", f"{TAINT}={restricted}:NoSchedule", f"{TAINT}:NoSchedule-"):
        start(cluster, restricted, script("echo placed"), "intolerant")
        unschedulable = 'jsonpath={.status.conditions[?(@.type=="PodScheduled")].reason}=Unschedulable'
        wait_for_pod(cluster, restricted, "intolerant", until=unschedulable)
        assert run(cluster, restricted, script("echo placed", tolerations=[toleration])) == ["placed"]


def test_process_is_killed_when_it_exceeds_its_memory_limit(cluster: Cluster, restricted: str) -> None:
    resources = {"mem": make_sides("16Mi", "32Mi")}
    start(cluster, restricted, script("tail /dev/zero", resources=resources))
    terminated = "{.status.containerStatuses[0].state.terminated"
    wait_for_pod(cluster, restricted, "r1", until=f"jsonpath={terminated}}}")

    ended = "{.items[0].status.containerStatuses[0].state.terminated"
    assert get(cluster, restricted, "pod -l runyard.io/run=r1", f"{ended}.reason}}") == "OOMKilled"
    assert get(cluster, restricted, "pod -l runyard.io/run=r1", f"{ended}.exitCode}}") == "137"


def test_job_runs_when_gpus_are_asked_for_that_the_node_has(cluster: Cluster, restricted: str) -> None:
    spec = script("echo placed", gpu=2, gpu_resource="nvidia.com/gpu")
    assert run(cluster, restricted, spec) == ["placed"]


def test_job_is_ended_when_its_timeout_passes(cluster: Cluster, restricted: str) -> None:
    job = start(cluster, restricted, script("sleep 600", timeout_seconds=3))
    wait(cluster, restricted, job, until="condition=failed")

    reason = '{.status.conditions[?(@.type=="Failed")].reason}'
    assert get(cluster, restricted, job, reason) == "DeadlineExceeded"


@pytest.mark.parametrize(
    "identity",
    [
        {"run_as_user": 1000},
        {"run_as_user": 1000, "run_as_group": 1000},
        {"run_as_user": 1000, "run_as_group": 1000, "fs_group": 2000},
        {"run_as_user": 1000, "fs_group": 2000},
    ],
    ids="+".join,
)
def test_secrets_and_variables_arrive_when_they_are_asked_for(
    cluster: Cluster, restricted: str, identity: dict[str, int]
) -> None:
    # A Secret of the cluster with the user's secret's name: it must not be what the run gets.
    cluster.kubectl("create", "secret", "generic", "kaggle", "-n", restricted, "--from-literal=kaggle=the cluster's")
    spec = script(
        'for value in "$PROJECT_NAME $RUN_ID" "$TOKEN" "$PLAIN" "$(cat /secrets/kaggle.json)"; do echo "$value"; done; '
        "! touch /secrets/kaggle.json 2> /dev/null",
        secrets=[SecretUse(name="TOKEN"), SecretUse(name="kaggle", mount_path="/secrets/kaggle.json")],
        envs={"PLAIN": "a  b\"c'"},
        **identity,
    )
    assert run(cluster, restricted, spec) == ["vision r1", SECRETS["TOKEN"], "a  b\"c'", SECRETS["kaggle"]]
    assert (
        get(
            cluster,
            restricted,
            f"secret {secret_name(identify('r1', restricted))}",
            "{.metadata.labels.runyard\\.io/run}",
        )
        == "r1"
    )


def test_config_map_is_mounted_when_its_data_is_inline(cluster: Cluster, restricted: str) -> None:
    data = {"config.yaml": "a: 1\nb: ü\n", "second": "2"}
    spec = script(
        "cat /settings/config.yaml; ls /settings",
        volumes=[make_volume("config_map", name="settings", mount_path="/settings", data=data)],
    )
    assert run(cluster, restricted, spec) == ["a: 1", "b: ü", "config.yaml", "second"]


@pytest.mark.parametrize("medium", ["ephemeral", "empty_dir"])
def test_scratch_space_is_at_shared_when_disk_is_asked_for(cluster: Cluster, restricted: str, medium: Any) -> None:
    spec = script(
        "grep -c ' /shared ' /proc/mounts; echo written > /shared/f; cat /shared/f",
        disk=Disk(size=Quantity.parse("32Mi"), medium=medium),
        fs_group=2000,
    )
    assert run(cluster, restricted, spec) == ["1", "written"]
    claims = get(cluster, restricted, "pvc -l runyard.io/run=r1", "{.items[*].status.capacity.storage}")
    assert claims == ("32Mi" if medium == "ephemeral" else "")


def test_shared_memory_is_memory_when_an_empty_dir_is_mounted_there(cluster: Cluster, restricted: str) -> None:
    shm = make_volume("empty_dir", name="shm", mount_path="/dev/shm", size="96Mi")
    spec = script("df -m /dev/shm | tail -1 | awk '{print $1, $2}'; echo x > /dev/shm/f", volumes=[shm], fs_group=2000)
    assert run(cluster, restricted, spec) == ["tmpfs 96"]


def test_kept_claim_has_its_files_when_a_later_run_mounts_it(cluster: Cluster, restricted: str) -> None:
    first = script("echo kept > /data/f", volumes=[claim(size="16Mi", lifetime="keep")], fs_group=2000)
    run(cluster, restricted, first, "first")
    cluster.kubectl("delete", "job", run_name(identify("first", restricted)), "-n", restricted)
    kept = claim_name(identify("first", restricted), volume="data")
    shared = make_volume("shared_volume", claim_name=kept, mount_path="/old")
    assert run(cluster, restricted, script("cat /old/f", volumes=[shared]), "second") == ["kept"]


def test_service_answers_by_its_names_when_a_run_is_served(cluster: Cluster, restricted: str) -> None:
    serve = "mkdir -p /tmp/www && echo hello from $RUN_ID > /tmp/www/index.html && httpd -f -p 8080 -h /tmp/www"
    deployment = start(
        cluster, restricted, script(serve, action="serve", service_name="main", readiness_path="/"), "web"
    )
    cluster.kubectl("rollout", "status", "-n", restricted, deployment, "--timeout=90s")
    name = run_name(identify("web", restricted))
    names = [name, f"{name}.{restricted}", "svc-vision--detector--main"]
    # The rules of a new service reach the node within a second or so: a client retries.
    fetch = "for i in $(seq 20); do timeout 3 wget -qO- http://$1:8080/ && exit; sleep 0.5; done; exit 1"
    calls = " && ".join(f"fetch {name}" for name in names)
    assert run(cluster, restricted, script(f"fetch() {{ ( {fetch} ); }}; {calls}"), "caller") == ["hello from web"] * 3


def test_python_runs_when_it_has_a_command(cluster: Cluster, restricted: str) -> None:
    spec = make_spec(
        kind="python",
        image=PYTHON,
        image_pull_policy="IfNotPresent",
        command=["python3", "-c"],
        args=["import os, sys; print(sys.version_info[:2], os.getuid())"],
        run_as_user=1000,
    )
    assert run(cluster, restricted, spec) == ["(3, 11) 1000"]
