"""Byte streams of a pod through the apiserver: logs, exec and attach, port-forward.

Every function takes the client first, then the pod. Start with `run_command` (a command, its output and
exit code), `exec_in_pod` (the same as a conversation), `read_logs` and `follow_logs`, `forward_port`.
What goes wrong is typed: `streams.errors` for what only streams know, `kube.errors` for the rest.
No command or connection is ever repeated, and nothing is read ahead: who reads slowly slows the sender down.
May import what `runyard.kube` may; knows nothing of runs.
"""

from runyard.kube.streams.command import ExecResult, run_command
from runyard.kube.streams.errors import (
    CommandNotFound,
    CommandNotStarted,
    ContainerUnspecified,
    ContainerWaiting,
    GapCause,
    HalfCloseUnsupported,
    LogGap,
    LogsRotated,
    LogsUnavailable,
    LogsUnconfirmed,
    LogsUnwatched,
    NotRunning,
    OutputTooLarge,
    PortForwardFailed,
    PortRefused,
    PreviousNotFound,
    UnknownContainer,
)
from runyard.kube.streams.exec import ExecSession, Output, StreamSession, attach_to_pod, exec_in_pod
from runyard.kube.streams.follow import LogFollow, follow_logs
from runyard.kube.streams.instances import ContainerInstance, list_instances
from runyard.kube.streams.listener import listen_and_forward
from runyard.kube.streams.loglines import LogBlock, LogLine, LogPosition
from runyard.kube.streams.logs import read_logs
from runyard.kube.streams.portforward import PortConnection, forward_port

__all__ = [
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
