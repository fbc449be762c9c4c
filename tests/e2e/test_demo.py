"""`make demo`, the first command of the README that starts a server."""

import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


def test_every_step_is_shown_for_people_when_the_demo_runs() -> None:
    shown = subprocess.run([sys.executable, DEMO], capture_output=True, text=True, timeout=120, check=False)
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert "resources.mem.requests 64Gi profile 1xa100 instead of 6Gi (you)" in lines
    assert (
        'tolerations[0] {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} profile 1xa100' in lines
    )
    assert "timeout 3d policy" in lines
    assert any(line.endswith("did you mean: 6Gi") for line in lines)
    assert lines[-1] == "1 refused"
