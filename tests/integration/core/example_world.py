"""Where the examples of the help texts run: a folder with files and a database, and a server with a run."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from runyard.store import open_store
from runyard.vault import open_vault
from tests.certificates import write_certificate
from tests.contract.store.builders import make_run, make_transition
from tests.core_process import call_runyard
from tests.integration.local.local_core import BASE, PROJECT, PYTHON, end_runs, make_project, run_local_core, wait_for

PROJECT_ROOT = Path(__file__).parents[3]
BACKUP = "runyard-2026-11-15.db"
PASSWORD = "a password of some length"
PLACE = "kubernetes/0c1e6c1c-8f6e-4b0e-9a43-2f5f3f1a7d10"
RUN_ID = "train-5f3a90c2d1"
DELETED_RUN_ID = "train-0b7d44e19a"
"""The run that an example deletes."""
SERVED_RUN = f"kind: python\npython_version: {PYTHON}\nsource: {{source: train.py, handler: train}}\n"
"""A run that the local engine can start on any machine."""
SERVED_PROFILE = "id: 1xa100\nresources: {requests: {memory: 64Mi}}\n"
SERVED_POLICY = "timeout: {max: 7d}\n"
PROFILE = "id: 1xa100\nresources: {requests: {memory: 32Gi}, limits: {nvidia.com/gpu: 1}}\n"
FILES = {
    "run.yaml": "image: busybox:1.36\nresources: {cpu: 2}\n",
    "service.yaml": "image: busybox:1.36\nreplicas: 2\n",
    "policy.yaml": "resources.mem: {default: 256Mi, max: 64Gi}\n",
    "tighter.yaml": "resources.mem: {default: 256Mi, max: 4Gi}\n",
    "core.env": "K8S_RESOURCE_MEM_DEFAULT=256Mi\n",
    "runs.yaml": "id: a\nimage: busybox:1.36\nresources: {mem: 6Gi}\n",
    "more.yaml": "id: b\nimage: busybox:1.36\n",
    "small.yaml": "id: small\nresources: {mem: 64Mi}\n",
    "readings.csv": "x,y\n1,2\n",
    "train.toml": "epochs = 3\n",
    "other.toml": "epochs = 5\n",
    "train.py": "def train():\n    pass\n",
    "runyard.yaml": "port: 0\n",
    "profiles/a100.yaml": PROFILE,
    "now/a100.yaml": PROFILE,
    "next/a100.yaml": PROFILE.replace("32Gi", "16Gi"),
    ".local/share/bash-completion/completions/.keep": "",
    ".config/fish/completions/.keep": "",
    ".zfunc/.keep": "",
}
STANDS_FOR = {
    "kubectl": '#!/bin/sh\ngrep -q "^kind: "\n',
    "pass": f"#!/bin/sh\necho '{PASSWORD}'\n",
}
"""Programs that examples call: kubectl takes objects, pass prints a password."""


def build_folder(folder: Path) -> None:
    """The files, and a database with an admin `ada`, an account `bob`, and a run of a place that is gone."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    shutil.copy(PROJECT_ROOT / "examples/virtual_node/offer.yaml", folder)
    write_certificate(folder)
    (folder / "cert.pem").rename(folder / "tls.crt")
    (folder / "key.pem").rename(folder / "tls.key")
    environment = {"RUNYARD_DATA": str(folder / "data")}
    for words in (["ada", "--admin", "--no-password"], ["bob", "--no-password"]):
        done = call_runyard("user", "create", *words, environment=environment)
        assert done.code == 0, done.err
    asyncio.run(_add_run(folder / "data"))
    open_vault(folder / "data/key", text=None)
    for words in (["keys", "rotate"], ["db", "backup", str(folder / BACKUP)]):
        done = call_runyard(*words, environment=environment)
        assert done.code == 0, done.err
    old = (folder / "data/key").read_text().splitlines()
    (folder / "old.key").write_text(f"{old[0]}\n")
    (folder / "new.key").write_text(f"{old[-1]}\n")


async def _add_run(data: Path) -> None:
    """A run of the place that an example forgets."""
    store = await open_store(f"sqlite:///{data}/runyard.db")
    try:
        async with store.begin() as unit:
            await unit.runs.add(make_run("r1", place=PLACE, anchor_uid="a", state="READY"), [make_transition(1)])
            await unit.commit()
    finally:
        await store.close()


@contextmanager
def run_server(folder: Path) -> Iterator[str]:
    """The address of a server with the local engine, whose function `train` has two runs that have ended."""
    (folder / "profiles").mkdir()
    (folder / "profiles/a100.yaml").write_text(SERVED_PROFILE)
    (folder / "policy.yaml").write_text(SERVED_POLICY)
    rules = ("--profiles", str(folder / "profiles"), "--policy", str(folder / "policy.yaml"))
    with run_local_core(folder, *rules) as core:
        try:
            asyncio.run(_start_training(core.url))
            yield core.url
        finally:
            end_runs(folder)


async def _start_training(url: str) -> None:
    source = {"handler": "train", "code": "def train():\n    print('epoch 1')\n"}
    function = {"kind": "python", "name": "train", "id": "f1", "spec": {"python_version": PYTHON, "source": source}}
    task = {"kind": "python+job", "id": "t1", "spec": {"function": f"python://{PROJECT}/train:f1"}}
    other = {**function, "name": "resize", "id": "f2"}
    runs = [
        {"kind": "python+job:run", "id": run_id, "spec": {"task": f"python+job://{PROJECT}/t1"}}
        for run_id in (RUN_ID, DELETED_RUN_ID)
    ]
    documents = (("functions", function), ("functions", other), ("tasks", task), *(("runs", run) for run in runs))
    async with httpx2.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:
        await make_project(client)
        for plural, document in documents:
            answer = await client.post(f"{BASE}/{plural}", json=document)
            assert answer.status_code == 200, answer.text
        for run_id in (RUN_ID, DELETED_RUN_ID):
            await wait_for(client, run_id, "COMPLETED")
        changed = {"resources": {"requests": {"memory": "96Mi"}}}
        answer = await client.put("/api/v1/profiles/1xa100", json=changed)
        assert answer.status_code == 200, answer.text
