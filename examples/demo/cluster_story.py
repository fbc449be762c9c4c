"""The steps of the demo that are different on a cluster."""

from dataclasses import dataclass
from typing import Any

from examples.demo.cluster_stage import ClusterStage
from examples.demo.console import DemoFailed, define_api
from examples.demo.story import READINGS, RUNS, Story


@dataclass(frozen=True)
class ClusterStory(Story):
    """The same story, told by pods."""

    stage: ClusterStage
    rules: str = "examples/kubernetes"

    def define_api(self) -> None:
        """With the account of the demo."""
        define_api(self.console, netrc=self.stage.netrc)

    def show_enforcement(self, run: str) -> None:
        """Show the Job of the run, once its status has followed that of its pod."""
        jobs = f"jobs -n {self.stage.namespace}"
        self.console.run(f"kubectl wait {jobs} -l runyard.io/run={run} --for=condition=complete --timeout=100s")
        command = f"kubectl get {jobs} -L runyard.io/run"
        lines = self.console.run(command).splitlines()
        self.console.answer(line for line in lines if line.startswith("NAME") or line.rstrip().endswith(run))
        if not any(line.rstrip().endswith(run) for line in lines):
            raise DemoFailed(f"no Job has the label of {run}")

    def ask_service(self, url: str) -> Any:
        """By another run: the address is one of the cluster."""
        self.console.tell("The address is one of the cluster. Another run asks there:")
        self.console.run("create ask examples/serving/ask.py ask job > /dev/null")
        self._submit("ask-1", "ask", {"parameters": {"url": url, "readings": READINGS}})
        self.console.follow(f'api "{RUNS}/ask-1/log?follow=true&container=main"')
        results: dict[str, Any] = self._show("ask-1", expected="COMPLETED")["results"]
        return results
