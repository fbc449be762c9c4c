"""Plans the container functions of one engine: an admitted pod becomes a container of podman or docker."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from runyard.app.engine import EngineRefusal
from runyard.domain.reasons import Reason
from runyard.engines.local.capacity.machine import Gpu
from runyard.engines.local.containers import (
    Container,
    ContainerRuntime,
    RuntimeMissing,
    find_runtime,
    has_image,
    plan_container,
    remove_strays,
)
from runyard.engines.local.folders.place import PlaceFolder
from runyard.engines.local.pod_plans import (
    AdmittedRun,
    Owner,
    PlanInputs,
    choose_identity,
    expand_words,
    get_grace_seconds,
    iter_mounts,
    read_readiness,
    read_variables,
)
from runyard.pods.demand import pod_limits
from runyard.procs import Identity, Limits, Plan
from runyard.spec.images import is_latest

MISSING_SECONDS = 60.0
"""How long a missing container runtime is not looked for again."""
CONTAINERS_FOLDER = "containers"
"""The folder of the place in which podman keeps containers; where it is not, none was ever started."""
RUN_LABEL = "io.runyard.run"


class ContainerRuns:
    """Plans container functions, and removes what they leave. Everything blocks: call it in a thread."""

    def __init__(self, place: PlaceFolder) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._runtime: ContainerRuntime | None = None
        self._missing = ("", -MISSING_SECONDS)
        """Why there was no runtime, and when that was found out."""

    @property
    def folder(self) -> Path:
        """Where podman keeps the containers of this place."""
        return self._place.root / CONTAINERS_FOLDER

    def get_runtime(self) -> ContainerRuntime:
        """The container runtime of the machine; raises `EngineRefusal` if there is none."""
        with self._lock:
            if self._runtime is not None:
                return self._runtime
            message, found_at = self._missing
            if time.monotonic() - found_at < MISSING_SECONDS:
                raise EngineRefusal(Reason.RUNTIME_MISSING, message)
            try:
                self.folder.mkdir(mode=0o700, exist_ok=True)
                self._runtime = find_runtime(self.folder / "storage", place_uid=self._place.uid)
            except RuntimeMissing as error:
                self._missing = (str(error), time.monotonic())
                raise EngineRefusal(Reason.RUNTIME_MISSING, str(error)) from error
            return self._runtime

    def plan(self, inputs: PlanInputs, *, run_uid: str, release: int, gpus: tuple[Gpu, ...]) -> tuple[Plan, list[str]]:
        """The plan of a run in a container, and what this machine does not do for it, in words.

        Raises `EngineRefusal` if there can be no plan.
        """
        runtime = self.get_runtime()
        run, spec = inputs.run, inputs.run.container
        env = read_variables(run, base={})
        images = {one["name"]: one["image"]["reference"] for one in run.pod.get("volumes") or () if "image" in one}
        mounts = spec.get("volumeMounts") or ()
        limits = pod_limits(run.pod)
        memory, cpu = limits.get("memory"), limits.get("cpu")
        termination_path = str(inputs.paths.termination / "message")
        container = Container(
            name=name_container(run_uid, release),
            image=spec["image"],
            pull_policy=spec.get("imagePullPolicy") or "IfNotPresent",
            command=tuple(expand_words(spec.get("command") or (), env)),
            args=tuple(expand_words(spec.get("args") or (), env)),
            working_dir=spec.get("workingDir"),
            env=env,
            secret_variables=frozenset(entry["name"] for entry in spec.get("env") or () if "valueFrom" in entry),
            mounts=tuple(iter_mounts(inputs, left_out=images)),
            image_mounts={mount["mountPath"]: images[mount["name"]] for mount in mounts if mount["name"] in images},
            identity=inputs.identity,
            drops_capabilities="ALL" in ((spec.get("securityContext") or {}).get("capabilities") or {}).get("drop", ()),
            limits=Limits(
                memory_bytes=None if memory is None else memory.value,
                cpu_millis=None if cpu is None else cpu.milli_value,
                processes=inputs.processes,
                log_bytes=inputs.log_bytes,
            ),
            ports=tuple(port["containerPort"] for port in spec.get("ports") or ()),
            hosts={name: entry["ip"] for entry in run.pod.get("hostAliases") or () for name in entry["hostnames"]},
            gpus=tuple(gpu.id for gpu in gpus),
            labels={RUN_LABEL: run_uid},
            termination_path=termination_path,
        )
        pieces = plan_container(runtime, container, is_image_there=has_image(runtime, container))
        plan = Plan(
            steps=pieces.steps,
            main=pieces.main,
            hooks=pieces.hooks,
            limits=pieces.limits,
            step_limits=Limits(log_bytes=inputs.log_bytes),
            ports=pieces.ports,
            is_restarted=run.is_service,
            retries=0 if run.is_service else int(run.workload["spec"].get("backoffLimit") or 0),
            grace_seconds=get_grace_seconds(run),
            readiness=read_readiness(spec),
            termination_path=termination_path,
        )
        return plan, [*_find_other_warnings(run), *pieces.warnings]

    def remove_strays(self, *, is_kept: Callable[[str, int], bool]) -> list[str]:
        """Remove containers of this place without a supervisor, and return their names. Nothing if none ever ran.

        `is_kept` says of a run's uid and the number of a release whether it has a supervisor.
        """
        if not self.folder.is_dir():
            return []
        try:
            runtime = self.get_runtime()
        except EngineRefusal:
            return []
        return remove_strays(runtime, is_kept=lambda name: _is_kept(name, is_kept))


def name_container(run_uid: str, release: int) -> str:
    """The name of the container of a release."""
    return f"runyard-{run_uid}-{release}"


def choose_container_identity(run: AdmittedRun, owner: Owner) -> Identity | None:
    """The user inside the container; None for the server's own. Without root it is mapped to the server's user."""
    if owner.is_root:
        return choose_identity(run, owner)
    context = run.pod.get("securityContext") or {}
    user, group = context.get("runAsUser"), context.get("runAsGroup")
    if user is None and group is None:
        return None
    uid = owner.user if user is None else user
    return Identity(uid=uid, gid=uid if group is None else group)


def _is_kept(name: str, is_kept: Callable[[str, int], bool]) -> bool:
    run_uid, _, release = name.removeprefix("runyard-").rpartition("-")
    # A name of another form is not one of a run: what it was made for has ended.
    return bool(run_uid) and release.isdecimal() and is_kept(run_uid, int(release))


def _find_other_warnings(run: AdmittedRun) -> list[str]:
    warnings = []
    if run.pod.get("imagePullSecrets"):
        warnings.append("image_pull_secrets has no effect: images are pulled with the credentials of the machine")
    if not run.container.get("imagePullPolicy") and is_latest(run.container["image"]):
        image = run.container["image"]
        warnings.append(f"image {image}: not pulled again if the machine has it; set image_pull_policy to Always")
    return warnings
