"""The demo, step by step. Each step checks what it shows, and raises `DemoFailed` if the product does otherwise."""

import json
import re
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from examples.demo.console import Console, DemoFailed, define_api
from examples.demo.stage import ServerFolder
from runyard.spec.figures import format_figure

LONGEST_WAIT_SECONDS = 120.0
POLL_SECONDS = 0.2
MOST_TRIES = 4
"""How often the memory example may follow the advice that it gets."""
FINAL = {"COMPLETED", "ERROR", "STOPPED"}
PYTHON = f"PYTHON3_{sys.version_info.minor}"
RUNS = "$URL/-/demo/runs"
CREATE = """create() {  # NAME FILE HANDLER ACTION: a function and its task
  api $URL/-/demo/functions --data '{"kind": "python", "name": "'$1'", "id": "'$1'", "spec": {
    "python_version": "PYTHON", "source": {"handler": "'$3'", "base64": "'$(base64 -w0 $2)'"}}}'
  api $URL/-/demo/tasks --data '{"kind": "python+'$4'", "id": "'$1'", "spec": {"function": "python://demo/'$1:$1'"}}'
}"""


@dataclass(frozen=True)
class Story:
    """All steps, against one server."""

    console: Console
    stage: ServerFolder
    rules: str = "examples/rules"
    """The folder of the policies."""

    def tell(self, url: str) -> None:
        """Everything, in order."""
        self.console.define(f"URL={url}/api/v1")
        self.define_api()
        self.train()
        self.explain()
        self.refuse()
        self.run_out_of_memory()
        self.stop()
        self.rehearse()
        self.serve()

    def define_api(self) -> None:
        """The command that sends a request."""
        define_api(self.console)

    def train(self) -> None:
        """A job with an input file, metrics, a result and a model."""
        console = self.console
        console.title("Train a model: readings of machines go in, a classifier comes out")
        self._do("""api $URL/projects --data '{"kind": "project", "name": "demo"}'""")
        console.tell("The data is a file that the server stores:")
        console.run(f"python examples/training/make_readings.py > {self.stage.folder}/readings.csv")
        self._do("""api $URL/-/demo/dataitems --data '{"kind": "dataitem", "name": "readings", "id": "readings"}'""")
        path = "$URL/-/demo/dataitems/readings/files/content/readings.csv"
        self._do(f"api {path} --upload-file {self.stage.folder}/readings.csv")
        console.tell("The code is a function, and a task says what to do with it:")
        self._do(
            """api $URL/-/demo/functions --data '{"kind": "python", "name": "train", "id": "train", "spec": {\n"""
            f"""  "python_version": "{PYTHON}",\n"""
            """  "source": {"handler": "train", "base64": "'$(base64 -w0 examples/training/train.py)'"}}}'"""
        )
        self._do(
            """api $URL/-/demo/tasks --data '{"kind": "python+job", "id": "train", "spec": {"""
            """"function": "python://demo/train:train"}}'"""
        )
        console.tell("Run it, with a profile of the admin's, and follow its log until it ends:")
        run = self._submit("train-1", "train", TRAINING)
        console.answer(f"state {run['status']['state']}")
        console.follow(f'api "{RUNS}/train-1/log?follow=true&container=main"')
        status = self._show("train-1", expected="COMPLETED")
        console.answer(
            [f"result  accuracy {status['results']['accuracy']}", f"output  model {status['outputs']['model']}"]
        )
        metrics = console.ask(f"api {RUNS}/train-1/metrics")
        console.answer(f"loss {' '.join(f'{value:.3f}' for value in metrics['loss'])}")

    def explain(self) -> None:
        """The profile's value beside the user's."""
        console = self.console
        console.title("Who decided what it got? The run asked for 6Gi; the profile `small` wins, and says so")
        found = console.ask(f"api {RUNS}/train-1/effective")
        rows = [leaf for leaf in found["provenance"] if leaf["path"].startswith(("resources", "timeout", "profile"))]
        console.answer(_format_leaf(leaf) for leaf in rows)
        warnings = self.console.poll(f"api {RUNS}/train-1")["status"].get("warnings", [])
        console.answer(f"warning: {each['path']}: {each['message']}" for each in warnings)
        if not any("6Gi" in str(leaf.get("replaced")) for leaf in rows):
            raise DemoFailed(f"no value was replaced: {rows}")

    def refuse(self) -> None:
        """Typos, answered at once."""
        console = self.console
        console.title("A request that is wrong is refused before anything starts, with what was probably meant")
        refused = console.ask(_to_submit("train-2", "train", {"profile": "smal", "resources": {"mem": "6Gb"}}))
        if refused.get("status") != 400:
            raise DemoFailed(f"not refused: {refused}")
        console.answer(refused["message"])

    def run_out_of_memory(self) -> None:
        """The limit holds; the message has the figures and the next request to try, which works."""
        console = self.console
        console.title("A run that needs more memory than it asked for is told what to ask for")
        console.define(CREATE.replace('"PYTHON"', f'"{PYTHON}"'))
        console.run("create nearest examples/memory/nearest.py find_nearest job > /dev/null")
        memory = "64Mi"
        for number in range(1, MOST_TRIES + 1):
            run = f"nearest-{number}"
            self._submit(run, "nearest", {"resources": {"mem": memory}})
            console.follow(f'api "{RUNS}/{run}/log?follow=true&container=main"')
            status = self._show(run)
            if status["state"] == "COMPLETED":
                console.answer(f"result  distance {status['results']['distance']}")
                break
            advised = re.search(r"try resources\.mem: (\S+)", status["message"])
            if status["reason"] != "memory.exceeded" or advised is None:
                raise DemoFailed(f"{run} was not told what to ask for: {status}")
            memory = advised[1]
            console.tell(f"It says what to ask for. Again, with {memory}:")
        if number == 1 or status["state"] != "COMPLETED":
            raise DemoFailed(f"{run}: {status}")
        self.show_enforcement(run)

    def show_enforcement(self, run: str) -> None:
        """What holds the limit on this machine."""
        described = self.console.ask(f'api "{RUNS}/{run}?describe=true"')["status"]["k8s"]["supervisor"]["enforced"]
        self.console.answer(f"the memory limit is enforced by: {described['memory']}")

    def stop(self) -> None:
        """A job that would run for ever, stopped with grace."""
        console = self.console
        console.title("Stop a run: it gets SIGTERM and time to finish; then its whole process tree is ended")
        console.run("create search examples/stopping/search.py search job > /dev/null")
        self._submit("search-1", "search", {})
        self._wait("search-1", lambda status: status["state"] == "RUNNING")
        self._wait_for_log("search-1", "guess 3")
        self._do(f"api --request POST {RUNS}/search-1/stop")
        lines = console.follow(f'api "{RUNS}/search-1/log?follow=true&container=main"')
        self._show("search-1", expected="STOPPED")
        if not any(line.startswith("stopped after") for line in lines):
            raise DemoFailed("the run was ended without grace")

    def rehearse(self) -> None:
        """A stricter policy over the requests of the runs just made."""
        console = self.console
        console.title("Rehearse a stricter policy over the runs just made, before it is applied")
        policies = f"{self.rules}/policy.yaml {self.rules}/stricter-policy.yaml"
        console.answer(console.run(f"diff {policies}", codes=(1,)))
        requests = self.stage.folder / "requests.yaml"
        console.run(f"runyard db export-requests --data {self.stage.data} > {requests}")
        report = console.run(
            f"runyard policy diff {policies} \\\n  --profiles examples/rules/profiles --runs {requests}"
        )
        console.answer(report)
        if "refused" not in report:
            raise DemoFailed("the stricter policy refused no run")

    def serve(self) -> None:
        """The model behind an HTTP server."""
        console = self.console
        console.title("Serve the model, and ask it over HTTP")
        self._do(
            """api $URL/-/demo/functions --data '{"kind": "python", "name": "predict", "id": "predict", "spec": {\n"""
            f"""  "python_version": "{PYTHON}", "source": {{"handler": "predict", "init_function": "load",\n"""
            """  "base64": "'$(base64 -w0 examples/serving/predict.py)'"}}}'"""
        )
        self._do(
            """api $URL/-/demo/tasks --data '{"kind": "python+serve", "id": "predict", "spec": {"""
            """"function": "python://demo/predict:predict"}}'"""
        )
        model = self.console.poll(f"api {RUNS}/train-1")["status"]["outputs"]["model"]
        self._submit("predict-1", "predict", {"inputs": {"model": model}}, action="serve")
        self._wait("predict-1", lambda status: status["state"] == "RUNNING" and status.get("service"))
        status = self._show("predict-1", expected="RUNNING")
        url = status["service"]["url"]
        console.answer(f"url     {url}")
        answer = self.ask_service(url)
        if answer.get("state") != "failing":
            raise DemoFailed(f"not the prediction of the model: {answer}")

    def ask_service(self, url: str) -> Any:
        """Send readings to the model; returns what it answers."""
        answer = self.console.ask(f"api http://{url} --data '{json.dumps(READINGS)}'")
        self.console.answer(json.dumps(answer))
        return answer

    def _submit(self, run: str, task: str, spec: dict[str, Any], *, action: str = "job") -> Any:
        submitted = self.console.ask(_to_submit(run, task, spec, action=action))
        if submitted.get("id") != run:
            raise DemoFailed(f"{run} was not accepted: {submitted.get('message', submitted)}")
        return submitted

    def _do(self, command: str) -> Any:
        """A request of whose answer only the key is shown; raises `DemoFailed` if it is an error."""
        answer = self.console.ask(command)
        if isinstance(answer.get("status"), int):
            raise DemoFailed(f"{command}\n{json.dumps(answer)}")
        self.console.answer(answer.get("key", []))
        return answer

    def _show(self, run: str, *, expected: str | None = None) -> Any:
        """Print the state of a run, and why; its status."""
        status = self.console.ask(f"api {RUNS}/{run}")["status"]
        self.console.answer(_describe(status))
        if expected is not None and status["state"] != expected:
            raise DemoFailed(f"{run} is {status['state']}, not {expected}: {status.get('message')}")
        return status

    def _wait(self, run: str, is_reached: Any) -> None:
        """Until the run has reached something; raises `DemoFailed` if it ends or takes too long."""
        deadline = time.monotonic() + LONGEST_WAIT_SECONDS
        while not is_reached(status := self.console.poll(f"api {RUNS}/{run}")["status"]):
            if status["state"] in FINAL or time.monotonic() > deadline:
                raise DemoFailed(f"{run} is {status['state']}: {status.get('reason')} {status.get('message')}")
            time.sleep(POLL_SECONDS)

    def _wait_for_log(self, run: str, text: str) -> None:
        deadline = time.monotonic() + LONGEST_WAIT_SECONDS
        while text not in self.console.execute(f'api "{RUNS}/{run}/log"'):
            if time.monotonic() > deadline:
                raise DemoFailed(f"{run} has not printed {text}")
            time.sleep(POLL_SECONDS)


