"""The guide to SDK and command line: its Python runs, and its commands answer as shown."""

import re
import subprocess
import sys
from pathlib import Path

from tests.e2e.client.conftest import ROOT
from tests.e2e.guides import read_part
from tests.unit.cli.conftest import Call

PAGE = ROOT / "docs" / "users" / "sdk.md"
NEXT = ("$ runyard config-map ", "$ runyard volume ", "$ runyard audit ")
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_python_prints_what_the_guide_says_when_it_is_run(server: str, tmp_path: Path) -> None:
    blocks = [text for language, text in BLOCK.findall(PAGE.read_text()) if language == "python"]
    first, then, decorated, files, things, admins, asynchronous, own = blocks
    assert read_part(PAGE, "python").strip() == f"```python\n{first}```"
    printed = run_python(f"{first}{then}")
    assert "hello Ada\n" in printed
    assert re.search(r"^resources\.mem\.requests +256Mi +profile small +6Gi \(you\)$", printed, re.MULTILINE)
    assert printed.endswith("spec.profile: there is no profile `smal`; allowed: small; did you mean: small\n")
    assert run_python(f"{first}{files}").endswith("/tmp/readings/make_readings.py\n")
    *_, reference, volumes, rehearsed = run_python(f"{first}{things}{admins}").splitlines()
    assert re.fullmatch(r"settings:[0-9a-f]+ \{'train\.toml': 'epochs = 3\\n'\}", reference), reference
    assert (volumes, rehearsed) == ("[]", "True ['policy.put']")
    assert run_python(asynchronous).endswith("hello Bob\n")
    (tmp_path / "decorated.py").write_text(decorated)
    done = subprocess.run([sys.executable, "decorated.py"], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.stdout.splitlines()[0] == "3.0", done.stderr
    assert "4.0" in done.stdout.splitlines()[1]
    assert run_python(own) == ""
    readme = (ROOT / "README.md").read_text()
    assert first.replace('{"mem": "128Mi"}', '{"cpu": "500m", "mem": "128Mi"}') in readme


def list_checks(printed: str) -> list[str]:
    """What the lines of `runyard doctor` are about."""
    return re.findall(r"^(?:ok|warning|ERROR) +(\S+):", printed, re.MULTILINE)


def test_command_line_answers_as_shown_when_the_guide_is_followed(call: Call, server: str, tmp_path: Path) -> None:
    page = PAGE.read_text()
    (file,) = [text for language, text in BLOCK.findall(page) if language == "yaml"]
    (tmp_path / "run.yaml").write_text(file)
    (tmp_path / "hello.py").write_text((ROOT / "examples" / "hello" / "hello.py").read_text())
    done = call("run", "-f", "run.yaml", stdin="y\n")
    assert done.code == 0, done.err
    shown = [line for language, text in BLOCK.findall(page) if language == "text" for line in text.splitlines()]
    answered = [" ".join(line.split()) for line in done.err.splitlines()]
    for line in shown:
        words = " ".join(line.split())
        assert words == "…" or any(each.startswith(words) for each in answered), line
    assert call("ps", "--all").code == 0
    checks = re.search(r"^\$ runyard doctor\n(.*?)\n\d+ errors", page, re.MULTILINE | re.DOTALL)
    assert checks is not None
    assert list_checks(call("doctor").out) == list_checks(checks[1])
    assert call("logs", "-f").out.endswith("hello Ada\n")
    things = [line.removeprefix("$ runyard ").split() for line in page.splitlines() if line.startswith(NEXT)]
    assert len(things) == 5
    for given in things:
        listed = call(*given)
        assert listed.code == 0, listed.err
    newest = call("ps", "--all", "-o", "name").out.split()[0]
    assert call("stop", newest, "--yes").out == f"{newest}: COMPLETED\n"


def test_exit_codes_are_listed_when_a_command_can_end_with_them() -> None:
    listed = re.findall(r"^\| (\d+) \|", PAGE.read_text(), re.MULTILINE)
    assert listed == ["0", "1", "2", "3", "4", "130", "141"]
