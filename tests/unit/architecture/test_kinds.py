"""A kind of function is one module and its registration."""

import ast
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import runyard
from runyard.app.core import Core
from runyard.app.entities.crud import create_entity
from runyard.app.entities.kind_schemas import list_schemas
from runyard.app.runs.submission import submit_run
from runyard.domain.resolve_inputs import AdminRules, ProjectInventory, Request
from runyard.manifests.identity import RunIdentity
from runyard.manifests.render import render_run
from runyard.manifests.renderability import resolve_run
from runyard.spec.digitalhub.client_specs import shape_function_spec, shape_task_spec
from runyard.spec.kinds.function_kind import FunctionKind, FunctionSpec, VersionedImages
from runyard.spec.kinds.registry import KINDS
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused
from runyard.spec.run_documents import read_run_file
from tests.unit.app.demo import ADA, open_demo

SOURCE = Path(runyard.__file__).parent
OWNERS = "spec/kinds/"
OTHER_MEANINGS = {
    ("cli/commands/live.py", "container"): "Kubernetes' container",
    ("cli/usage_report.py", "container"): "Kubernetes' container",
    ("api/openapi_models.py", "container"): "examples for readers of the API, and the container of a log",
    ("api/openapi_models.py", "container+job:run"): "an example for readers of the API",
    **{
        ("api/openapi_plans.py", literal): "an example for readers of the API"
        for literal in (
            *("container", "container+job", "container+job:run"),
            *("container://demo/hello:f1", "container+job://demo/t1"),
        )
    },
    ("api/routes/logs.py", "container"): "Kubernetes' container",
    ("api/routes/sessions.py", "container"): "Kubernetes' container",
    ("api/routes/usage.py", "container"): "Kubernetes' container",
    ("sdk/sessions/channels.py", "container"): "Kubernetes' container",
    ("app/loops/stored_ends.py", "container"): "Kubernetes' container",
    ("app/sessions/container_sessions.py", "container"): "Kubernetes' container",
    ("app/logs/log_reader.py", "container"): "Kubernetes' container",
    ("engines/local/containers/container_process.py", "container"): "a subcommand of podman and docker",
    ("kube/streams/exec.py", "container"): "Kubernetes' container",
    ("kube/streams/logs.py", "container"): "Kubernetes' container",
    ("logs/names.py", "container"): "Kubernetes' container",
    ("node/kubelet_api/routes.py", "container"): "Kubernetes' container",
    ("node/providers/kubernetes/streams.py", "container"): "Kubernetes' container",
    ("pods/security/violations.py", "container"): "Kubernetes' container",
    ("sdk/function_specs.py", "python"): "the kind of new functions; to ask the registry would load pydantic",
    ("spec/run_fields.py", "python"): "a program, in the example of `command`",
}


class ShellSpec(FunctionSpec):
    """The spec of a kind that exists only here."""


def _refuse_root_shell(spec: FunctionSpec) -> list[Problem]:
    return [Problem(Code.IDENTITY_ROOT, ("command",), "not as root")] if spec.command == ("sudo",) else []


SHELL = FunctionKind(
    name="shell",
    actions=("job", "serve"),
    spec_model=ShellSpec,
    required_fields=("command",),
    check_spec=_refuse_root_shell,
    inapplicable_fields=frozenset({"parameters"}),
    default_images=VersionedImages(version_field="python_version", platform_choice="python_images"),
    source_language="sh",
    actions_scaled_to_zero=frozenset({"serve"}),
)


@pytest.fixture
async def core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Core]:
    monkeypatch.setitem(KINDS, SHELL.name, SHELL)
    async with open_demo(tmp_path) as core:
        yield core


async def refuse(core: Core, type_name: str, **document: Any) -> dict[str, str]:
    with pytest.raises(Refused) as caught:
        await create_entity(core, ADA, type_name, "demo", {"name": "x", "id": "x", **document})
    return {problem.where: problem.code for problem in caught.value.problems}


