"""A run of another client that the line cannot express: its spec has an `original`, which the SDK must ignore."""

import os
from typing import Any

from tests.e2e.sdk.scripts.driving import (
    PROJECT,
    dh,
    new_container,
    observe,
    open_project,
    plain,
    requests,
    run_kind,
    save_changes,
)

RUNS = f"{os.environ['DHCORE_ENDPOINT']}/api/v1/-/{PROJECT}/runs"
USER = os.environ.get("DHCORE_USER")
AUTH = (USER, os.environ["DHCORE_PASSWORD"]) if USER else None

project = open_project()
box = new_container(project, "box")
first = box.run("job")
asked = {"cpu": {"requests": "1", "limits": "2"}, "mem": {"limits": "1Gi"}, "disk": "1Gi"}
spec = {"task": first.spec.task, "resources": asked, "command": ["sh", "-c"], "args": ["true"]}
body = {"kind": run_kind("container", "job"), "id": f"raw-{PROJECT}", "spec": spec}


def call(method: str, path: str = "", **options: Any) -> dict[str, Any]:
    """What a client without the SDK receives."""
    answer = requests.request(method, f"{RUNS}{path}", auth=AUTH, timeout=30, **options)
    answer.raise_for_status()
    return dict(answer.json())


posted = call("POST", json=body)
observe("posted", ids=[posted["id"], first.id], spec=posted["spec"])
observe("listed", ids=[one.id for one in dh.list_runs(PROJECT)])
got = dh.get_run(f"store://{PROJECT}/run/{body['kind']}/{body['id']}")
observe("got", entity=plain(got))
save_changes(got)
observe("kept", spec=call("GET", f"/{body['id']}")["spec"])
