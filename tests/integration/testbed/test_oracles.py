"""The sub-commands that later suites compare ours with: they must themselves answer as Kubernetes does."""

import subprocess
from collections.abc import Iterator

import pytest

from testbed import build
from tests.integration.oracle import Document, Oracle

pytestmark = pytest.mark.kubernetes


@pytest.fixture(scope="module")
def quantity(version: str) -> Iterator[Oracle]:
    oracle = Oracle(build.ensure_kube(version), "quantity")
    yield oracle
    assert oracle.close() == 0


@pytest.fixture(scope="module")
def pod_requests(version: str) -> Iterator[Oracle]:
    oracle = Oracle(build.ensure_kube(version), "pod-requests")
    yield oracle
    assert oracle.close() == 0


@pytest.mark.parametrize(
    ("text", "canonical", "exact", "format_", "value", "milli"),
    [
        ("0", "0", "0", "DecimalSI", 0, 0),
        ("1", "1", "1", "DecimalSI", 1, 1000),
        ("1000m", "1", "1", "DecimalSI", 1, 1000),
        ("0.5", "500m", "0.5", "DecimalSI", 1, 500),
        (".5", "500m", "0.5", "DecimalSI", 1, 500),
        ("-1.5", "-1500m", "-1.5", "DecimalSI", -2, -1500),
        ("32G", "32G", "32000000000", "DecimalSI", 32 * 10**9, 32 * 10**12),
        ("32Gi", "32Gi", "34359738368", "BinarySI", 2**35, 2**35 * 1000),
        ("1.5Gi", "1536Mi", "1610612736", "BinarySI", 1610612736, 1610612736000),
        ("1.1Ki", "1126400m", "1126.4", "BinarySI", 1127, 1126400),
        ("1024", "1024", "1024", "DecimalSI", 1024, 1024000),
        ("1024Ki", "1Mi", "1048576", "BinarySI", 2**20, 2**20 * 1000),
        ("1e3", "1e3", "1000", "DecimalExponent", 1000, 10**6),
        ("12E6", "12e6", "12000000", "DecimalExponent", 12 * 10**6, 12 * 10**9),
        ("0.1n", "1n", "0.000000001", "DecimalSI", 1, 1),
    ],
)
def test_quantity_is_read_as_go_reads_it_when_it_is_valid(
    quantity: Oracle, text: str, canonical: str, exact: str, format_: str, value: int, milli: int
) -> None:
    answer = quantity.ask({"q": text})

    assert {name: answer[name] for name in ("canonical", "exact", "format", "value", "milliValue")} == {
        "canonical": canonical,
        "exact": exact,
        "format": format_,
        "value": value,
        "milliValue": milli,
    }


def test_quantity_is_written_back_as_it_came_when_go_remembers_its_text(quantity: Oracle) -> None:
    answer = quantity.ask({"q": "+1"})
    assert (answer["string"], answer["canonical"]) == ("+1", "1")


def test_quantity_is_capped_when_its_binary_suffix_exceeds_64_bits(quantity: Oracle) -> None:
    assert quantity.ask({"q": "100Ei"})["exact"] == str(2**63 - 1)


@pytest.mark.parametrize(
    ("left", "right", "order"), [("1", "1000m", 0), ("1Gi", "1G", 1), ("999m", "1", -1), ("1e3", "1k", 0)]
)
def test_quantities_are_ordered_when_a_pair_is_asked(quantity: Oracle, left: str, right: str, order: int) -> None:
    assert quantity.ask({"a": left, "b": right}) == {"compare": order}


@pytest.mark.parametrize("text", ["", " 1", "1 Gi", "abc", "1gi", "1KB", "--1", "0x1"])
def test_error_is_the_answer_when_a_quantity_is_invalid(quantity: Oracle, text: str) -> None:
    assert quantity.ask({"q": text}).keys() == {"error"}


