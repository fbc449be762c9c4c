"""Figures of pods: seconds are summed up so that a rate over them is the provider's figure again."""

from collections.abc import Sequence
from datetime import UTC, datetime

from runyard.node.kubelet_api.usage_report import UsageReports, render_metrics, render_summary
from runyard.node.providers.provider import ContainerUsage, Object, PodUsage

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC).timestamp()


def make_pod(name: str, **status: str) -> Object:
    metadata = {"namespace": "team", "name": name, "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T11:00:00Z"}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main"}]}, "status": {"phase": "Running", **status}}


class Figures:
    """A provider whose pods all use the same."""

    def __init__(self) -> None:
        self.now = START
        self.cores = 0.5
        self.reads = 0
        self.age_seconds = 0.0

    async def read_usage(self) -> Sequence[PodUsage]:
        self.reads += 1
        at = datetime.fromtimestamp(self.now - self.age_seconds, UTC)
        container = ContainerUsage(name="main", cpu_cores=self.cores, memory_bytes=1 << 20)
        return [PodUsage(uid="uid-web", at=at, containers=[container])]


async def seconds_used(reports: UsageReports) -> float | None:
    return (await reports.read([make_pod("web")]))[0].containers[0].cpu_seconds


async def test_rate_over_two_readings_is_the_providers_figure_when_computed() -> None:
    figures = Figures()
    reports = UsageReports(figures, clock=lambda: figures.now)
    first = await seconds_used(reports)
    figures.now += 30
    second = await seconds_used(reports)
    assert first is not None
    assert second is not None
    assert first > 0
    assert (second - first) / 30 == 0.5


async def test_provider_is_asked_once_when_two_readers_come_together() -> None:
    figures = Figures()
    reports = UsageReports(figures, clock=lambda: figures.now)
    assert await seconds_used(reports) == await seconds_used(reports)
    assert figures.reads == 1


async def test_no_figures_are_given_when_they_are_old_or_there_are_none() -> None:
    figures = Figures()
    figures.age_seconds = 600
    assert await seconds_used(UsageReports(figures, clock=lambda: figures.now)) is None
    assert await seconds_used(UsageReports(None)) is None


async def test_only_running_pods_are_reported_when_some_are_not() -> None:
    ending = make_pod("ending")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    pods = [make_pod("web"), make_pod("waiting", phase="Pending"), ending]
    assert [pod.name for pod in await UsageReports(None).read(pods)] == ["web"]


async def test_text_has_the_labels_that_are_read_when_rendered() -> None:
    figures = Figures()
    pods = await UsageReports(figures, clock=lambda: figures.now).read(
        [make_pod("web", startTime="2026-01-01T11:30:00Z"), make_pod("idle")]
    )
    lines = render_metrics(pods, now=datetime.fromtimestamp(START, UTC)).splitlines()
    stamp = int(START * 1000)
    assert (
        f'container_cpu_usage_seconds_total{{namespace="team",pod="web",container="main"}} 0.500000000 {stamp}' in lines
    )
    assert f'container_memory_working_set_bytes{{namespace="team",pod="web",container="main"}} 1048576 {stamp}' in lines
    assert f'container_start_time_seconds{{namespace="team",pod="web",container="main"}} {START - 1800:.3f}' in lines
    assert f'pod_cpu_usage_seconds_total{{namespace="team",pod="web"}} 0.500000000 {stamp}' in lines
    assert f"node_cpu_usage_seconds_total 0.500000000 {stamp}" in lines
    assert f"node_memory_working_set_bytes 1048576 {stamp}" in lines
    assert not any("idle" in line for line in lines)


async def test_summary_has_every_running_pod_when_rendered() -> None:
    figures = Figures()
    pods = await UsageReports(figures, clock=lambda: figures.now).read([make_pod("web"), make_pod("idle")])
    summary = render_summary(pods, node="k8s.gpu", now=datetime.fromtimestamp(START, UTC))
    assert summary["node"]["nodeName"] == "k8s.gpu"
    assert summary["node"]["cpu"]["usageNanoCores"] == 500_000_000
    web, idle = summary["pods"]
    assert web["containers"][0]["memory"] == {"time": "2026-01-01T12:00:00Z", "workingSetBytes": 1 << 20}
    assert idle["containers"] == [{"name": "main", "startTime": "2026-01-01T11:00:00Z"}]
