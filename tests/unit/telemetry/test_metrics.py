from prometheus_client.parser import text_string_to_metric_families

from runyard import __version__
from runyard.telemetry import Metrics

LABELS = {"method", "route", "status", "state", "loop", "version", "le"}


def test_runs_are_counted_by_state_when_set() -> None:
    metrics = Metrics()
    metrics.set_runs({"RUNNING": 3, "READY": 1})
    metrics.set_runs({"COMPLETED": 4})
    text = metrics.render().decode()
    assert 'runyard_runs{state="COMPLETED"} 4.0' in text
    assert "RUNNING" not in text
    assert f'runyard_build_info{{version="{__version__}"}} 1.0' in text


def test_failures_of_loops_are_counted_when_they_are_begun_again() -> None:
    metrics = Metrics()
    metrics.count_failure("reconcile")
    metrics.count_failure("reconcile")
    assert 'runyard_loop_failures_total{loop="reconcile"} 2.0' in metrics.render().decode()


def test_labels_are_the_known_ones_when_everything_was_used() -> None:
    metrics = Metrics()
    metrics.set_runs({"READY": 1})
    metrics.count_request(method="GET", route="/x/{id}", status=200, seconds=0.1)
    metrics.count_request(method="\u2620", route=None, status=None, seconds=0.1)
    metrics.count_failure("sweep")
    families = list(text_string_to_metric_families(metrics.render().decode()))
    assert {label for family in families for sample in family.samples for label in sample.labels} <= LABELS
    assert all(family.documentation for family in families)


def test_registries_are_apart_when_there_are_two() -> None:
    one, other = Metrics(), Metrics()
    one.count_sent(5)
    assert "runyard_http_sent_bytes_total 0.0" in other.render().decode()
