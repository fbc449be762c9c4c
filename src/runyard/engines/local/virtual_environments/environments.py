"""Virtual environments of python functions: one per content, shared by the runs of a project.

The engine chooses an environment (`choose_environment`), asks whether it is there (`is_ready`) and else runs
`plan_setup` as the first step of the run. `environment_setup.py` does the work, as the project's user: everything in
the folder of environments may be written by hostile code, and is only looked at here, never followed.
"""

import hashlib
import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from runyard.app.engine import EngineRefusal
from runyard.domain.reasons import Reason
from runyard.engines.local.pod_plans import SYSTEM_PATH
from runyard.engines.local.virtual_environments import environment_setup
from runyard.engines.local.virtual_environments.environment_setup import READY
from runyard.engines.local.virtual_environments.interpreters import Interpreter
from runyard.engines.local.virtual_environments.package_index import iter_local_paths
from runyard.launcher.requirement_lines import InvalidRequirement, read_requirements
from runyard.procs import Command, Identity

MOST_ENVIRONMENTS = 20
"""How many environments a project keeps; the least recently used ones are removed."""
LARGEST_ENVIRONMENTS_BYTES = 20 << 30
"""How large the environments of a project may be together; the least recently used ones are removed."""
MOST_FAILURE_LINES = 15
"""How many lines of a failed build the run's message has, the last ones."""
LONGEST_FAILURE_BYTES = 2048
"""How long these lines may be together."""
STEP_NAME = "environment"
"""The name of the step, and so of its log."""

_FORMAT = 1
"""Changes when environments are built in another way: older ones are not used anymore then."""
_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-?]{0,32}[ -/]{0,8}[@-~]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """An environment, built or not."""

    key: str
    """The digest of its content."""
    folder: Path
    interpreter: Interpreter
    requirements: tuple[str, ...]

    @property
    def bin(self) -> Path:
        """The folder that comes first in PATH."""
        return self.folder / "bin"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.bin / "python3"

    @property
    def reachable(self) -> tuple[str, ...]:
        """What a process needs to reach that runs in it.

        The folder of all environments, not this one: the project's user could have put a symbolic link in its place.
        """
        interpreter = self.interpreter
        own = () if interpreter.path.is_relative_to(interpreter.prefix) else (str(interpreter.path),)
        return (str(self.folder.parent), str(interpreter.prefix), *own)


def choose_environment(folder: Path, interpreter: Interpreter, requirements: Sequence[str]) -> Environment:
    """The environment for these requirements in the folder of a project's environments.

    Raises `EngineRefusal` with the reason `environment.failed` if a requirement is not one.
    """
    try:
        lines = read_requirements(requirements)
    except InvalidRequirement as invalid:
        raise EngineRefusal(Reason.ENVIRONMENT_FAILED, str(invalid)) from invalid
    content = [_FORMAT, interpreter.version, str(interpreter.path), interpreter.platform, lines]
    key = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return Environment(key=key, folder=folder / key, interpreter=interpreter, requirements=lines)


def is_ready(environment: Environment) -> bool:
    """Whether the environment is complete; notes that it is used now, so that it is not removed soon."""
    try:
        descriptor = os.open(environment.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        found = os.stat(READY, dir_fd=descriptor, follow_symlinks=False)
        if stat.S_ISREG(found.st_mode):
            os.utime(READY, dir_fd=descriptor, follow_symlinks=False)
            return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def find_uv(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The program uv: that of the server's own installation, or one in PATH."""
    own = shutil.which("uv", path=str(Path(sys.executable).parent))
    found = own or shutil.which("uv", path=environ.get("PATH", os.defpath))
    return None if found is None else Path(os.path.realpath(found))


def get_uv(environ: Mapping[str, str] = os.environ) -> Path:
    """The program uv; raises `EngineRefusal` if the machine has none."""
    found = find_uv(environ)
    if found is None:
        raise EngineRefusal(
            Reason.ENVIRONMENT_FAILED,
            "the server has no uv, which builds virtual environments; ask an operator to install runyard[local]",
        )
    return found


def plan_setup(
    environment: Environment,
    *,
    uv: Path,
    cache_folder: Path,
    index_variables: Mapping[str, str],
    in_use: Collection[str] = (),
    identity: Identity | None = None,
) -> Command:
    """The step that builds the environment if another run does not; needed unless `is_ready`.

    `in_use` are the keys of environments in which runs execute now: they are not removed, however old.
    `index_variables` are those of `package_index`. `identity` writes to the folders of environments and `cache_folder`.
    """
    options = {
        "folder": str(environment.folder.parent),
        "key": environment.key,
        "uv": str(uv),
        "interpreter": str(environment.interpreter.path),
        "version": environment.interpreter.version,
        "most": MOST_ENVIRONMENTS,
        "most_bytes": LARGEST_ENVIRONMENTS_BYTES,
        "keep": sorted(in_use),
    }
    program = (str(environment.interpreter.path), "-I", "-S", "-u", "-c", _read_program())
    return Command(
        name=STEP_NAME,
        argv=(*program, json.dumps(options), *environment.requirements),
        env={
            **index_variables,
            "HOME": str(cache_folder / "home"),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "PATH": SYSTEM_PATH,
            "UV_CACHE_DIR": str(cache_folder / "uv"),
            # The folders are mounts of their own then: hard links fail, and uv would warn in the log of the run.
            **({} if identity is None else {"UV_LINK_MODE": "copy"}),
            "UV_NO_PROGRESS": "1",
            "UV_PYTHON_DOWNLOADS": "never",
        },
        message="preparing the virtual environment",
        identity=identity,
    )


def list_setup_paths(uv: Path, cache_folder: Path, index_variables: Mapping[str, str]) -> tuple[str, ...]:
    """What the step must reach, besides `Environment.reachable`."""
    return (str(uv), str(cache_folder), *iter_local_paths(index_variables))


def describe_failure(log_tail: bytes) -> str:
    """The message of a run whose environment could not be built, from the last bytes of the step's log."""
    text = _ESCAPE_SEQUENCE.sub("", log_tail.decode(errors="replace"))
    lines = [line.rstrip() for line in _CONTROL.sub("", text).splitlines() if line.strip()][-MOST_FAILURE_LINES:]
    shown = "\n".join(lines).encode()[-LONGEST_FAILURE_BYTES:].decode(errors="ignore")
    failure = "the virtual environment could not be built"
    return f"{failure}:\n{shown}" if shown else f"{failure}, and uv said nothing"


@cache
def _read_program() -> str:
    return Path(environment_setup.__file__).read_text()
