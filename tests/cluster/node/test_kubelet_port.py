"""Real kubectl, through a real apiserver and the port, to pods that run on another real cluster."""

import fcntl
import hashlib
import json
import os
import pty
import re
import select
import socket
import ssl
import struct
import subprocess
import termios
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from runyard.node.kubelet_api.connections import MOST_STRANGERS
from testbed.cluster import Cluster
from testbed.supervision import environment_without_proxies
from tests.cluster.node.agent_bed import IS_BETA
from tests.cluster.node.served_port import NODE, ServedPort, get_pod, node_object, serve_port
from tests.cluster.testbed.manifests import create, pod, wait

SLEEP = "trap 'exit 0' TERM; echo started; echo second; sleep 600 & wait"
SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
WEBSOCKET = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "true", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "true"}
LARGE_BYTES = 20_000_000

both_protocols = pytest.mark.parametrize("protocol", [SPDY, WEBSOCKET], ids=["spdy", "websocket"])


@pytest.fixture(scope="module")
def port(local_cluster: Cluster, provider_cluster: Cluster) -> Iterator[ServedPort]:
    """The port behind a Node of the local cluster, with the pod `web` on it."""
    with serve_port(local_cluster, provider_cluster) as served:
        node = node_object(served)
        local_cluster.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Node", **node}))
        local_cluster.kubectl(
            "patch", "node", NODE, "--subresource=status", "--type=merge", "-p", json.dumps({"status": node["status"]})
        )
        add_pod(served, local_cluster, provider_cluster, "web", SLEEP, stdin=True)
        yield served


def add_pod(served: ServedPort, local: Cluster, provider: Cluster, name: str, script: str, **more: Any) -> None:
    """A pod that is bound to the node by hand, and its copy at the provider, which runs."""
    create(local, "default", pod(name, script, spec={"nodeName": NODE}, **more))
    create(provider, "default", pod(f"copy-{name}", script, **more))
    wait(provider, "default", f"pod/copy-{name}", until="jsonpath={.status.phase}=Running")
    # kubectl forwards ports of pods only that are said to run.
    local.kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Running"}}')
    served.add(get_pod(local, name), f"copy-{name}")