READINGS = {"temperature": 81.5, "vibration": 5.6, "pressure": 2.9}
TRAINING = {
    "profile": "small",
    "resources": {"mem": "6Gi"},
    "parameters": {"epochs": 300},
    "inputs": {"readings": "store://demo/dataitem/dataitem/readings:readings"},
}
"""What the training run asks for. The profile gives it less memory than it wants."""


def _to_submit(run: str, task: str, spec: dict[str, Any], *, action: str = "job") -> str:
    """The command that submits a run."""
    fields = "".join(f",\n  {json.dumps(name)}: {json.dumps(value)}" for name, value in spec.items())
    return (
        f"""api {RUNS} --data '{{"kind": "python+{action}:run", "id": "{run}", "spec": {{"""
        f""""task": "python+{action}://demo/{task}"{fields}}}}}'"""
    )


def _format_leaf(leaf: dict[str, Any]) -> str:
    replaced = ", ".join(f"{other['value']} ({other['by']})" for other in leaf["replaced"])
    value = format_figure(leaf["path"], leaf["value"])
    return f"{leaf['path']:24} {value:10} {leaf['source']:16} {replaced and 'instead of ' + replaced}"


def _describe(status: dict[str, Any]) -> Iterable[str]:
    """State, reason and message of a run, and how much memory it used."""
    yield "  ".join(filter(None, (status["state"], status.get("reason"))))
    if status.get("message"):
        yield str(status["message"])
    peaks = [end["peak_bytes"] for end in status.get("ends", []) if end.get("peak_bytes")]
    if peaks:
        yield f"memory  at most {max(peaks) / 2**20:.0f} MiB"