@pytest.mark.parametrize("line", ["{", "[]", "null", "7", '{"q": 1}', '{"q": "1", "a": "1"}', '{"a": "1"}'])
def test_next_line_is_answered_when_a_line_makes_no_sense(quantity: Oracle, line: str) -> None:
    assert quantity.ask_text(line).keys() == {"error"}
    assert quantity.ask({"q": "1"})["value"] == 1


def container(name: str, *, requests: Document | None = None, **rest: object) -> Document:
    return {"name": name, "resources": {"requests": requests or {}}, **rest}


def pod(*containers: Document, **spec: object) -> Document:
    return {"spec": {"containers": containers, **spec}}


def test_requests_are_summed_when_a_pod_has_containers_and_overhead(pod_requests: Oracle) -> None:
    asked = pod(
        container("a", requests={"cpu": "100m", "memory": "1Gi"}),
        container("b", requests={"cpu": "0.2", "nvidia.com/gpu": 1}),
        overhead={"cpu": "10m"},
    )
    assert pod_requests.ask(asked)["requests"] == {"cpu": "310m", "memory": "1Gi", "nvidia.com/gpu": "1"}


def test_largest_init_container_counts_when_it_exceeds_the_sum(pod_requests: Oracle) -> None:
    asked = pod(
        container("a", requests={"cpu": "1", "memory": "1Gi"}),
        initContainers=[
            container("i", requests={"cpu": "3"}),
            container("j", requests={"cpu": "2", "memory": "512Mi"}),
        ],
    )
    assert pod_requests.ask(asked)["requests"] == {"cpu": "3", "memory": "1Gi"}


def test_sidecar_is_added_when_an_init_container_restarts_always(pod_requests: Oracle) -> None:
    asked = pod(
        container("a", requests={"cpu": "1"}),
        initContainers=[
            container("sidecar", requests={"cpu": "500m"}, restartPolicy="Always"),
            container("later", requests={"cpu": "2"}),
        ],
    )
    assert pod_requests.ask(asked)["requests"] == {"cpu": "2500m"}


def test_pod_level_requests_win_when_they_are_set(pod_requests: Oracle) -> None:
    asked = pod(container("a", requests={"cpu": "1", "nvidia.com/gpu": "2"}), resources={"requests": {"cpu": "5"}})
    assert pod_requests.ask(asked)["requests"] == {"cpu": "5", "nvidia.com/gpu": "2"}


def test_limits_are_requests_only_when_defaults_are_asked_for(version: str, pod_requests: Oracle) -> None:
    asked = pod({"name": "a", "resources": {"limits": {"cpu": "2"}}})
    defaulting = Oracle(build.ensure_kube(version), "pod-requests", "--defaults")

    assert pod_requests.ask(asked) == {"requests": {}, "limits": {"cpu": "2"}}
    assert defaulting.ask(asked) == {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}
    assert defaulting.close() == 0


@pytest.mark.parametrize(
    "line", ["{", "[]", "null", '{"spec": {"containers": [{"resources": {"requests": {"cpu": "x"}}}]}}']
)
def test_next_pod_is_answered_when_a_line_is_no_pod(pod_requests: Oracle, line: str) -> None:
    assert pod_requests.ask_text(line).keys() == {"error"}
    assert pod_requests.ask({}) == {"requests": {}, "limits": {}}


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        (("kubectl", "version", "--client"), "Client Version: v{release}"),
        (("kube-apiserver", "--version"), "Kubernetes v{release}"),
        (("kubelet", "--version"), "Kubernetes v{release}"),
        (("etcd", "--version"), "etcd Version: 3.6."),
    ],
)
def test_component_states_its_release_when_it_is_asked(version: str, arguments: tuple[str, ...], start: str) -> None:
    done = subprocess.run([build.ensure_kube(version), *arguments], capture_output=True, text=True, timeout=30)
    assert done.stdout.startswith(start.format(release=build.kubernetes_release(version)))


def test_programs_are_listed_when_none_is_named(version: str) -> None:
    done = subprocess.run([build.ensure_kube(version)], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "kube-scheduler, kubectl, kubelet, pod-requests, quantity" in done.stderr
