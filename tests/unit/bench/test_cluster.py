"""The parts of the cluster's bench that need no cluster; `tests/cluster/test_bench.py` runs it on one."""

import json
from pathlib import Path

from bench.cluster.active_runs import ActiveRuns, Memory
from bench.cluster.audit import count_requests
from bench.cluster.drained_queue import Drained, Queues
from bench.cluster.followed_lines import FollowedLines
from bench.cluster.full_runs import FullRuns, Side
from bench.cluster.latencies import Ends, Submits
from bench.cluster.raw_runs import RunTemplate, make_template
from bench.cluster.restarts import Restart
from bench.cluster.section import SMALL, Figures, make_section

LABELS = {"runyard.io/installation": "server", "runyard.io/run-uid": "u"}


def record() -> RunTemplate:
    """A Job and its Secret, as an apiserver shows them."""
    variable = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "run-a-secrets", "key": "TOKEN"}}}
    pod = {"containers": [{"name": "main", "env": [variable]}]}
    metadata = {"name": "run-a", "namespace": "ns", "uid": "1", "resourceVersion": "7", "labels": LABELS}
    job = {
        "metadata": {**metadata, "annotations": {"runyard.io/ttl": "60", "runyard.io/wish": "hold"}},
        "spec": {
            "suspend": True,
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "1"}},
            "template": {
                "metadata": {"labels": {**LABELS, "batch.kubernetes.io/controller-uid": "1", "job-name": "run-a"}},
                "spec": pod,
            },
        },
    }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "run-a", "uid": "1", "controller": False}
    secret = {"metadata": {**metadata, "name": "run-a-secrets", "ownerReferences": [owner]}, "data": {"TOKEN": "eA=="}}
    return make_template(job, secret)


def test_raw_client_sends_what_the_server_sends_when_a_run_was_recorded() -> None:
    template = record()
    job = json.loads(template.make_job("raw-1"))
    assert job["metadata"]["name"] == "raw-1"
    assert job["metadata"]["annotations"] == {"runyard.io/ttl": "60", "runyard.io/wish": "hold"}
    assert job["spec"]["suspend"] is True
    variable = job["spec"]["template"]["spec"]["containers"][0]["env"][0]
    assert variable["valueFrom"]["secretKeyRef"] == {"name": "raw-1", "key": "TOKEN"}
    assert json.loads(template.make_job("raw-1", is_suspended=False))["spec"]["suspend"] is False
    secret = json.loads(template.make_secret("raw-1", "uid-1"))
    assert (secret["metadata"]["name"], secret["data"]) == ("raw-1", {"TOKEN": "eA=="})
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "uid-1"
    assert template.ttl_seconds == 60


def test_server_sees_no_raw_job_and_the_cluster_names_it_anew_when_it_is_recorded() -> None:
    job = record().job
    assert "selector" not in job["spec"]
    assert job["metadata"].keys() == {"labels", "annotations"}
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert labels == {"runyard.io/installation": "raw", "runyard.io/run-uid": "u"} == job["metadata"]["labels"]


def test_only_requests_of_the_agent_are_counted_when_others_use_the_cluster(tmp_path: Path) -> None:
    entries = [
        {"verb": "create", "userAgent": "runyard/1", "stage": "ResponseComplete", "objectRef": {"resource": "jobs"}},
        {"verb": "get", "userAgent": "runyard/1", "objectRef": {"resource": "pods", "subresource": "log"}},
        {"verb": "get", "userAgent": "runyard/1", "stage": "ResponseStarted", "objectRef": {"resource": "pods"}},
        {"verb": "get", "userAgent": "kubelet", "objectRef": {"resource": "pods"}},
        {"verb": "get", "userAgent": "runyard/1"},
    ]
    path = tmp_path / "audit.log"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    assert count_requests(path, agent="runyard/") == {"create jobs": 1, "get pods/log": 1, "get ": 1}


def test_every_goal_is_judged_when_all_was_measured() -> None:
    used = {"etcd": 1.0, "kube-apiserver": 4.0}
    raw, server = Side(100, 25.0, used, 0.4), Side(100, 26.0, used, 3.0)
    full = FullRuns(raw, server, [0.96], {"create jobs": 1.0}, {"create jobs": 1.0}, "--flag", 0.9)
    queues = Queues(Drained(10, 1.0, used, 0.1), Drained(10, 2.0, used, 0.5), Drained(10, 0.5, used, 0.1))
    ends = Ends(5000, [0.1] * 100, [0.2] * 99 + [9.0], 20.0)
    restarts = [
        Restart(runs=runs, changed=500, listening_seconds=2.0, true_seconds=true, cpu_seconds=5.0, cluster_cpu=used)
        for runs, true in ((9500, 6.0), (9000, 7.0))
    ]
    memories = [Memory(1000, 2e8), Memory(5000, 2.4e8)]
    active = ActiveRuns(memories, bytes_per_run=10_000, idle_cpu=0.1, create_per_second=20, ends=ends)
    submits = Submits(server=[0.02] * 100, raw=[0.01] * 100)
    followed = FollowedLines(
        20, quiet=[0.1] * 100, flooded=[0.2] * 98 + [1.5] * 2, flood_bytes=10**8, raw_quiet=[0.1], raw_flooded=[0.1]
    )
    section = make_section(Figures(full, queues, submits, active, restarts, followed, [0.9]), SMALL)
    assert [(round(goal.value, 2), goal.text, goal.is_met) for goal in section.goals] == [
        (0.96, "≥ 0.9", True),
        (2.0, "≤ 3", True),
        (2.0, "≤ 3", True),
        (0.5, "≥ 0.6", False),
        (0.2, "≤ 1", True),
        (10.0, "≤ 20", True),
        (7.0, "≤ 10", True),
        (0.1, "≤ 1", True),
        (1.5, "≤ 1", False),
    ]
    assert "restart with 10,000 active runs to full truth" in [goal.name for goal in section.goals]
    assert "--flag" in " ".join(section.notes)
