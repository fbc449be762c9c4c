"""What a snapshot keeps of foreign pods: the sum of requests, in little memory."""

import json
import tracemalloc
from typing import Any

import msgspec

from runyard.engines.kubernetes.placement_views import PlacedPod

MOST_BYTES = 1024
"""Of one foreign pod."""


def make_pod(number: int) -> dict[str, Any]:
    def container(name: str, cpu: str, **fields: Any) -> dict[str, Any]:
        resources = {"requests": {"cpu": cpu, "memory": "64Mi"}, "limits": {"memory": "1Gi"}}
        return {
            "name": name,
            "image": "x" * 100,
            "env": [{"name": "A", "value": "b" * 500}],
            "resources": resources,
            **fields,
        }

    return {
        "metadata": {
            "name": f"web-7d4b9c{number:06d}",
            "namespace": "shop",
            "uid": f"5b0a3f1e-0000-4000-8000-{number:012d}",
            "resourceVersion": str(10**6 + number),
            "labels": {"app": "web"},
        },
        "spec": {
            "nodeName": f"node-{number % 50}",
            "priority": 10,
            "initContainers": [container("mesh", "50m", restartPolicy="Always"), container("init", "900m")],
            "containers": [container("a", "200m"), container("b", "100m")],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}] * 4},
    }


def decode(body: dict[str, Any]) -> PlacedPod:
    return msgspec.json.decode(json.dumps(body), type=PlacedPod)


def test_requests_are_summed_as_the_scheduler_counts_when_a_pod_is_decoded() -> None:
    pod = decode(make_pod(1))
    assert pod.spec.total == ("cpu", "950m", "memory", "192Mi")
    assert pod.spec.containers == pod.spec.init_containers == ()


def test_pod_requests_nothing_when_an_amount_cannot_be_read() -> None:
    body = make_pod(1)
    body["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "many"
    assert decode(body).spec.total == ()


def test_pod_takes_little_memory_when_it_is_kept() -> None:
    bodies = [json.dumps(make_pod(number)) for number in range(2000)]
    decode(make_pod(0))
    tracemalloc.start()
    kept = [msgspec.json.decode(body, type=PlacedPod) for body in bodies]
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert size / len(kept) < MOST_BYTES
