"""The CustomResourceDefinitions of the Gateway API, out of its Go module, whose version and sum are pinned."""

import json
import re
import shutil
import subprocess
from pathlib import Path

from testbed.errors import TestbedError

MODULE = "sigs.k8s.io/gateway-api"
KINDS = ("gatewayclasses", "gateways", "httproutes", "grpcroutes", "referencegrants", "backendtlspolicies")
"""Of the standard channel. A controller that watches all of them starts only where all are served."""
_FOLDER = Path(__file__).parent / "go" / "gateway"


def ensure_gateway_definitions() -> list[Path]:
    """The files of `KINDS`, downloaded into Go's module cache at the first call. Idempotent."""
    pinned = re.search(rf"^{re.escape(MODULE)} (\S+) (h1:\S+)$", (_FOLDER / "go.sum").read_text(), re.MULTILINE)
    command = shutil.which("go")
    if pinned is None or command is None:
        raise TestbedError(f"{MODULE} is downloaded by go, and there is none on PATH: install it")
    asked = subprocess.run(
        [command, "mod", "download", "-json", f"{MODULE}@{pinned[1]}"],
        cwd=_FOLDER,
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode != 0:
        raise TestbedError(
            f"{MODULE} {pinned[1]} cannot be downloaded: {(asked.stderr or asked.stdout).strip()[-500:]}"
        )
    found = json.loads(asked.stdout)
    if found["Sum"] != pinned[2]:
        raise TestbedError(f"{MODULE} {pinned[1]} has the sum {found['Sum']}, not {pinned[2]}")
    folder = Path(found["Dir"]) / "config/crd/standard"
    return [folder / f"gateway.networking.k8s.io_{kind}.yaml" for kind in KINDS]
