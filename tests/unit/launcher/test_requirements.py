"""Requirements that the launcher installs itself, from wheels of a folder in place of an index."""

import signal
import sys
import zipfile
from pathlib import Path

import pytest

from tests.unit.launcher.lab import Lab

OPTION = "--install-requirements"


def make_wheel(folder: Path, name: str, *, version: str = "1.0", code: str = "", requires: str | None = None) -> Path:
    """A wheel of one module with a console script of the same name."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {
        f"{name}.py": code or f"VERSION = {version!r}\ndef main():\n    print('script of {name}')\n",
        f"{info}/METADATA": metadata + (f"Requires-Dist: {requires}\n" if requires else ""),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{each},,\n" for each in [*files, f"{info}/RECORD"])
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for each, content in files.items():
            wheel.writestr(each, content)
    return path


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    make_wheel(folder, "greeting", requires="politeness")
    make_wheel(folder, "politeness", version="2.0")
    return folder


def index(wheels: Path) -> dict[str, str]:
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}


CODE = """
import subprocess, sys
import greeting, politeness
def main():
    shown = subprocess.run(["greeting"], capture_output=True, text=True).stdout.strip()
    inside = subprocess.run([sys.executable, "-c", "import greeting"]).returncode
    return {"version": politeness.VERSION, "script": shown, "inside": inside}
"""


def test_packages_and_scripts_are_there_when_requirements_are_installed(lab: Lab, wheels: Path) -> None:
    done = lab.launch(CODE, requirements=["greeting==1.0"], options=[OPTION], environment=index(wheels))
    assert done.code == 0, done.err
    assert lab.server.status["results"] == {"version": "2.0", "script": "script of greeting", "inside": 0}
    assert "runyard: installing 1 requirement\n" in done.err
    assert "Successfully installed greeting-1.0 politeness-2.0" in done.out


def read_ignored() -> int:
    """The signals that a program which we start ignores: ours, without those that Python ignores for itself."""
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
    own = {signal.SIGPIPE, signal.SIGXFSZ}
    return int(status["SigIgn"], 16) & ~sum(1 << (number - 1) for number in own)


def test_command_finds_packages_and_scripts_when_it_has_requirements(lab: Lab, wheels: Path) -> None:
    script = "import sys, greeting; print(greeting.VERSION, sys.argv[1:])"
    shell = 'greeting; grep SigIgn /proc/$$/status; exec python3 -c "$0" "$@"'
    command = ["sh", "-c", shell, script, "--", OPTION, "a b"]
    done = lab.launch(
        requirements=["greeting==1.0"],
        command=command[:3],
        options=[OPTION, "--", *command],
        environment=index(wheels),
    )
    assert done.code == 0, done.err
    ignored = f"SigIgn:\t{read_ignored():016x}"
    assert done.out.endswith(f"script of greeting\n{ignored}\n1.0 ['--', '{OPTION}', 'a b']\n")


def test_run_is_not_prepared_when_its_command_does_not_exist(lab: Lab) -> None:
    done = lab.launch(command=["no-such-program"], options=[OPTION, "--", "no-such-program"])
    message = 'the command "no-such-program" cannot be started: No such file or directory'
    assert (done.code, done.termination["message"]) == (2, message)


def test_message_has_the_installers_words_when_a_package_is_unknown(lab: Lab, wheels: Path) -> None:
    done = lab.launch("def main(): pass", requirements=["unheard-of==9"], options=[OPTION], environment=index(wheels))
    assert (done.code, done.termination["step"]) == (2, "requirements")
    assert done.termination["message"].startswith("the requirements could not be installed:\n")
    assert "No matching distribution found for unheard-of==9" in done.termination["message"]
    assert "No matching distribution found for unheard-of==9" in done.out


def test_run_is_not_prepared_when_a_requirement_is_an_option(lab: Lab) -> None:
    done = lab.launch("def main(): pass", requirements=["--index-url=http://x"], options=[OPTION])
    assert (done.code, done.termination["step"]) == (2, "requirements")
    assert 'requirement "--index-url=http://x": options are not supported' in done.termination["message"]


def test_nothing_is_installed_when_the_engine_does_not_ask_for_it(lab: Lab, wheels: Path) -> None:
    done = lab.launch(
        "import sys\ndef main(): return sys.prefix", requirements=["unheard-of==9"], environment=index(wheels)
    )
    assert (done.code, lab.server.status["results"]) == (0, {"output_0": sys.prefix})


def test_installation_ends_with_the_run_when_it_is_stopped(lab: Lab, wheels: Path) -> None:
    """pip waits for an index that never answers."""
    lab.server.effective = {
        "kind": "python",
        "action": "job",
        "source": {"handler": "main", "code": "def main(): pass"},
        "requirements": ["greeting"],
    }
    lab.server.answer = lambda request: None if "/runs/" in request.path else (503, {}, {})
    environment = {"PIP_INDEX_URL": f"{lab.server.endpoint}/simple", "PIP_RETRIES": "100"}
    process = lab.start(OPTION, **environment)
    assert process.stdout is not None
    while not lab.server.requests or all("/simple" not in each.path for each in lab.server.requests):
        assert process.poll() is None
    process.terminate()
    done = lab.finish(process, seconds=60)
    assert (done.code, done.termination["message"]) == (143, "stopped by SIGTERM")
