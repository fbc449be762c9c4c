"""A kubelet's questions in an apiserver's words, and an apiserver's refusals in a provider's."""

import pytest

from runyard.kube.client import Client
from runyard.node.providers.kubernetes.streams import KubernetesStreams, render_log_query, render_stream_query
from runyard.node.providers.kubernetes.usage import read_usage, usage_from_metrics
from runyard.node.providers.provider import (
    LogOptions,
    ProviderRefused,
    ProviderUnavailable,
    RemotePodMissing,
)
from tests.unit.kube.scripted_apiserver import Step, answer, cut, cut_in_body, refuse, serve

METRICS = {
    "metadata": {"name": "remote"},
    "timestamp": "2026-01-01T12:00:00Z",
    "containers": [{"name": "main", "usage": {"cpu": "1500000n", "memory": "2Mi"}}],
}


def test_switches_are_renamed_and_commands_kept_when_rendered() -> None:
    query = [("command", "sh"), ("input", "1"), ("output", "1"), ("error", "0"), ("tty", "true"), ("command", "-c")]
    assert render_stream_query("exec", "main", query) == [
        ("container", "main"),
        ("command", "sh"),
        ("stdin", "true"),
        ("stdout", "true"),
        ("stderr", "false"),
        ("tty", "true"),
        ("command", "-c"),
    ]
    assert render_stream_query("portforward", None, [("port", "80")]) == [("ports", "80")]


def test_log_options_become_parameters_when_rendered() -> None:
    options = LogOptions(follow=True, previous=True, timestamps=True, since_seconds=1, tail_lines=0, limit_bytes=2)
    assert dict(render_log_query("main", options)) == {
        "container": "main",
        "follow": "true",
        "previous": "true",
        "timestamps": "true",
        "sinceSeconds": "1",
        "tailLines": "0",
        "limitBytes": "2",
    }
    assert render_log_query("main", LogOptions()) == [("container", "main")]


async def read_log(*steps: Step) -> bytes:
    async with serve(*steps) as server, Client.connect(server.config()) as client:
        streams = KubernetesStreams(client, namespace="n", find_remote={"uid": "remote"}.get)
        async with streams.read_log("uid", "main", LogOptions()) as chunks:
            read = b"".join([chunk async for chunk in chunks])
        assert server.requests[0].target == "/api/v1/namespaces/n/pods/remote/log?container=main"
        return read


async def test_log_is_read_by_the_remote_name_when_the_pod_is_there() -> None:
    assert await read_log(answer("line\n")) == b"line\n"


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (refuse(404, "NotFound", details={"kind": "pods", "name": "remote"}), RemotePodMissing),
        (refuse(400, "BadRequest"), ProviderRefused),
        (refuse(403, "Forbidden"), ProviderRefused),
        (refuse(500, "InternalError"), ProviderRefused),
        (answer("<html>", status=500), ProviderUnavailable),
        (answer("<html>", status=404), ProviderUnavailable),
        (refuse(401, "Unauthorized"), ProviderUnavailable),
        (refuse(429, "TooManyRequests"), ProviderUnavailable),
        (refuse(503, "ServiceUnavailable"), ProviderUnavailable),
        (cut, ProviderUnavailable),
        (cut_in_body, ProviderUnavailable),
    ],
)
async def test_error_is_a_providers_when_the_apiserver_refuses(step: Step, error: type[Exception]) -> None:
    with pytest.raises(error):
        await read_log(step)


async def test_missing_when_there_is_no_pod_of_the_uid() -> None:
    async with serve(answer("")) as server, Client.connect(server.config()) as client:
        streams = KubernetesStreams(client, namespace="n", find_remote=lambda _: None)
        with pytest.raises(RemotePodMissing):
            async with streams.open_tunnel("exec", "uid", "main", method="POST", query=[], headers={}):
                pass
        assert server.requests == []


async def test_refusal_has_the_servers_words_when_an_upgrade_is_refused() -> None:
    async with serve(refuse(400, "BadRequest")) as server, Client.connect(server.config()) as client:
        streams = KubernetesStreams(client, namespace="n", find_remote=lambda _: "remote")
        opening = streams.open_tunnel(
            "exec", "uid", "main", method="POST", query=[("command", "id")], headers={"Upgrade": "SPDY/3.1"}
        )
        with pytest.raises(ProviderRefused, match="scripted"):
            async with opening:
                pass
        assert server.requests[0].target == "/api/v1/namespaces/n/pods/remote/exec?container=main&command=id"


async def test_usage_is_by_uid_when_the_provider_has_figures() -> None:
    listing = {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": [METRICS]}
    async with serve(answer(listing)) as server, Client.connect(server.config()) as client:
        usage = await read_usage(client, namespace="n", remote_names=lambda: {"uid": "remote", "other": "waiting"})
    assert [(pod.uid, pod.containers[0].cpu_cores, pod.containers[0].memory_bytes) for pod in usage] == [
        ("uid", 0.0015, 2 << 20)
    ]


async def test_no_usage_when_the_provider_has_no_metrics_api() -> None:
    async with serve(answer("404 page not found", status=404)) as server, Client.connect(server.config()) as client:
        assert await read_usage(client, namespace="n", remote_names=dict) == []


@pytest.mark.parametrize("broken", [{}, METRICS | {"timestamp": "now"}, METRICS | {"containers": [{"name": "x"}]}])
def test_figures_are_left_out_when_they_cannot_be_read(broken: dict[str, object]) -> None:
    assert usage_from_metrics("uid", broken) is None
