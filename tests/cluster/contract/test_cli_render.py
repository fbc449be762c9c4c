"""`runyard render … | kubectl apply -f -`, as a user types it, against a real apiserver and on a real node."""

import subprocess
import sys
from pathlib import Path

import pytest

from runyard.manifests.identity import RunIdentity
from runyard.manifests.names import run_name
from testbed.cluster import Cluster
from tests.cluster.testbed.manifests import wait
from tests.unit.cli.snippets import PROFILES, SECRETS, list_snippets, read_snippet

RUNYARD = Path(sys.executable).parent / "runyard"
NAMESPACE = "snippets"
RUN = """\
action: job
command: [sh, -ec, 'echo "$GREETING from $(id -u):$(id -g)"; cat /conf/answer; echo; echo >/data/written; ls /data']
envs: {GREETING: hello}
run_as_user: 1000
run_as_group: 2000
fs_group: 3000
resources: {cpu: 50m, mem: 32Mi}
volumes:
  - {volume_type: config_map, name: conf, mount_path: /conf, spec: {data: {answer: "42"}}}
  - {volume_type: persistent_volume_claim, name: data, mount_path: /data, spec: {size: 10Mi}}
"""


@pytest.fixture(scope="module")
def apiserver(control_plane: Cluster) -> Cluster:
    """An apiserver with a namespace that warns of every pod template that is not restricted."""
    control_plane.kubectl("create", "namespace", NAMESPACE)
    control_plane.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/warn=restricted")
    return control_plane


def render_into(cluster: Cluster, *kubectl: str, render: list[str], stdin: bytes) -> subprocess.CompletedProcess[str]:
    """What the first command prints, given to the second; the second's end."""
    rendered = subprocess.run([str(RUNYARD), "render", "-f", "-", *render], input=stdin, capture_output=True)
    assert rendered.returncode == 0, rendered.stderr.decode()
    argv = [str(cluster.directory / "bin/kubectl"), f"--kubeconfig={cluster.kubeconfig}", "apply", *kubectl, "-f", "-"]
    return subprocess.run(argv, input=rendered.stdout.decode(), capture_output=True, text=True, env={})


@pytest.mark.parametrize(
    ("name", "output"),
    [*((name, "yaml") for name in list_snippets()), ("002-run.py", "json"), ("002-secrets.py", "json")],
)
def test_apiserver_takes_the_objects_when_a_snippet_is_rendered(
    apiserver: Cluster, tmp_path: Path, name: str, output: str
) -> None:
    (tmp_path / "profiles.yaml").write_text(PROFILES)
    known = [word for secret in SECRETS for word in ("--secret", secret)]
    options = ["--image", "busybox:1.36", "--profiles", str(tmp_path / "profiles.yaml"), *known, "-o", output]
    dry_run = ("-n", NAMESPACE, "--dry-run=server", "--validate=strict")
    done = render_into(apiserver, *dry_run, render=options, stdin=read_snippet(name))
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert "job.batch/run-" in done.stdout


HELLO = f"job/{run_name(RunIdentity(run_id='hello', run_uid='u1', project='default'))}"


def test_run_completes_when_it_is_applied(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    render = ["--image", "busybox:1.36", "--id", "hello", "--uid", "u1", "--namespace", namespace]
    done = render_into(cluster, render=render, stdin=RUN.encode())
    assert done.returncode == 0, done.stderr
    wait(cluster, namespace, HELLO, until="condition=complete")
    lines = cluster.kubectl("logs", "-n", namespace, HELLO).split()
    assert lines == ["hello", "from", "1000:2000", "42", "written"]
    policy = "{.items[0].spec.containers[0].imagePullPolicy}"
    assert cluster.kubectl("get", "pods", "-n", namespace, "-o", f"jsonpath={policy}") == "IfNotPresent"
