"""Every command's help has an example, and every example works as it stands, in a shell.

Each runs in a folder of its own, with a database that has two accounts. An example of a server is checked with
`--check`, because it would not end. A new command needs an example of this kind; if it cannot run without a cluster, it
is named in `ELSEWHERE` with the test that runs it.
"""

import asyncio
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.store import open_store
from runyard.vault import open_vault
from tests.certificates import write_certificate
from tests.command_shim import CommandShim
from tests.command_tree import ListedCommand, iter_commands
from tests.contract.store.builders import make_run, make_transition
from tests.core_process import call_runyard, make_environment

PROJECT_ROOT = Path(__file__).parents[3]
ELSEWHERE = {
    "runyard node": "tests/cluster/node/agent_bed.py",
    "runyard node doctor": "tests/cluster/node/test_first_pod.py",
    "runyard node drain": "tests/cluster/node/test_faults.py",
    "runyard node leave": "tests/cluster/node/test_faults.py",
    "runyard node gateway": "tests/unit/node/gateway/test_proxy.py",
}
"""Commands whose examples need a cluster, and the file with the tests that run the command, or what it serves."""
NEVER_END = ("runyard server",)
BACKUP = "runyard-2026-11-15.db"
ABSENT = {"runyard init": "run.yaml", "runyard db": BACKUP, "runyard db backup": BACKUP}
"""Commands whose examples write a file that must not exist before."""
PASSWORD = "a password of some length"
PLACE = "kubernetes/0c1e6c1c-8f6e-4b0e-9a43-2f5f3f1a7d10"
SECONDS = 60
COMMANDS = [listed for listed in iter_commands() if listed.examples]
RUN = [listed for listed in COMMANDS if listed.name not in ELSEWHERE]

PROFILE = "id: 1xa100\nresources: {requests: {memory: 32Gi}, limits: {nvidia.com/gpu: 1}}\n"
FILES = {
    "run.yaml": "image: busybox:1.36\nresources: {cpu: 2}\n",
    "service.yaml": "image: busybox:1.36\nreplicas: 2\n",
    "policy.yaml": "resources.mem: {default: 256Mi, max: 64Gi}\n",
    "tighter.yaml": "resources.mem: {default: 256Mi, max: 4Gi}\n",
    "core.env": "K8S_RESOURCE_MEM_DEFAULT=256Mi\n",
    "runs.yaml": "id: a\nimage: busybox:1.36\nresources: {mem: 6Gi}\n",
    "more.yaml": "id: b\nimage: busybox:1.36\n",
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


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandShim]:
    shim = CommandShim(tmp_path_factory.mktemp("shim") / "bin")
    for name, text in STANDS_FOR.items():
        shim.write_program(name, text)
    yield shim
    shim.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that each command gets a copy of."""
    folder = tmp_path_factory.mktemp("world")
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
    return folder


async def _add_run(data: Path) -> None:
    """A run of the place that an example forgets."""
    store = await open_store(f"sqlite:///{data}/runyard.db")
    try:
        async with store.begin() as unit:
            await unit.runs.add(make_run("r1", place=PLACE, anchor_uid="a", state="READY"), [make_transition(1)])
            await unit.commit()
    finally:
        await store.close()


def name_of(listed: ListedCommand) -> str:
    return listed.name


def test_every_command_has_an_example_and_its_exit_codes_when_listed() -> None:
    leaves = [listed for listed in iter_commands() if not listed.has_commands]
    assert [listed.name for listed in leaves if not listed.examples] == []
    assert [listed.name for listed in leaves if not listed.exit_codes] == []
    assert [
        example
        for listed in COMMANDS
        for example in listed.examples
        if not re.search(rf"\b{re.escape(listed.name)}\b", example)
    ] == []


def test_command_is_run_by_the_test_that_is_named_when_its_examples_need_a_cluster() -> None:
    known = {listed.name: listed for listed in COMMANDS}
    for name, file in ELSEWHERE.items():
        assert known[name].examples
        assert name.split()[-1] in (PROJECT_ROOT / file).read_text(), (name, file)


@pytest.mark.parametrize("listed", RUN, ids=name_of)
def test_every_example_works_when_it_is_pasted(
    listed: ListedCommand, world: Path, shim: CommandShim, tmp_path: Path
) -> None:
    for number, example in enumerate(listed.examples):
        folder = tmp_path / str(number)
        shutil.copytree(world, folder)
        if listed.name in ABSENT:
            (folder / ABSENT[listed.name]).unlink()
        settings = {"RUNYARD_DATA": str(folder / "data"), "HOME": str(folder), "NO_COLOR": "1"}
        environment = {**make_environment(settings), "PATH": f"{shim.folder}:{os.environ['PATH']}"}
        line = f"{example} --check" if listed.name in NEVER_END and "--check" not in example else example
        done = subprocess.run(
            ["bash", "--norc", "-eo", "pipefail", "-c", line.replace("~/", f"{folder}/")],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment,
            timeout=SECONDS,
        )
        assert done.returncode == 0, (example, done.stdout[-500:], done.stderr[-1500:])
        assert "internal error" not in done.stderr


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_example_can_be_parsed_when_it_is_run_elsewhere(
    name: str, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (world / "gpu.kubeconfig").touch()
    monkeypatch.chdir(world)
    (listed,) = [listed for listed in COMMANDS if listed.name == name]
    own = [shlex.split(example.removeprefix(name)) for example in listed.examples if example.startswith(f"{name} -")]
    assert own
    for words in own:
        assert listed.command.make_context(name, words, parent=listed.context.parent).args == []
