"""What every script needs: the SDK of the line that runs it, its small differences, and how to tell what was seen."""

import base64
import importlib
import importlib.metadata
import json
import os
import time
from collections.abc import Callable
from typing import Any

requests: Any = importlib.import_module("requests")
dh: Any = importlib.import_module("digitalhub")  # by name: only the environments of the lines have it
LINE = tuple(int(part) for part in importlib.metadata.version("digitalhub").split(".")[:2])
PROJECT = os.environ["RUNYARD_SDK_PROJECT"]
WAIT_SECONDS = 60
CODE = "def main(x=1):\n    return x + 1\n"


def observe(step: str, **seen: Any) -> None:
    """Tell one thing that was seen. The first key marks the line among what the SDK itself prints."""
    print(json.dumps({"step": step, **seen}, default=str), flush=True)  # noqa: T201 - this is the script's answer


def attempt(call: Callable[[], Any]) -> dict[str, Any]:
    """How a call ended: the name of its exception with its bases and text, or nothing."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever the SDK raises is what the test wants to know
        bases = [base.__name__ for base in type(error).__mro__[1:-3]]
        return {"error": type(error).__name__, "bases": bases, "text": str(error)[:2000]}
    return {"error": None}


def wait_for(is_so: Callable[[], bool]) -> bool:
    """Ask again until it is so, for a while; what may take its time on a real server is asked this way."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.3)
    return True


def open_project() -> Any:
    """The script's own project."""
    return dh.get_or_create_project(PROJECT)


def new_python(project: Any, name: str, *, code: str = CODE, handler: str = "main", **fields: Any) -> Any:
    """A new version of a python function."""
    return project.new_function(
        name=name, kind="python", python_version="PYTHON3_11", code=code, handler=handler, **fields
    )


def new_container(project: Any, name: str, **fields: Any) -> Any:
    """A new version of a container function."""
    return project.new_function(name=name, kind="container", **{"image": "busybox:1.36", "command": "sh", **fields})


def run_kind(kind: str, action: str) -> str:
    """What this line calls a run: `container+run` up to 0.13, `container+job:run` since."""
    return f"{kind}+run" if LINE <= (0, 13) else f"{kind}+{action}:run"


def resources(**amounts: str | int) -> dict[str, Any]:
    """The amounts as this line spells them: sides up to 0.13, plain since."""
    if LINE <= (0, 13):
        return {name: {"requests": str(amount)} for name, amount in amounts.items()}
    return dict(amounts)


def narrow(**filters: Any) -> dict[str, Any]:
    """The arguments that narrow a list: up to 0.13 the SDK hands what it is given to `requests`."""
    return {"params": filters} if LINE <= (0, 13) else filters


def list_project_names() -> list[str]:
    """The projects; 0.13.4 forgets to say which type it lists unless it is told."""
    return [one.name for one in (dh.list_projects(entity_type="project") if LINE <= (0, 13) else dh.list_projects())]


def save_changes(entity: Any) -> None:
    """Send an entity that was changed here."""
    if LINE >= (0, 16):
        entity.update()
    else:
        entity.save(update=True)


def read_path(project: Any, path: str) -> Any:
    """What the SDK's own client makes of a GET that no method of the SDK sends."""
    client = project._client  # the SDK has no public way to it
    if hasattr(client, "read_object"):
        return client.read_object(path)
    request = importlib.import_module("digitalhub.stores.client.http.request").BackendReq
    operation = importlib.import_module("digitalhub.stores.client.common.enums").OpsType.CONFIG_K8S_RESOURCE_PROFILES
    return client._http_handler.execute_request(request.get(api=path, operation=operation))


def keep_volume(name: str) -> None:
    """A volume that the project keeps: the SDK has no word for it, and a run may mount only what is there."""
    user = os.environ.get("DHCORE_USER")
    answer = requests.post(
        f"{os.environ['DHCORE_ENDPOINT']}/api/v1/-/{PROJECT}/volumes",
        json={"name": name, "spec": {"size": "1Gi"}},
        auth=(user, os.environ["DHCORE_PASSWORD"]) if user else None,
        timeout=30,
    )
    if answer.status_code not in (200, 404):  # DigitalHub knows no volumes, and takes any name
        raise RuntimeError(answer.text)


def read_texts(run: Any) -> list[str]:
    """What a run said, as far as the line decodes it itself."""
    if LINE >= (0, 16):
        return list(run.logs())
    if LINE >= (0, 15):
        return [log.text for log in run.logs()]
    if LINE >= (0, 14):
        return [log["content"] for log in run.logs()]
    return [base64.b64decode(log["content"]).decode() for log in run.logs()]


def delete_run(run: Any) -> None:
    """Delete a run as the line's own documentation does."""
    if LINE == (0, 14):
        dh.delete_run(run.key, project=PROJECT, entity_id=run.id)
    else:
        dh.delete_run(run.id, project=PROJECT)


def plain(value: Any) -> Any:
    """An SDK object as the plain data it would send."""
    return value.to_dict() if hasattr(value, "to_dict") else value
