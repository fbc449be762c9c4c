"""A demonstration of one minute: `make demo`. It needs no cluster and no account, and leaves nothing behind.

It starts a server in a temporary directory with the profiles and the policy beside this file. Over HTTP it asks what a
run would get, why another is refused, and what a stricter policy would change.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from runyard.spec.figures import format_figure

HERE = Path(__file__).parent
RUNYARD = Path(sys.executable).parent / "runyard"
START_SECONDS = 30


def main() -> int:
    """Start a server, show its answers, and stop it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(RUNYARD), "server", "--port", "0", "--data", folder, "--log-level", "warning"]
        command += ["--profiles", str(HERE / "profiles"), "--policy", str(HERE / "policy.yaml")]
        say("Start a server: SQLite in a temporary directory, loopback only, no accounts")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                return show(wait_for(server))
            finally:
                server.terminate()


def wait_for(server: "subprocess.Popen[str]") -> str:
    """Read the URL that the server prints when it listens."""
    deadline = time.monotonic() + START_SECONDS
    while server.stdout is not None and time.monotonic() < deadline:
        line = server.stdout.readline()
        print(f"  {line.rstrip()}")
        if found := re.search(r"http://\S+", line):
            return found.group()
        if not line:
            break
    raise SystemExit("the server did not start")


def show(url: str) -> int:
    """Run all steps; returns 0 if the repeated submit made one run."""
    say("Create a project, a function and a task")
    ask(url, "POST", "/api/v1/projects", {"kind": "project", "name": "vision"})
    image = "registry.example.org/train:1"
    function = {"kind": "container", "name": "train", "id": "f1", "spec": {"image": image}}
    ask(url, "POST", "/api/v1/-/vision/functions", function)
    task = {"kind": "container+job", "id": "t1", "spec": {"function": "container://vision/train:f1"}}
    ask(url, "POST", "/api/v1/-/vision/tasks", task)

    spec = {"task": "container+job://vision/t1", "profile": "1xa100", "resources": {"mem": "6Gi"}}
    run = {"kind": "container+job:run", "id": "r1", "spec": spec}
    say("What would this run get, and who decides each value? (POST …/runs/explain)")
    for leaf in ask(url, "POST", "/api/v1/-/vision/runs/explain", run)["provenance"]:
        replaced = ", ".join(f"{other['value']} ({other['by']})" for other in leaf["replaced"])
        given = leaf["value"]
        value = format_figure(leaf["path"], given) if isinstance(given, str | int) else json.dumps(given)
        print(f"  {leaf['path']:24} {value:30} {leaf['source']:18} {replaced and 'instead of ' + replaced}".rstrip())

    say("Submit it twice with the same id: one run is stored")
    first, again = (ask(url, "POST", "/api/v1/-/vision/runs", run) for _ in range(2))
    print(f"  {first['id']} is {first['status']['state']}: {first['status']['message']}")
    for warning in first["status"].get("warnings", []):
        print(f"  warning: {warning['path']}: {warning['message']}")

    say("A typo is refused, with the nearest valid name")
    wrong = {**run, "id": "r2", "spec": {**spec, "profile": "1xa10", "resources": {"mem": "6Gb"}}}
    refused = ask(url, "POST", "/api/v1/-/vision/runs", wrong, status=400)
    print("\n".join(f"  {line}" for line in refused["message"].splitlines()))

    say("What would a stricter policy change? (POST /api/v1/policy/rehearse)")
    policy = {"resources.mem": {"max": "32Gi"}}
    counts = ask(url, "POST", "/api/v1/policy/rehearse", {"policy": policy})["counts"]
    print("  " + ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in counts.items() if count))
    return 0 if first == again else 1


def ask(url: str, method: str, path: str, body: dict[str, Any], *, status: int = 200) -> Any:
    """Send a request and return the response's JSON; exits if the status is not the expected one."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}{path}", json.dumps(body).encode(), headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            found, content = answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        found, content = error.code, json.load(error)
    if found != status:
        raise SystemExit(f"{method} {path}: {found} {content}")
    return content


def say(text: str) -> None:
    """Print a heading."""
    print(f"\n== {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
