"""The scheduler's messages, taken apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.pods.scheduler_message import MOST_OBSTACLES, ObstacleKind, read_scheduler_message

PREEMPTION = "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."


@pytest.mark.parametrize(
    ("message", "kind", "text"),
    [
        (
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector. "
            + PREEMPTION,
            ObstacleKind.RESOURCES,
            "no node fits (3 nodes): 1 has too little CPU free; 2 do not match node_selector or affinity",
        ),
        (
            "0/3 nodes are available: 3 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }. "
            + PREEMPTION,
            ObstacleKind.PLACEMENT,
            (
                "no node fits (3 nodes): 3 have the taint node-role.kubernetes.io/control-plane,"
                " which the run does not tolerate"
            ),
        ),
        (
            "0/2 nodes are available: 1 node(s) had untolerated taint {gpu: a100}, 1 node(s) were unschedulable.",
            ObstacleKind.PLACEMENT,
            (
                "no node fits (2 nodes): 1 has the taint gpu=a100, which the run does not tolerate;"
                " 1 is cordoned (takes no new pods)"
            ),
        ),
        (
            "0/2 nodes are available: 2 node(s) had untolerated taint(s). no new claims to deallocate, " + PREEMPTION,
            ObstacleKind.PLACEMENT,
            "no node fits (2 nodes): 2 have a taint, which the run does not tolerate",
        ),
        (
            "0/1 nodes are available: 1 Insufficient cpu. " + PREEMPTION,
            ObstacleKind.RESOURCES,
            "no node fits (1 node): 1 has too little CPU free",
        ),
        (
            "0/4 nodes are available: 1 Too many pods, 3 Insufficient nvidia.com/gpu.",
            ObstacleKind.RESOURCES,
            "no node fits (4 nodes): 1 has as many pods as it may; 3 have too little nvidia.com/gpu free",
        ),
        (
            "0/2 nodes are available: 1 Insufficient memory, 1 node(s) had volume node affinity conflict.",
            ObstacleKind.VOLUMES,
            (
                "no node fits (2 nodes): 1 has too little memory free; 1 cannot reach a volume of the run,"
                " which is in another zone or on another node"
            ),
        ),
        (
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
            ObstacleKind.VOLUMES,
            "no node fits (1 node): a claim of the run is not bound",
        ),
        (
            "0/1 nodes are available: 1 something new of a plugin.",
            ObstacleKind.OTHER,
            "no node fits (1 node): 1 something new of a plugin",
        ),
        ("0/0 nodes are available: .", ObstacleKind.OTHER, "no node fits (0 nodes)"),
    ],
)
def test_nodes_are_counted_by_what_they_lack_when_none_fits(message: str, kind: ObstacleKind, text: str) -> None:
    found = read_scheduler_message(message)
    assert found is not None
    assert (found.kind, found.text) == (kind, text)


@pytest.mark.parametrize("message", ["", "no nodes available to schedule pods", "1/3 nodes are available: x"])
def test_nothing_is_read_when_the_message_is_another(message: str) -> None:
    assert read_scheduler_message(message) is None


def test_message_is_short_when_there_are_very_many_obstacles() -> None:
    parts = ", ".join(f"{number} node(s) had untolerated taint {{k{number}: v}}" for number in range(1, 200))
    found = read_scheduler_message(f"0/9 nodes are available: {parts}.")
    assert found is not None
    assert found.text.count(";") == MOST_OBSTACLES
    assert found.text.endswith("more reasons")


@given(st.text(alphabet="0123456789 ,.{}:()nodeInsufficientcpuavailable/", max_size=300))
def test_nothing_is_raised_when_the_message_is_garbage(rest: str) -> None:
    found = read_scheduler_message(f"0/3 nodes are available: {rest}")
    assert found is not None
    assert found.text.startswith("no node fits (3 nodes)")
