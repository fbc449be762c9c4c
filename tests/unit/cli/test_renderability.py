"""Submit, explain and render refuse the same runs, in the same words, with the same exit code.

Except for one: the offline `explain` decides as a server with an engine, which has a launcher.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from runyard.app.core import Core
from runyard.app.model import Entity
from runyard.app.rules.profiles_and_policy import put_policy
from runyard.app.runs import explain_run, submit_run
from runyard.spec.problems import Problem, Refused
from tests.engines.memory import MemoryEngine
from tests.unit.app.demo import ADA, open_demo
from tests.unit.cli.conftest import Call

SOURCE = {"handler": "main", "code": "def main(): ..."}
NO_IMAGE = ("field.missing", "image", "a run needs an `image`")
NOT_BUILT = ("run.not_run", "action", "images are not built here; build the image elsewhere and name it in `image`")
NO_LAUNCHER = (
    "launcher.missing",
    "command",
    "a python function without `command` needs a launcher, and there is none",
)
EXTERNAL_NAME = ("service_type.unsupported", "service_type", "a Service of this type has no pods behind it")


@dataclass(frozen=True, kw_only=True)
class Unrenderable:
    """A run that cannot be rendered, and the code, path and message of each refusal."""

    kind: str
    action: str = "job"
    function: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=dict)
    refusals: tuple[tuple[str, str, str], ...]


RUNS = {
    "container without image": Unrenderable(kind="container", refusals=(NO_IMAGE,)),
    "python without command": Unrenderable(
        kind="python", function={"python_version": "PYTHON3_11", "source": SOURCE}, refusals=(NO_LAUNCHER,)
    ),
    "python service without command": Unrenderable(
        kind="python", action="serve", function={"image": "a:1", "source": SOURCE}, refusals=(NO_LAUNCHER,)
    ),
    "python without version and image": Unrenderable(
        kind="python", function={"source": SOURCE}, refusals=(NO_IMAGE, NO_LAUNCHER)
    ),
    "container built": Unrenderable(kind="container", action="build", function={"image": "a:1"}, refusals=(NOT_BUILT,)),
    "python built": Unrenderable(
        kind="python",
        action="build",
        function={"python_version": "PYTHON3_11", "command": "python", "source": SOURCE},
        refusals=(NOT_BUILT,),
    ),
    "service without pods": Unrenderable(
        kind="container",
        action="serve",
        function={"image": "a:1"},
        run={"service_type": "ExternalName"},
        policy={"service_type": {"options": ["ExternalName"]}},
        refusals=(EXTERNAL_NAME,),
    ),
}


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    async with open_demo(tmp_path / "data", engine=MemoryEngine()) as core:
        yield core


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()


async def store_function(core: Core, case: Unrenderable) -> dict[str, Any]:
    """A function as an earlier release would have stored it, and a task; returns a run of it."""
    now = core.clock.now()
    task_kind = f"{case.kind}+{case.action}"
    spec = {"function": f"{case.kind}://demo/old:old"}
    common: dict[str, Any] = {"project": "demo", "user": "ada", "updated_by": "ada", "created_at": now}
    async with core.store.begin() as unit:
        for entity in (
            Entity(type="function", kind=case.kind, name="old", id="old", spec=case.function, updated_at=now, **common),
            Entity(type="task", kind=task_kind, name="old-task", id="old-task", spec=spec, updated_at=now, **common),
        ):
            await unit.entities.add(entity)
        await unit.commit()
    if case.policy:
        await put_policy(core, ADA, case.policy)
    return {"kind": f"{task_kind}:run", "id": "r9", "spec": {"task": f"{task_kind}://demo/old-task", **case.run}}


def place(path: str) -> str:
    """The path of a field in a run document."""
    return "kind" if path == "action" else f"spec.{path}"


def tell(problem: dict[str, Any]) -> tuple[str, str, str]:
    return problem["code"], problem["path"], problem["message"]


@pytest.mark.parametrize("name", RUNS)
async def test_refusals_are_the_same_everywhere_when_a_run_cannot_be_rendered(
    core: Core, call: Call, tmp_path: Path, name: str
) -> None:
    case = RUNS[name]
    document = await store_function(core, case)
    on_server = [(code, place(path), message) for code, path, message in case.refusals]

    with pytest.raises(Refused) as caught:
        await submit_run(core, ADA, "demo", document)
    assert [tell(problem.to_dict()) for problem in caught.value.problems] == on_server
    explained = await explain_run(core, ADA, "demo", document)
    assert [tell(problem) for problem in explained.refusals] == on_server
    assert explained.effective is not None

    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(case.policy))
    file = yaml.safe_dump({"kind": case.kind, "action": case.action, **case.function, **case.run})
    words = ("-f", "-", "--policy", str(tmp_path / "policy.yaml"))
    offline = call("explain", *words, "-o", "json", stdin=file)
    explained_refusals = [refusal for refusal in case.refusals if refusal != NO_LAUNCHER]
    assert offline.code == bool(explained_refusals)
    assert [tell(problem) for problem in json.loads(offline.out)["refusals"]] == explained_refusals
    assert ("the launcher of a server's engine" in offline.err) is (NO_LAUNCHER in case.refusals)
    table, rendered = call("explain", *words, stdin=file), call("render", *words, stdin=file)
    assert (table.code, rendered.code, rendered.out) == (offline.code, 1, "")
    for _, path, message in case.refusals:
        line = next(line for line in rendered.err.splitlines() if f"error: {path}: {message}" in line)
        assert (line in table.out.splitlines()) is (message != NO_LAUNCHER[2])
    assert rendered.err.count("error:") == len(case.refusals)
    assert table.out.count("error:") == len(explained_refusals)


async def test_run_is_stored_with_a_warning_when_nothing_would_start_it(tmp_path: Path) -> None:
    """Published SDKs submit python functions without command; a server without engine only stores them."""
    async with open_demo(tmp_path / "data") as core:
        document = await store_function(core, RUNS["python without command"])
        strict = await explain_run(core, ADA, "demo", document, is_strict=True)
        with pytest.raises(Refused) as caught:
            await submit_run(core, ADA, "demo", document, is_strict=True)
        explained = await explain_run(core, ADA, "demo", document)
        run, _ = await submit_run(core, ADA, "demo", document)
    code, path, message = NO_LAUNCHER
    assert [tell(warning) for warning in run.warnings] == [(code, place(path), message)]
    assert (explained.warnings, explained.refusals) == (run.warnings, ())
    assert (run.state, run.reason) == ("READY", "engine.none")
    assert strict.refusals == tuple(problem.to_dict() for problem in caught.value.problems) == run.warnings


@pytest.mark.parametrize("name", ["container without image", "container built"])
async def test_run_is_refused_when_no_engine_could_ever_start_it(tmp_path: Path, name: str) -> None:
    async with open_demo(tmp_path / "data") as core:
        document = await store_function(core, RUNS[name])
        with pytest.raises(Refused) as caught:
            await submit_run(core, ADA, "demo", document)
    assert [problem.code for problem in caught.value.problems] == [code for code, _, _ in RUNS[name].refusals]


async def test_kind_is_shown_as_it_was_given_when_its_action_is_refused(core: Core) -> None:
    document = await store_function(core, RUNS["container built"])
    with pytest.raises(Refused) as caught:
        await submit_run(core, ADA, "demo", document)
    (problem,) = caught.value.problems
    assert (problem.where, problem.value, problem.allowed) == ("kind", "container+build:run", None)
    (shown,) = (await explain_run(core, ADA, "demo", document)).refusals
    assert shown == problem.to_dict()


async def test_missing_image_is_not_told_when_the_profile_that_may_set_it_is_refused(core: Core, call: Call) -> None:
    document = await store_function(core, RUNS["container without image"])
    named = {**document, "spec": {**document["spec"], "profile": "none"}}
    assert [problem["code"] for problem in (await explain_run(core, ADA, "demo", named)).refusals] == [
        "profile.unknown"
    ]
    called = call("render", "-f", "-", stdin="profile: none\n")
    assert called.code == 1
    assert called.err.count("error:") == 1
    unreadable = {**document, "spec": {**document["spec"], "profile": "no/profile", "service_account": "x"}}
    with pytest.raises(Refused) as caught:
        await submit_run(core, ADA, "demo", unreadable)
    problems: tuple[Problem, ...] = caught.value.problems
    assert sorted(problem.where for problem in problems) == ["spec.profile", "spec.service_account"]


async def test_missing_image_is_told_with_the_rest_when_other_fields_are_unreadable(core: Core) -> None:
    document = await store_function(core, RUNS["container without image"])
    with pytest.raises(Refused) as caught:
        await submit_run(core, ADA, "demo", {**document, "spec": {**document["spec"], "replicas": "many"}})
    assert sorted(problem.where for problem in caught.value.problems) == ["spec.image", "spec.replicas"]
