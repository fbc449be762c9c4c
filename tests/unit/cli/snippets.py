"""The seeds' snippets as users paste them, and their calls of the SDK as the documents that DigitalHub's SDK sends."""

import ast
import json
from pathlib import Path
from typing import Any

SEEDS = Path(__file__).parents[2] / "data/seeds"

PROFILES = "id: 1xa100\nresources: {gpu: 1, mem: 40Gi}\nnode_selector: {gpu: a100}\n"
"""What an admin prepared under the name that the seeds use."""
SECRETS = ("my-secret-key", "CDSETOOL_ESA_USER", "CDSETOOL_ESA_PASSWORD")


def list_snippets() -> list[str]:
    """Names of all snippets that say what they were meant to say."""
    return sorted(path.name for path in SEEDS.iterdir() if path.suffix in (".yaml", ".py"))


def list_flattened() -> list[str]:
    """Names of the snippets of seed 002 as they stand there."""
    return sorted(path.name for path in (SEEDS / "flattened").iterdir())


def read_snippet(name: str) -> bytes:
    """The text as it is; of a call of the SDK, the run document that it sends."""
    path = SEEDS / name
    return json.dumps(call_to_document(path.read_text())).encode() if path.suffix == ".py" else path.read_bytes()


def call_to_document(source: str) -> dict[str, Any]:
    """`func.run(…)` as a DigitalHub run document; what the text only hints at is left out."""
    (call,) = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    values = {str(keyword.arg): _evaluate(keyword.value) for keyword in call.keywords}
    action = values.pop("action")
    return {
        "kind": f"container+{action}:run",
        "project": "demo",
        "spec": {
            "task": f"container+{action}://demo/task",
            "function": "container://demo/func:v1",
            "local_execution": False,
            **{name: value for name, value in values.items() if value},
        },
    }


def _evaluate(node: ast.expr) -> Any:
    """The value of a literal without its placeholders: `...`, and names that the text does not define."""
    if isinstance(node, ast.List):
        return [_evaluate(item) for item in node.elts if not _is_placeholder(item)]
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {_evaluate(key): _evaluate(value) for key, value in pairs if key and not _is_placeholder(value)}
    return ast.literal_eval(node)


def _is_placeholder(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) or (isinstance(node, ast.Constant) and node.value is ...)
