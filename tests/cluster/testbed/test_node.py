"""The node runs real containers, with everything a run will ask of one."""

import json
import subprocess

from testbed.cluster import Cluster
from tests.cluster.testbed.manifests import create, job, pod, wait


def test_job_runs_as_asked_when_it_sets_user_group_seccomp_and_limits(cluster: Cluster, namespace: str) -> None:
    script = (
        "id -u; id -g; id -G; touch /data/mine && stat -c %g /data/mine; "
        "grep Seccomp: /proc/self/status; cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max "
        "2>/dev/null; true"
    )
    create(
        cluster,
        namespace,
        job(
            "limited",
            script,
            spec={
                "securityContext": {
                    "runAsUser": 1234,
                    "runAsGroup": 2345,
                    "runAsNonRoot": True,
                    "fsGroup": 3456,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "volumes": [{"name": "data", "emptyDir": {}}],
            },
            volumeMounts=[{"name": "data", "mountPath": "/data"}],
            resources={
                "requests": {"cpu": "50m", "memory": "32Mi"},
                "limits": {"cpu": "500m", "memory": "64Mi"},
            },
            securityContext={"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        ),
    )
    wait(cluster, namespace, "job/limited", until="condition=complete")
    user, group, groups, file_group, seccomp, limit = cluster.kubectl(
        "logs", "-n", namespace, "job/limited"
    ).splitlines()
    assert (user, group, groups.split()) == ("1234", "2345", ["2345", "3456"])
    assert file_group == "3456"
    assert seccomp.split() == ["Seccomp:", "2"]
    assert int(limit) == 64 * 1024**2


def test_container_is_killed_when_it_exceeds_its_memory_limit(cluster: Cluster, namespace: str) -> None:
    grow = "x=a; while true; do x=$x$x; done"
    create(cluster, namespace, pod("hungry", grow, resources={"limits": {"memory": "16Mi"}}))
    wait(cluster, namespace, "pod/hungry", until="jsonpath={.status.phase}=Failed")
    status = json.loads(cluster.kubectl("get", "pod", "-n", namespace, "hungry", "-o", "json"))["status"]
    assert status["containerStatuses"][0]["state"]["terminated"]["reason"] == "OOMKilled"


def test_logs_arrive_when_the_pod_still_runs(cluster: Cluster, namespace: str) -> None:
    create(cluster, namespace, pod("talker", "for i in 1 2 3; do echo line $i; sleep 0.2; done; sleep 3600"))
    wait(cluster, namespace, "pod/talker", until="condition=Ready")
    follow = [
        str(cluster.directory / "bin/kubectl"),
        f"--kubeconfig={cluster.kubeconfig}",
        *("logs", "-n", namespace, "-f", "talker"),
    ]
    with subprocess.Popen(follow, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            lines = [process.stdout.readline() for _ in range(3)]
        finally:
            process.kill()
    assert lines == ["line 1\n", "line 2\n", "line 3\n"]
    phase = cluster.kubectl("get", "pod", "-n", namespace, "talker", "-o", "jsonpath={.status.phase}")
    assert phase == "Running"


def test_exec_returns_the_exit_code_when_the_command_ends(cluster: Cluster, namespace: str) -> None:
    create(cluster, namespace, pod("box", "sleep 3600"))
    wait(cluster, namespace, "pod/box", until="condition=Ready")
    kubectl = [str(cluster.directory / "bin/kubectl"), f"--kubeconfig={cluster.kubeconfig}"]
    done = subprocess.run(
        [*kubectl, "exec", "-n", namespace, "box", "-i", "--", "sh", "-c", "cat; exit 42"],
        input="through the pipe",
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (42, "through the pipe")


def test_runtime_classes_run_when_a_pod_names_them(cluster: Cluster, namespace: str) -> None:
    for handler in ("runc", "nvidia"):
        create(cluster, namespace, pod(handler, "true", spec={"runtimeClassName": handler}))
        wait(cluster, namespace, f"pod/{handler}", until="jsonpath={.status.phase}=Succeeded")
        name = cluster.kubectl("get", "pod", "-n", namespace, handler, "-o", "jsonpath={.spec.runtimeClassName}")
        assert name == handler


def test_pod_stays_pending_when_it_asks_for_more_gpus_than_the_node_has(cluster: Cluster, namespace: str) -> None:
    fits, too_many = ({"limits": {"nvidia.com/gpu": count}} for count in ("1", "5"))
    create(
        cluster,
        namespace,
        pod("greedy", "true", resources=too_many),
        pod("modest", "true", resources=fits),
    )
    wait(cluster, namespace, "pod/modest", until="jsonpath={.status.phase}=Succeeded")
    wait(
        cluster,
        namespace,
        "pod/greedy",
        until='jsonpath={.status.conditions[?(@.type=="PodScheduled")].reason}=Unschedulable',
    )
    greedy = json.loads(cluster.kubectl("get", "pod", "-n", namespace, "greedy", "-o", "json"))
    assert greedy["status"]["phase"] == "Pending"
    assert "Insufficient nvidia.com/gpu" in greedy["status"]["conditions"][0]["message"]
