"""What the server sets before it starts."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Never

import pytest

from runyard import bootstrap
from runyard.app.engine import EngineUnavailable
from runyard.domain.reasons import Reason
from runyard.engines.kubernetes import kubernetes_engine
from runyard.engines.kubernetes.kubernetes_settings import ProjectLimits
from runyard.settings import read_settings

ALLOCATED_KIB = 400 * 256
PROGRAM = """
import sys
from pathlib import Path
from runyard.bootstrap import map_large_buffers

def read_resident_kib():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0])

if sys.argv[1] == "mapped":
    map_large_buffers()
before, kept = read_resident_kib(), []
for _ in range(2):
    buffers = []
    for _ in range(400):
        buffers.append(bytearray(256 * 1024))
        kept.append(bytes(2000))
    del buffers
print(read_resident_kib() - before)
"""


@pytest.mark.parametrize("how", ["mapped", "default"])
def test_memory_of_large_buffers_is_given_back_when_they_are_freed(how: str) -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
    is_kept = int(ended.stdout) > ALLOCATED_KIB / 2
    assert is_kept is (how == "default")


def test_limits_of_projects_reach_the_engine_when_an_operator_sets_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[ProjectLimits] = []

    async def open_engine(*, project_limits: Mapping[str, Any], **_: object) -> Never:
        opened.append(ProjectLimits(**project_limits))
        raise EngineUnavailable(Reason.ENGINE_FAILED, "that was all")

    monkeypatch.setattr(kubernetes_engine, "open_engine", open_engine)
    for name in ("set_up_logging", "map_large_buffers"):  # they change this process
        monkeypatch.setattr(bootstrap, name, lambda **_: None)
    for networks in ("10.1.0.0/16", "all"):
        flags = {
            "project_quota": "requests.cpu=20,count/jobs.batch=500",
            "project_default_requests": "cpu=100m",
            "project_default_limits": "memory=1Gi",
            "project_networks": networks,
        }
        kubernetes: dict[str, str | bool | None] = {
            "engine": "kubernetes",
            "namespace_per_project": True,
            "endpoint": "https://runyard.example.org",
        }
        loaded = read_settings({**kubernetes, **flags, "data": str(tmp_path), "port": "0"}, environment={})
        with pytest.raises(bootstrap.CannotStart, match="--engine kubernetes: that was all"):
            bootstrap.serve(loaded.settings)
    limits: dict[str, Any] = {
        "quota": {"requests.cpu": "20", "count/jobs.batch": "500"},
        "default_requests": {"cpu": "100m"},
        "default_limits": {"memory": "1Gi"},
    }
    assert opened == [
        ProjectLimits(**limits, reachable_networks=("10.1.0.0/16",)),
        ProjectLimits(**limits, is_network_isolated=False),
    ]
