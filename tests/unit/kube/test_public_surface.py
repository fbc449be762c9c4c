"""What `runyard.kube` offers is decided, not grown."""

import ast
import subprocess
import sys
from pathlib import Path

import runyard.kube

PUBLIC = [
    "AlreadyExists",
    "ApiError",
    "BadRequest",
    "Cause",
    "Client",
    "ClusterConfig",
    "ConfigError",
    "Conflict",
    "DeadlineExceeded",
    "Disconnected",
    "ElectionTiming",
    "Forbidden",
    "Gone",
    "Invalid",
    "Key",
    "KubeError",
    "LeaderElection",
    "Leadership",
    "LeadershipLost",
    "Listing",
    "Malformed",
    "Metadata",
    "MethodNotAllowed",
    "NotAcceptable",
    "NotFound",
    "NotServed",
    "Object",
    "Priority",
    "RateLimit",
    "Reflector",
    "ReflectorStopped",
    "Resource",
    "ServerError",
    "Stalled",
    "Store",
    "Subscription",
    "Throttled",
    "Tombstone",
    "TooLarge",
    "Transport",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "UnsupportedMediaType",
    "Untrusted",
    "View",
    "load_config",
    "load_in_cluster",
    "load_kubeconfig",
]


def test_names_are_the_agreed_ones_when_the_package_is_listed() -> None:
    assert sorted(runyard.kube.__all__) == PUBLIC
    assert all(hasattr(runyard.kube, name) for name in PUBLIC)


def test_every_error_is_public_when_it_can_be_raised() -> None:
    errors = Path(runyard.kube.errors.__file__ or "")
    names = {node.name for node in ast.parse(errors.read_text()).body if isinstance(node, ast.ClassDef)}
    assert {name for name in names if not name.startswith("_")} <= set(PUBLIC)


def test_nothing_happens_when_the_package_is_imported() -> None:
    script = (
        "import asyncio, threading, sys\n"
        "asyncio.new_event_loop = asyncio.get_event_loop = None\n"
        "import runyard.kube\n"
        "assert threading.active_count() == 1\n"
        "mine = {name.split('.')[1] for name in sys.modules if name.startswith('runyard.')}\n"
        "assert mine == {'kube'}, mine\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
