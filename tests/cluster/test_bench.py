"""The bench of the cluster, as small as it can be: so that it still runs when it is needed."""

import pytest

from bench import log_following
from bench.cluster.section import Sizes, measure

SMALLEST = Sizes(queue=8, submits=4, restarted=8, restart_changed=2, followers=2, follow_seconds=2.0)


@pytest.mark.kubernetes
@pytest.mark.timeout(600)
def test_server_and_raw_client_stand_side_by_side_when_the_bench_is_run() -> None:
    section = measure(SMALLEST, only=["submit", "queue"])
    visible, queue = section.tables
    assert [row[0] for row in visible.rows] == ["p50", "p99"]
    assert all(float(cell) > 0 for row in visible.rows for cell in row[1:])
    assert [row[:2] for row in queue.rows] == [
        ["raw loop, the same writes", 8.0],
        ["server", 8.0],
        ["raw loop, Jobs only created", 8.0],
    ]
    assert all(float(row[3]) > 0 for row in queue.rows)
    assert [goal.text for goal in section.goals] == ["≤ 3", "≤ 3", "≥ 0.6"]


@pytest.mark.kubernetes
@pytest.mark.timeout(600)
def test_restarts_are_timed_when_the_bench_is_run() -> None:
    section = measure(SMALLEST, only=["restart"])
    (table,) = section.tables
    assert [row[0] for row in table.rows] == ["6 active, 2 ended meanwhile", "4 active, 2 ended meanwhile"]
    assert all(0 < float(row[1]) <= float(row[2]) for row in table.rows)
    assert [goal.text for goal in section.goals] == ["≤ 10"]


@pytest.mark.kubernetes
@pytest.mark.timeout(600)
def test_followed_lines_are_timed_when_the_bench_is_run() -> None:
    section = measure(SMALLEST, only=["follow"])
    (table,) = section.tables
    assert [row[0] for row in table.rows] == ["quiet", "beside a flood"]
    assert all(float(cell) > 0 for row in table.rows for cell in row[1:])
    assert [goal.text for goal in section.goals] == ["≤ 1", "≤ 1"]


@pytest.mark.kubernetes
@pytest.mark.timeout(600)
def test_logs_are_followed_to_their_end_when_the_bench_is_run() -> None:
    section = log_following.measure(lines=1000, rounds=1)
    (table,) = section.tables
    assert [(row[0], row[3]) for row in table.rows] == [
        (log_following.KUBECTL, 100_000),
        (log_following.ENGINE, 100_000),
        (log_following.SERVER, 100_000),
    ]
    assert [goal.text for goal in section.goals] == ["≤ 2", "≤ 2"]
