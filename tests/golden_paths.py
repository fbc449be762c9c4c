"""The golden paths by `runyard` and by the SDK, for servers with any engine. Two modules of tests run them."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import runyard as ry
from tests.core_process import Ended, call_runyard

SECONDS = 90.0
CODE = """
import json
import os
import pathlib
import time
import urllib.request


def greet(name: str):
    print(f"hello {name}")
    return {"greeting": f"hello {name}"}


def fail():
    print("before", flush=True)
    raise ValueError("no luck")


def count():
    number = 0
    while True:
        print(f"line {number}", flush=True)
        number += 1
        time.sleep(0.1)


def train(context, points: pathlib.Path):
    pairs = [line.split(",") for line in points.read_text().splitlines()]
    slope = sum(float(x) * float(y) for x, y in pairs) / sum(float(x) ** 2 for x, _ in pairs)
    context.log_metric("slope", slope)
    pathlib.Path("line.json").write_text(json.dumps({"slope": slope}))
    context.log_model("line", "line.json")
    return {"slope": slope}


def load(context, model: pathlib.Path):
    context.slope = json.loads(model.read_text())["slope"]


def predict(context, x: float):
    return {"y": context.slope * x}


def ask(url: str, x: float):
    request = urllib.request.Request(url, json.dumps({"x": x}).encode(), {"Content-Type": "application/json"})
    for _ in range(60):
        try:
            return json.load(urllib.request.urlopen(request, timeout=10))
        except OSError:
            time.sleep(0.5)  # kube-proxy learns of the service a moment later


def write(path: str):
    pathlib.Path(path).write_text(os.environ["GOLDEN_TOKEN"][::-1])
    print("the secret has", len(os.environ["GOLDEN_TOKEN"]), "letters")


def read(path: str):
    return {"text": pathlib.Path(path).read_text()}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A server, a client of it, and how commands find it. The user's files are in `folder`."""

    client: ry.Client
    environment: Mapping[str, str]
    folder: Path
    more: Mapping[str, Any] = field(default_factory=dict)
    """What runs with volumes need on this engine."""
    project: str = "golden"

    def call(self, *words: str, given: str = "") -> Ended:
        """A command of `runyard`, as a process of its own."""
        where = {"RUNYARD_PROJECT": self.project, "HOME": str(self.folder), **self.environment}
        return call_runyard(*words, environment=where, given=given)

    def succeed(self, *words: str, given: str = "") -> Ended:
        """A command that must exit with 0."""
        done = self.call(*words, given=given)
        assert done.code == 0, (words, done)
        return done

    def write_run(self, name: str, handler: str, **fields: Any) -> str:
        """A run file of a function of `CODE`; its path."""
        (self.folder / "code.py").write_text(CODE)
        path = self.folder / f"{name}.yaml"
        source = {"source": "code.py", "handler": handler, **fields.pop("source", {})}
        path.write_text(json.dumps({"name": name, "source": source, "resources": {"mem": "128Mi"}, **fields}))
        return str(path)

    def get_project(self) -> ry.Project:
        """The project of the paths."""
        return self.client.get_or_create_project(self.project)

    def get_run(self, run_id: str) -> ry.Run:
        """A run of it."""
        return self.get_project().get_run(run_id)

    def start(self, handler: str, **arguments: Any) -> ry.Run:
        """A run of a function of `CODE`, by the SDK."""
        func = self.get_project().new_function(handler, code=CODE, handler=handler)
        return func.run(resources={"mem": "128Mi"}, **arguments)


def follow_jobs(place: Place) -> None:
    """A job that completes, and one that fails: log, outcome, exit code, and what is told of them."""
    good = place.succeed("run", "-f", place.write_run("greet", "greet", parameters={"name": "Ada"}), "--yes")
    assert good.out.splitlines()[-1] == "hello Ada"
    assert "result greeting: hello Ada" in good.err
    assert "resources.mem" in good.err, "the plan"
    bad = place.call("run", "-f", place.write_run("fail", "fail"), "--yes")
    assert (bad.code, "before" in bad.out, "ValueError: no luck" in bad.err) == (3, True, True), bad
    newest = place.succeed("ps", "--all", "-o", "name").out.split()[0]
    failed = place.get_run(newest)
    assert (failed.state, failed.reason, failed.has_failed) == ("ERROR", "run.failed", True)
    assert place.call("wait", newest).code == 3
    assert place.succeed("why", newest).out.startswith(f"run {newest} is ERROR: run.failed")
    assert '"status": "ERROR"' in place.succeed("events", newest, "-o", "json").out
    assert place.succeed("rm", newest, "--yes").out == f"deleted: {newest}\n"
    assert place.call("describe", newest).code == 1


