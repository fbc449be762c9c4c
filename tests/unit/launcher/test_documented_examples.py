"""Every example of docs/users/python-functions.md that states its results has them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.launcher.lab import Lab, Recorded

PAGE = Path(__file__).parents[3] / "docs" / "users" / "python-functions.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
EXAMPLES = [block for block in BLOCKS if block.startswith("# parameters: ")]


def read_comment(block: str, name: str) -> Any:
    found = re.search(rf"^# {name}: (.*)$", block, re.MULTILINE)
    return json.loads(found[1]) if found else None


@pytest.mark.parametrize("block", EXAMPLES, ids=range(len(EXAMPLES)))
def test_example_has_its_results_when_it_runs(lab: Lab, block: str) -> None:
    def answer(request: Recorded) -> Any:
        if "/artifacts" in request.path:
            key = f"store://vision/artifact/artifact/report:{request.path.split('/')[6:7]}"
            return 200, {}, {"key": key, "status": {}}
        return None

    lab.server.answer = answer
    done = lab.launch(block, parameters=read_comment(block, "parameters"))
    assert done.code == 0, done.err
    assert lab.server.status["results"] == read_comment(block, "results")
    assert list(lab.server.status["outputs"]) == (read_comment(block, "outputs") or [])


def test_page_has_examples_when_it_is_read() -> None:
    assert len(EXAMPLES) == 4
    for block in BLOCKS:
        compile(block, "example", "exec")
