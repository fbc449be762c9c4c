"""The notebook of the examples, and hostile output, in a kernel as Jupyter starts it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.e2e.client.conftest import ROOT, SECONDS

NOTEBOOK = ROOT / "examples" / "notebook" / "first_run.ipynb"
HOSTILE = """
import runyard as ry

def hostile():
    for number in range(300):
        print(f"{number} <script>alert(1)</script> \\x1b[31mred\\x1b[0m \\x1b[2J", flush=True)
    return {"<img src=x onerror=alert(1)>": "<script>alert(2)</script>"}

run = ry.get_or_create_project("demo").save_function(ry.function()(hostile)).run().wait(progress=True)
run
"""


class Kernel(NotebookClient):
    """Executes notebooks, and keeps what a browser would have been told."""

    def __init__(self, notebook: Any, folder: Path) -> None:
        super().__init__(notebook, timeout=int(SECONDS), resources={"metadata": {"path": str(folder)}})
        self.updates: dict[int, list[str]] = {}

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        """Keep the views that replace each other."""
        if msg["msg_type"] in ("display_data", "update_display_data"):
            self.updates.setdefault(cell_index, []).append(msg["content"]["data"]["text/html"])
        return super().process_message(msg, cell, cell_index)


def get_html(cell: Any) -> str:
    return "".join(output["data"].get("text/html", "") for output in cell.outputs if "data" in output)


def find_cell(notebook: Any, words: str) -> tuple[int, Any]:
    (found,) = [
        (at, cell) for at, cell in enumerate(notebook.cells) if words in cell.source and cell.cell_type == "code"
    ]
    return found


@pytest.fixture
def notebook() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]


def test_cells_show_tables_and_a_live_log_when_the_example_is_executed(
    server: str, notebook: Any, tmp_path: Path
) -> None:
    kernel = Kernel(notebook, tmp_path)
    kernel.execute()
    at, watched = find_cell(notebook, "progress=True")
    views = kernel.updates[at]
    assert len(views) > 2, "replaced as the run goes on"
    assert "round 40: 3." not in views[0]
    assert len(watched.outputs) == 1
    assert "<th>state</th><td>COMPLETED</td>" in get_html(watched)
    assert "round 40: 3." in get_html(watched)
    for words, shown in (
        ("func.explain", "<td>resources.mem.requests</td><td>256Mi</td><td>you</td><td>128Mi (function)</td>"),
        ("run.results", "<th>pi</th><td>3."),
        ("run.events", "<td>COMPLETED</td>"),
        ("list_dataitems", "<td>estimates</td>"),
        ("list_runs", "<td>estimate-pi</td><td>job</td><td>COMPLETED</td>"),
        ("save_function", "<th>name</th><td>estimate-pi</td>"),
    ):
        _, cell = find_cell(notebook, words)
        assert shown in get_html(cell), (words, cell.outputs)
    _, measured = find_cell(notebook, "run.metrics")
    assert measured.outputs[0]["text"] == "40 estimates, the last is 3.14\n"


def test_nothing_of_a_run_is_markup_when_its_output_is_hostile(server: str, tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(HOSTILE)])  # type: ignore[no-untyped-call]
    kernel = Kernel(notebook, tmp_path)
    kernel.execute()
    html = get_html(notebook.cells[0])
    assert "299 &lt;script&gt;alert(1)&lt;/script&gt; red \\x1b[2J" in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    for view in (*kernel.updates[0], html):
        assert "<script" not in view
        assert "<img" not in view
        assert "\x1b" not in view
        assert view.count("alert(1)") <= 2 * 102, "the last lines alone"


def test_states_are_lines_when_ipython_is_at_a_terminal() -> None:
    code = "from runyard.sdk.run_progress import find_display; print(find_display())"
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "-c", code], capture_output=True, text=True, timeout=SECONDS
    )
    assert done.stdout.strip() == "None", done.stderr