def follow_a_log(place: Place) -> None:
    """A log that is followed while the run goes on, by command and SDK, until somebody stops the run."""
    run_id = place.succeed("run", "-f", place.write_run("count", "count"), "--yes", "--detach").out.strip()
    lines = []
    for line in place.get_run(run_id).logs(follow=True, container="main"):
        lines.append(line)
        if line == "line 9":
            stopped = place.succeed("stop", run_id, "--yes", "--reason", "enough")
            assert run_id in stopped.out
    numbered = [line for line in lines if line.startswith("line ")]  # a traceback may follow
    assert numbered == [f"line {number}" for number in range(len(numbered))], lines
    assert len(numbered) >= 10
    followed = place.call("logs", "-f", run_id, "--container", "main")
    assert (followed.code, followed.out.splitlines()) == (3, lines)
    assert place.get_run(run_id).state == "STOPPED"


def serve_a_trained_model(place: Place) -> None:
    """An uploaded input, a job that trains and logs a model, a service with it that is stopped, resumed and removed."""
    (place.folder / "points.csv").write_text("1,2\n2,4\n3,6\n")
    key = place.succeed("artifact", "put", "points", str(place.folder / "points.csv"), "--type", "dataitem").out.strip()
    trained = place.start("train", inputs={"points": key}).wait(check=True, timeout=SECONDS)
    assert (trained.results, trained.metrics()) == ({"slope": 2.0}, {"slope": [2.0]})
    model = place.get_project().get_model("line")
    assert trained.outputs["line"] == model.key
    assert json.loads(model.download(place.folder / "model").read_text()) == {"slope": 2.0}
    source = {"init_function": "load"}
    file = place.write_run("predict", "predict", action="serve", source=source, inputs={"model": model.key})
    service = place.succeed("run", "-f", file, "--yes", "--detach").out.strip()
    place.succeed("wait", service, "--timeout", "90s")
    assert ask(place, service) == {"y": 42.0}
    place.succeed("stop", service, "--yes")
    assert place.get_run(service).state == "STOPPED"
    place.succeed("resume", service)
    place.succeed("wait", service, "--timeout", "90s")
    assert ask(place, service) == {"y": 42.0}
    place.get_run(service).stop().wait(until="end", timeout=SECONDS)
    place.succeed("rm", service, "--yes")
    wait_until_gone(place, service)


def keep_what_a_secret_wrote(place: Place) -> None:
    """A secret by standard input, and a volume that outlives the run that made it."""
    place.get_project()
    place.succeed("secret", "set", "GOLDEN_TOKEN", "--stdin", given="s3cr3t\n")
    volume = {"name": "notes", "mount_path": "/notes", "volume_type": "persistent_volume_claim"}
    made = {**volume, "spec": {"size": "1Gi", "lifetime": "keep"}}
    wrote = place.start(
        "write", parameters={"path": "/notes/a"}, secrets=["GOLDEN_TOKEN"], volumes=[made], **place.more
    ).wait(check=True, timeout=SECONDS)
    assert wrote.logs(container="main") == "the secret has 6 letters\n"
    (claim,) = [each.name for each in place.get_project().list_volumes() if each.kind == "claim"]
    assert claim in place.succeed("volume", "ls", "-o", "name").out.split()
    shared = {**volume, "volume_type": "shared_volume", "spec": {"claim_name": claim}}
    read = place.start("read", parameters={"path": "/notes/a"}, volumes=[shared], **place.more)
    assert read.wait(check=True, timeout=SECONDS).results == {"text": "t3rc3s"}
    place.succeed("secret", "rm", "GOLDEN_TOKEN", "--yes")
    refused = place.call("run", "-f", place.write_run("again", "write", secrets=["GOLDEN_TOKEN"]), "--yes")
    assert (refused.code, "GOLDEN_TOKEN" in refused.err) == (1, True)


def ask(place: Place, service: str) -> Any:
    """What a service answers to a run that asks it: its address may be one of the cluster alone."""
    url = place.get_run(service).service_url
    assert url is not None
    return place.start("ask", parameters={"url": url, "x": 21}).wait(check=True, timeout=SECONDS).results


def wait_until_gone(place: Place, run_id: str) -> None:
    """Until a run that was deleted is gone."""
    deadline = time.monotonic() + SECONDS
    while run_id in [run.id for run in place.get_project().list_runs()]:
        assert time.monotonic() < deadline, run_id
        time.sleep(0.1)
