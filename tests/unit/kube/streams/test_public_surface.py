"""What `runyard.kube.streams` offers is decided, not grown."""

import ast
from pathlib import Path

from runyard.kube import streams

PUBLIC = [
    "CommandNotFound",
    "CommandNotStarted",
    "ContainerInstance",
    "ContainerUnspecified",
    "ContainerWaiting",
    "ExecResult",
    "ExecSession",
    "GapCause",
    "HalfCloseUnsupported",
    "LogBlock",
    "LogFollow",
    "LogGap",
    "LogLine",
    "LogPosition",
    "LogsRotated",
    "LogsUnavailable",
    "LogsUnconfirmed",
    "LogsUnwatched",
    "NotRunning",
    "Output",
    "OutputTooLarge",
    "PortConnection",
    "PortForwardFailed",
    "PortRefused",
    "PreviousNotFound",
    "StreamSession",
    "UnknownContainer",
    "attach_to_pod",
    "exec_in_pod",
    "follow_logs",
    "forward_port",
    "list_instances",
    "listen_and_forward",
    "read_logs",
    "run_command",
]


def test_names_are_the_agreed_ones_when_the_package_is_listed() -> None:
    assert sorted(streams.__all__) == PUBLIC
    assert all(hasattr(streams, name) for name in PUBLIC)


def test_every_error_is_public_when_it_can_be_raised() -> None:
    errors = Path(streams.errors.__file__ or "")
    assert {node.name for node in ast.parse(errors.read_text()).body if isinstance(node, ast.ClassDef)} <= set(PUBLIC)