async def test_entities_are_checked_by_the_kind_when_it_is_registered(core: Core) -> None:
    assert await refuse(core, "function", kind="shell", spec={}) == {"spec.command": "field.missing"}
    assert await refuse(core, "function", kind="shell", spec={"command": "sudo"}) == {"spec.command": "identity.root"}
    assert await refuse(core, "function", kind="shell", spec={"command": "sh", "x": 1}) == {"spec.x": "field.unknown"}
    assert await refuse(core, "task", kind="shell+deploy", spec={"function": "shell://demo/s:s1"}) == {
        "kind": "value.option"
    }
    near = await create_entity(core, ADA, "function", "demo", {"kind": "shel", "name": "near", "id": "near"})
    assert near.status["warnings"][0]["suggestion"] == "shell"


async def test_run_is_stored_by_the_kind_when_it_is_registered(core: Core) -> None:
    spec = {"command": "sh", "python_version": "PYTHON3_11", "parameters": {"x": 1}}
    await create_entity(core, ADA, "function", "demo", {"kind": "shell", "name": "s", "id": "s1", "spec": spec})
    for action in SHELL.actions:
        task = {"kind": f"shell+{action}", "id": f"s-{action}", "spec": {"function": "shell://demo/s:s1"}}
        await create_entity(core, ADA, "task", "demo", task)
    for run_kind in ("shell+job:run", "shell+run"):
        run, _ = await submit_run(core, ADA, "demo", {"kind": run_kind, "spec": {"task": "shell+job://demo/s-job"}})
        assert run.effective is not None
        assert (run.effective["kind"], run.effective["image"]) == ("shell", "python:3.11")
        assert [(warning["path"], warning["code"]) for warning in run.warnings] == [
            ("spec.parameters", "field.pointless")
        ]
    with pytest.raises(Refused) as caught:
        await submit_run(core, ADA, "demo", {"kind": "dance+job:run", "spec": {}})
    assert "shell" in caught.value.problems[0].message


async def test_clients_and_schemas_know_the_kind_when_it_is_registered(core: Core) -> None:
    assert {one["kind"] for one in list_schemas("task") if one["runtime"] == "shell"} == {"shell+job", "shell+serve"}
    assert {one["kind"] for one in list_schemas("run") if one["runtime"] == "shell"} == {
        "shell+job:run",
        "shell+serve:run",
    }
    assert shape_function_spec("shell", {"source": {"lang": "python", "code": "ls"}}) == {"source": {"code": "ls"}}
    assert shape_task_spec("shell+serve", {"replicas": 0, "resources": {"cpu": 1}}) == {"replicas": 0}
    assert shape_task_spec("shell+job", {"replicas": 0}) == {}


@pytest.mark.usefixtures("core")
async def test_run_is_resolved_and_rendered_by_the_kind_when_it_is_registered() -> None:
    run = read_run_file({"kind": "shell", "python_version": "PYTHON3_12", "command": "sh", "parameters": {"x": 1}})
    assert run.kind == "shell"
    request = Request(project="demo", action="job", kind=run.kind, run=run.fields)
    resolution = resolve_run(request, AdminRules(), ProjectInventory())
    assert resolution.refusals == ()
    assert [warning.code for warning in resolution.warnings] == ["field.pointless"]
    (job,) = render_run(resolution.spec, RunIdentity(run_id="r1", run_uid="u1", project="demo"), secret_values={})
    assert job["metadata"]["labels"]["runyard.io/kind"] == "shell"
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == "python:3.12"


def iter_literals(tree: ast.Module) -> Iterator[str]:
    """Every text constant that is, or begins with, the name of a kind; docstrings apart."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            for name in KINDS:
                if node.value == name or node.value.startswith((f"{name}+", f"{name}://")):
                    yield node.value


def test_kind_is_named_only_by_its_module_when_the_source_is_searched() -> None:
    found = {
        (path.relative_to(SOURCE).as_posix(), literal)
        for path in SOURCE.rglob("*.py")
        for literal in iter_literals(ast.parse(path.read_text()))
    }
    assert {(path, literal) for path, literal in found if path.startswith(OWNERS)} == {
        (f"{OWNERS}{name}.py", name) for name in KINDS
    }
    assert {place for place in found if not place[0].startswith(OWNERS)} - set(OTHER_MEANINGS) == set()
