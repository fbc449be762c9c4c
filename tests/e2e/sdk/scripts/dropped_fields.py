"""What the line drops before it sends: fields that the user asked for, and the body that goes over the wire."""

import json
from typing import Any

from tests.e2e.sdk.scripts.driving import (
    LINE,
    attempt,
    new_container,
    new_python,
    observe,
    open_project,
    plain,
    requests,
)

NODE_AFFINITY = {
    "required_during_scheduling_ignored_during_execution": {
        "node_selector_terms": [{"match_expressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    }
}
PLACEMENT = {
    "node_selector": [{"key": "disk", "value": "ssd"}],
    "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {"node_affinity": NODE_AFFINITY},
    "runtime_class": "nvidia",
}
MISSPELLED = {"memory": "1Gi"} if LINE >= (0, 14) else {"memory": {"requests": "1Gi"}}

sent: list[dict[str, Any]] = []
_request = requests.sessions.Session.request


def _record(session: Any, method: str, url: str, **options: Any) -> Any:
    if method.upper() == "POST" and url.endswith("/runs"):
        body = options.get("json")
        sent.append(body if body is not None else json.loads(options["data"]))
    return _request(session, method, url, **options)


requests.sessions.Session.request = _record
project = open_project()
box = new_container(project, "box")


def show_run(step: str, *, function: Any = box, **asked: Any) -> None:
    """Submit a run; show what was asked, what was sent, and the warnings of the answer."""
    made: list[Any] = []
    sent.clear()
    ended = attempt(lambda: made.append(function.run("job", **asked)))
    warnings = plain(made[0])["status"].get("warnings", []) if made else []
    observe(step, asked=asked, sent=sent[-1]["spec"] if sent else None, warnings=warnings, **ended)


show_run("placement", **PLACEMENT)
show_run("misspelled", resources=MISSPELLED)
show_run("misspelled side", resources={"cpu": {"request": "1"}})
show_run("unknown volume", volumes=[{"volume_type": "config_map", "name": "a", "mount_path": "/a", "spec": {}}])
show_run("nothing")
python = new_python(project, "code")
show_run("identity of python", function=python, run_as_user=1000, run_as_group=1000, fs_group=1000)
