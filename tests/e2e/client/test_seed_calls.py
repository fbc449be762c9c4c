"""The calls of the seeds with `ry` in the place of `dh`, and every argument of a run: all of it reaches the server."""

import ast
from collections.abc import Iterator
from typing import Any

import pytest

import runyard as ry
from runyard.sdk.arguments import RUN_ARGUMENTS
from runyard.sdk.calls import get
from tests.core_process import run_core
from tests.unit.cli.snippets import PROFILES, SECRETS, SEEDS

CALLS = sorted(path.name for path in SEEDS.glob("*.py"))
VALUES: dict[str, Any] = {
    "profile": "1xa100",
    "resources": {"cpu": {"requests": "8", "limits": "12"}, "mem": "32Gi", "gpu": {"limits": "1"}, "disk": "10Gi"},
    "node_selector": [{"key": "selectorKey", "value": "selectValue"}],
    "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "node_affinity": {
            "required_during_scheduling_ignored_during_execution": {
                "node_selector_terms": [{"match_expressions": [{"key": "gpu", "operator": "In", "values": ["a100"]}]}]
            }
        }
    },
    "runtime_class": "nvidia",
    "priority_class": "high",
    "volumes": [{"volume_type": "empty_dir", "name": "e", "mount_path": "/e", "spec": {"size_limit": "1Gi"}}],
    "secrets": ["my-secret-key"],
    "envs": [{"name": "ENV1", "value": "VALU123123"}],
    "fs_group": 1000,
    "run_as_user": 1000,
    "run_as_group": 1000,
    "image": "busybox:1.37",
    "command": ["sh"],
    "args": ["-c", "true"],
    "working_dir": "/app",
    "image_pull_policy": "IfNotPresent",
    "replicas": 2,
    "service_ports": [{"port": 80, "target_port": 8080}],
    "service_type": "ClusterIP",
    "service_name": "svc",
    "readiness_path": "/healthz",
    "backoff_limit": 2,
    "disruptions": "count",
    "timeout": "2h",
    "pending_timeout": "1h",
    "ttl": "1h",
    "grace_period": "30s",
    "parameters": {"x": 41},
    "inputs": {"data": "store://demo/dataitem/dataitem/d:1"},
    "init_parameters": {"y": 1},
    "python_version": "PYTHON3_11",
    "source": {"handler": "main", "base64": "eA=="},
    "requirements": ["numpy"],
}


@pytest.fixture(scope="module")
def func(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ry.Function]:
    """A function on a server without an engine, with the seeds' profile and secrets."""
    folder = tmp_path_factory.mktemp("seeds")
    (folder / "profiles").mkdir()
    (folder / "profiles" / "1xa100.yaml").write_text(PROFILES)
    with run_core("--profiles", str(folder / "profiles"), folder=folder) as core, ry.Client(core.url) as client:
        project = client.get_or_create_project("demo")
        for name in SECRETS:
            project.new_secret(name, "value")
        yield project.new_function("func", "container", image="busybox:1.36")


def read_request(run: ry.Run) -> dict[str, Any]:
    """What the server stored as the request of a run."""
    found = run._transport.fetch(get("-", "demo", "runs", run.id, "effective"))
    spec: dict[str, Any] = found["request"]["spec"]
    return spec


@pytest.mark.parametrize("name", CALLS)
def test_call_of_a_seed_works_as_written_when_it_is_pasted(func: ry.Function, name: str) -> None:
    tree = _Placeholders().visit(ast.parse((SEEDS / name).read_text()))
    (call,) = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names: dict[str, Any] = {"func": func}
    exec(compile(ast.fix_missing_locations(tree), name, "exec"), names)
    run = next(value for value in names.values() if isinstance(value, ry.Run))
    given = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg != "action"}
    sent = read_request(run)
    assert {field: sent.get(field) for field in given if given[field]} == {
        field: value for field, value in given.items() if value
    }
    assert run.state == "READY"


def test_every_argument_has_a_value_here_when_one_is_added() -> None:
    assert sorted(VALUES) == sorted(RUN_ARGUMENTS)


@pytest.mark.parametrize("name", RUN_ARGUMENTS)
def test_argument_reaches_the_server_when_it_is_given(func: ry.Function, name: str) -> None:
    document = func.make_request("job", arguments={name: VALUES[name]})
    assert document["spec"][name] == VALUES[name]
    explained = func.explain_request(document)
    codes = {problem.code for problem in explained.refusals}
    assert not any(code.startswith(("field.", "type.", "value.")) for code in codes), explained.refusals


class _Placeholders(ast.NodeTransformer):
    """Removes what the texts only hint at: `...`, and names that they do not define."""

    def visit_List(self, node: ast.List) -> ast.List:
        node.elts = [item for item in node.elts if not self._is_placeholder(item)]
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.Dict:
        kept = [
            (key, value) for key, value in zip(node.keys, node.values, strict=True) if not self._is_placeholder(value)
        ]
        node.keys, node.values = [key for key, _ in kept], [value for _, value in kept]
        self.generic_visit(node)
        return node

    @staticmethod
    def _is_placeholder(node: ast.expr) -> bool:
        return isinstance(node, ast.Name) or (isinstance(node, ast.Constant) and node.value is ...)