def kubectl(
    cluster: Cluster, *arguments: str, protocol: dict[str, str] | None = None, stdin: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run kubectl with bytes, whatever its exit code."""
    return subprocess.run(
        argv(cluster, *arguments),
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        env=environment_without_proxies() | (protocol or {}),
        timeout=120,
        check=False,
    )


def argv(cluster: Cluster, *arguments: str) -> list[str]:
    return [str(cluster.directory / "bin/kubectl"), f"--kubeconfig={cluster.kubeconfig}", *arguments]


def test_log_is_that_of_the_copy_when_asked_for(port: ServedPort, local_cluster: Cluster) -> None:
    assert local_cluster.kubectl("logs", "web") == "started\nsecond\n"
    assert local_cluster.kubectl("logs", "web", "--tail=1") == "second\n"
    assert local_cluster.kubectl("logs", "web", "--limit-bytes=3") == "sta"
    assert local_cluster.kubectl("logs", "web", "--since=1s", "--tail=0") == ""
    assert re.match(r"\d{4}-\d\d-\d\dT\S+Z started\n", local_cluster.kubectl("logs", "web", "--timestamps"))


def test_refusal_is_the_providers_when_there_was_no_container_before(port: ServedPort, local_cluster: Cluster) -> None:
    done = kubectl(local_cluster, "logs", "web", "--previous")
    assert done.returncode == 1
    assert b"previous terminated container" in done.stderr


def test_lines_come_as_they_are_written_when_a_log_is_followed(
    port: ServedPort, local_cluster: Cluster, provider_cluster: Cluster
) -> None:
    script = "echo one; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo two"
    add_pod(port, local_cluster, provider_cluster, "follow", script)
    with subprocess.Popen(argv(local_cluster, "logs", "-f", "follow"), stdout=subprocess.PIPE) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == b"one\n"
        assert port.port.streams.open == 1
        assert kubectl(local_cluster, "exec", "follow", "--", "touch", "/tmp/go").returncode == 0
        assert following.stdout.read() == b"two\n"
        assert following.wait(30) == 0
    eventually(lambda: port.port.streams.open == 0)


def test_kubectl_is_answered_when_strangers_hold_hundreds_of_connections(
    port: ServedPort, local_cluster: Cluster
) -> None:
    counted = port.port.connections
    assert counted is not None
    with ExitStack() as stack:
        for _ in range(3 * MOST_STRANGERS):
            stack.enter_context(socket.create_connection((port.address, port.port.port)))
        assert local_cluster.kubectl("logs", "web", "--tail=1") == "second\n"
        assert counted.strangers <= MOST_STRANGERS
    eventually(lambda: counted.strangers == 0)


def test_nothing_is_left_open_when_a_follower_is_killed(port: ServedPort, local_cluster: Cluster) -> None:
    following = subprocess.Popen(argv(local_cluster, "logs", "-f", "web"), stdout=subprocess.PIPE)
    with following:
        assert following.stdout is not None
        assert following.stdout.readline() == b"started\n"
        following.kill()
    eventually(lambda: port.port.streams.open == 0)


@both_protocols
def test_exit_code_and_both_outputs_arrive_when_a_command_fails(
    port: ServedPort, local_cluster: Cluster, protocol: dict[str, str]
) -> None:
    script = "echo out; echo err >&2; exit 7"
    done = kubectl(local_cluster, "exec", "web", "--", "sh", "-c", script, protocol=protocol)
    assert (done.returncode, done.stdout) == (7, b"out\n")
    assert done.stderr == b"err\ncommand terminated with exit code 7\n"


@both_protocols
def test_end_of_stdin_reaches_the_command_when_it_is_empty(
    port: ServedPort, local_cluster: Cluster, protocol: dict[str, str]
) -> None:
    done = kubectl(local_cluster, "exec", "-i", "web", "--", "wc", "-c", protocol=protocol, stdin=b"")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, b"0", b"")


@both_protocols
def test_twenty_megabytes_come_back_when_sent_through_a_command(
    port: ServedPort, local_cluster: Cluster, protocol: dict[str, str]
) -> None:
    data = os.urandom(LARGE_BYTES)
    done = kubectl(local_cluster, "exec", "-i", "web", "--", "cat", protocol=protocol, stdin=data)
    assert (done.returncode, done.stderr) == (0, b"")
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()
    eventually(lambda: port.port.streams.open == 0)


@both_protocols
def test_all_output_and_the_exit_code_arrive_when_the_reader_is_slow(
    port: ServedPort, local_cluster: Cluster, protocol: dict[str, str]
) -> None:
    command = ["exec", "web", "--", "sh", "-c", f"head -c {LARGE_BYTES} /dev/zero; exit 5"]
    environment = environment_without_proxies() | protocol
    with subprocess.Popen(argv(local_cluster, *command), stdout=subprocess.PIPE, env=environment) as running:
        time.sleep(2)
        assert running.stdout is not None
        assert len(running.stdout.read()) == LARGE_BYTES
        assert running.wait(60) == 5


@pytest.mark.long
def test_all_output_arrives_over_spdy_when_kubectl_pings_before_it_has_read_it(
    port: ServedPort, local_cluster: Cluster
) -> None:
    """kubectl straight to an apiserver loses a part of it then, and exits with 0."""
    size = 1_500_000
    command = ["exec", "web", "--", "head", "-c", str(size), "/dev/zero"]
    environment = environment_without_proxies() | SPDY
    with subprocess.Popen(argv(local_cluster, *command), stdout=subprocess.PIPE, env=environment) as running:
        time.sleep(13)  # Two pings.
        assert running.stdout is not None
        assert len(running.stdout.read()) == size
        assert running.wait(60) == 0
    eventually(lambda: port.port.streams.open == 0)


def test_websockets_come_as_they_are_when_the_node_declares_that_it_takes_them(
    port: ServedPort, local_cluster: Cluster
) -> None:
    features = {"status": {"declaredFeatures": ["ExtendWebSocketsToKubelet"]}}
    local_cluster.kubectl("patch", "node", NODE, "--subresource=status", "--type=merge", "-p", json.dumps(features))
    try:
        eventually(lambda: kubectl(local_cluster, "exec", "web", "--", "true").returncode == 0)
        done = kubectl(
            local_cluster, "exec", "-i", "web", "--", "sh", "-c", "cat; exit 7", protocol=WEBSOCKET, stdin=b"in"
        )
        assert (done.returncode, done.stdout) == (7, b"in")
        assert port.provider.upgrades[-1] == ("SPDY/3.1" if IS_BETA else "websocket")  # 1.34 does not ask the node
    finally:
        features["status"]["declaredFeatures"] = []
        local_cluster.kubectl("patch", "node", NODE, "--subresource=status", "--type=merge", "-p", json.dumps(features))


@both_protocols
def test_attach_shows_the_output_of_the_process_when_it_writes(
    port: ServedPort, local_cluster: Cluster, provider_cluster: Cluster, protocol: dict[str, str]
) -> None:
    name = "attach-spdy" if protocol is SPDY else "attach-websocket"
    add_pod(port, local_cluster, provider_cluster, name, "while read line; do echo got $line; done", stdin=True)
    with subprocess.Popen(
        argv(local_cluster, "attach", "-i", name),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment_without_proxies() | protocol,
    ) as attached:
        assert attached.stdin is not None
        assert attached.stdout is not None
        attached.stdin.write(b"first\n")
        attached.stdin.flush()
        assert attached.stdout.readline() == b"got first\n"
        attached.kill()


@both_protocols
def test_bytes_go_both_ways_when_a_port_is_forwarded(
    port: ServedPort, local_cluster: Cluster, provider_cluster: Cluster, protocol: dict[str, str]
) -> None:
    name = "forward-spdy" if protocol is SPDY else "forward-websocket"
    add_pod(port, local_cluster, provider_cluster, name, "nc -ll -p 8080 -e cat")
    listens = "until grep -q ':1F90 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done"
    provider_cluster.kubectl("exec", f"copy-{name}", "--", "sh", "-c", listens)
    with forwarding(local_cluster, name, protocol) as number:
        data = os.urandom(1_000_000)
        with socket.create_connection(("127.0.0.1", number)) as connection:
            assert exchange(connection, data) == data


@both_protocols
def test_resize_reaches_the_process_when_the_terminal_changes(
    port: ServedPort, local_cluster: Cluster, protocol: dict[str, str]
) -> None:
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 101, 0, 0))
    script = "; ".join(
        f"until [ \"$(stty size)\" = '{size}' ]; do sleep 0.1; done; echo it is {size}" for size in ("33 101", "44 88")
    )
    command = argv(local_cluster, "exec", "-it", "web", "--", "sh", "-c", f"{script}; exit 9")
    running = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *command],
        stdin=other,
        stdout=other,
        stderr=other,
        env=environment_without_proxies() | protocol,
    )
    os.close(other)
    read_terminal(main, b"it is 33 101")
    fcntl.ioctl(main, termios.TIOCSWINSZ, struct.pack("HHHH", 44, 88, 0, 0))
    read_terminal(main, b"it is 44 88")
    assert running.wait(30) == 9
    os.close(main)


def test_pods_of_others_are_not_found_when_they_run_elsewhere(
    port: ServedPort, local_cluster: Cluster, provider_cluster: Cluster
) -> None:
    create(provider_cluster, "default", pod("foreign", SLEEP))
    create(local_cluster, "default", pod("foreign", SLEEP, spec={"nodeName": NODE}))
    done = kubectl(local_cluster, "logs", "foreign")
    assert done.returncode == 1
    assert b"(NotFound)" in done.stderr


def test_node_proxy_lists_pods_and_summary_when_asked(port: ServedPort, local_cluster: Cluster) -> None:
    pods = json.loads(local_cluster.kubectl("get", "--raw", f"/api/v1/nodes/{NODE}/proxy/pods"))
    assert "web" in [each["metadata"]["name"] for each in pods["items"]]
    assert json.loads(local_cluster.kubectl("get", "--raw", f"/api/v1/nodes/{NODE}/proxy/stats/summary"))["node"] == {
        "nodeName": NODE
    }
    metrics = local_cluster.kubectl("get", "--raw", f"/api/v1/nodes/{NODE}/proxy/metrics/resource")
    assert "# TYPE container_cpu_usage_seconds_total counter\n" in metrics
    assert local_cluster.kubectl("get", "--raw", f"/api/v1/nodes/{NODE}/proxy/healthz") == "ok"


def test_only_those_with_rights_are_answered_when_they_ask_directly(port: ServedPort, local_cluster: Cluster) -> None:
    base = f"https://{port.address}:{port.port.port}"
    local_cluster.kubectl("create", "serviceaccount", "reader")
    token = local_cluster.kubectl("create", "token", "reader").strip()
    for path in ("/pods", "/containerLogs/default/web/main", "/healthz", "/no-such-path"):
        assert https_status(local_cluster, base + path) == 401
        assert https_status(local_cluster, base + path, token="made-up") == 401
        assert https_status(local_cluster, base + path, token=token) == 403
    local_cluster.kubectl("create", "clusterrole", "reader", "--verb=get", "--resource=nodes/proxy")
    local_cluster.kubectl(
        "create", "clusterrolebinding", "r", "--clusterrole=reader", "--serviceaccount=default:reader"
    )
    local_cluster.kubectl("create", "serviceaccount", "other")
    other = local_cluster.kubectl("create", "token", "other").strip()
    assert https_status(local_cluster, f"{base}/pods", token=other) == 403
    # A denial is remembered for half a minute, so this asks for what was not asked before.
    reader = local_cluster.kubectl("create", "token", "reader").strip()
    assert https_status(local_cluster, f"{base}/exec/default/web/main?command=id", token=reader) == 403
    certificate = local_cluster.certificate("apiserver-like", groups=["system:masters"])
    assert https_status(local_cluster, f"{base}/pods", certificate=certificate) == 200
    stranger = local_cluster.certificate("stranger")
    assert https_status(local_cluster, f"{base}/pods", certificate=stranger) == 403


def test_no_request_is_left_behind_when_the_certificate_was_issued(port: ServedPort, local_cluster: Cluster) -> None:
    assert json.loads(local_cluster.kubectl("get", "csr", "-o", "json"))["items"] == []


def https_status(
    cluster: Cluster, url: str, *, token: str | None = None, certificate: tuple[Path, Path] | None = None
) -> int:
    """The status of a GET; the server's certificate is checked against the cluster's authority."""
    context = ssl.create_default_context(cafile=str(cluster.ca_file))
    if certificate is not None:
        context.load_cert_chain(*certificate)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        with opener.open(urllib.request.Request(url, headers=headers), timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@contextmanager
def forwarding(cluster: Cluster, name: str, protocol: dict[str, str]) -> Iterator[int]:
    """kubectl port-forward; gives the number of the port on this machine."""
    with subprocess.Popen(
        argv(cluster, "port-forward", f"pod/{name}", ":8080", "--address=127.0.0.1"),
        stdout=subprocess.PIPE,
        env=environment_without_proxies() | protocol,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        assert found, line
        try:
            yield int(found[1])
        finally:
            process.kill()


def exchange(connection: socket.socket, data: bytes) -> bytes:
    """Send and read back in turns."""
    received = bytearray()
    for start in range(0, len(data), 50_000):
        piece = data[start : start + 50_000]
        connection.sendall(piece)
        goal = len(received) + len(piece)
        while len(received) < goal:
            some = connection.recv(1 << 16)
            if not some:
                return bytes(received)
            received += some
    return bytes(received)


def read_terminal(descriptor: int, word: bytes) -> None:
    """Read until a word appears."""
    seen = b""
    while word not in seen:
        assert select.select([descriptor], [], [], 60)[0], seen
        seen += os.read(descriptor, 4096)


def eventually(condition: Callable[[], bool], *, seconds: float = 20.0) -> None:
    ends_at = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends_at
        time.sleep(0.05)
