"""What a python function needs before it can start: an interpreter, its virtual environment and the launcher."""

import hashlib
from collections.abc import Callable, Collection
from functools import cached_property
from pathlib import Path

from runyard.app.engine import Assignment
from runyard.engines.local.folders.place import PlaceFolder
from runyard.engines.local.folders.place_files import write_bytes
from runyard.engines.local.folders.project_folders import ProjectFolder
from runyard.engines.local.pod_plans import AdmittedRun, Preparation
from runyard.engines.local.virtual_environments.environments import (
    choose_environment,
    get_uv,
    is_ready,
    list_setup_paths,
    plan_setup,
)
from runyard.engines.local.virtual_environments.interpreters import Interpreters
from runyard.engines.local.virtual_environments.package_index import read_index_variables
from runyard.launcher.zipapps import build_zipapp
from runyard.procs import Identity


class Preparations:
    """Prepares the python functions of one engine. Blocks: call it in a thread."""

    def __init__(self, place: PlaceFolder) -> None:
        self._place = place
        self._interpreters = Interpreters()

    def prepare(
        self,
        assignment: Assignment,
        run: AdmittedRun,
        project: ProjectFolder,
        *,
        list_in_use: Callable[[], Collection[str]],
    ) -> Preparation:
        """The environment of a run, and the step that builds it unless it is there; raises `EngineRefusal`.

        A run with a command of its own has an environment only if it names a version or requirements. `list_in_use`
        names the environments in which runs of the project execute.
        """
        spec = assignment.effective
        if spec.python_version is None:
            return Preparation()
        interpreter = self._interpreters.get(spec.python_version)
        environment = choose_environment(project.environments, interpreter, spec.requirements)
        prepared = Preparation(
            python=str(environment.python),
            path=(str(environment.bin),),
            reachable=environment.reachable,
            launcher=self.ensure_launcher() if run.needs_launcher else None,
            environment=environment.key,
        )
        if is_ready(environment):
            return prepared
        uv = get_uv()
        step = plan_setup(
            environment,
            uv=uv,
            cache_folder=project.cache,
            index_variables=self._index_variables,
            in_use=list_in_use(),
            identity=None if project.user is None else Identity(uid=project.user, gid=project.user),
        )
        paths = list_setup_paths(uv, project.cache, self._index_variables)
        return prepared.with_step(step, reachable=paths)

    def ensure_launcher(self) -> Path:
        """The launcher as a file of the place, named by its content; made if it is not there."""
        path = self._place.root / f"launcher-{hashlib.sha256(self._launcher).hexdigest()[:20]}.pyz"
        if not path.exists():
            write_bytes(path, self._launcher, mode=0o644)
        return path

    @cached_property
    def _launcher(self) -> bytes:
        return build_zipapp()

    @cached_property
    def _index_variables(self) -> dict[str, str]:
        return read_index_variables()
