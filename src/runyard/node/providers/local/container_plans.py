"""The supervision plan of each container of a pod. Pure, but for this machine's PATH, which is passed in."""

import sys
from collections.abc import Mapping
from dataclasses import replace

from runyard.node.providers.local import init_wait
from runyard.node.providers.local.environment import container_environment, expand
from runyard.node.providers.local.pod_folder import PodFolder
from runyard.node.providers.provider import Object, ProviderRefused, Workload
from runyard.procs import STATE_FILE, Command, Limits, Mount, Plan
from runyard.spec.kubernetes.quantity import Quantity, QuantityError

LOG_BYTES = 64 << 20
"""Of the output of one instance; the rest is dropped."""
WAIT = "wait.for-init"
"""The step that waits for init containers; no container can have this name."""
_ENDLESS = 1_000_000_000
_DEFAULT_GRACE_SECONDS = 30


def container_plans(workload: Workload, folder: PodFolder, *, path: str) -> dict[str, Plan]:
    """By container, init containers first, in order. Each init container waits for the one before it, the others for
    the last one. Raises `ProviderRefused` where something that a container refers to is missing.
    """
    plans: dict[str, Plan] = {}
    before: str | None = None
    for container in workload.spec.get("initContainers") or ():
        plan = _render_plan(workload, container, folder, path=path, before=before)
        policy = workload.spec.get("restartPolicy", "Always")
        plans[container["name"]] = replace(plan, is_restarted=False, retries=0 if policy == "Never" else _ENDLESS)
        before = container["name"]
    for container in workload.spec["containers"]:
        plans[container["name"]] = _render_plan(workload, container, folder, path=path, before=before)
    return plans


def _render_wait(before: str, folder: PodFolder) -> Command:
    state_file = str(folder.container(before) / STATE_FILE)
    argv = (sys.executable, "-I", "-S", init_wait.__file__, state_file, before)
    return Command(name=WAIT, argv=argv, has_mounts=False)


def _render_plan(workload: Workload, container: Object, folder: PodFolder, *, path: str, before: str | None) -> Plan:
    base = {"PATH": path, "HOME": str(folder.work), "HOSTNAME": workload.name}
    env = container_environment(workload, container, base=base)
    words = [*container["command"], *(container.get("args") or [])]
    policy = workload.spec.get("restartPolicy", "Always")
    grace_seconds = workload.spec.get("terminationGracePeriodSeconds")
    return Plan(
        main=Command(
            name=container["name"],
            argv=tuple(expand(word, env) for word in words),
            env=env,
            cwd=container.get("workingDir") or str(folder.work),
        ),
        steps=() if before is None else (_render_wait(before, folder),),
        is_restarted=policy == "Always",
        retries=_ENDLESS if policy == "OnFailure" else 0,
        grace_seconds=_DEFAULT_GRACE_SECONDS if grace_seconds is None else grace_seconds,
        limits=_render_limits(container),
        mounts=tuple(_render_mounts(workload, container, folder)),
    )


def _render_limits(container: Object) -> Limits:
    limits: Mapping[str, str] = (container.get("resources") or {}).get("limits") or {}
    try:
        amounts = {name: Quantity.parse(amount) for name, amount in limits.items()}
    except QuantityError as error:
        raise ProviderRefused(
            "InvalidResources", f"container {container['name']}: resources.limits: {error}"
        ) from error
    memory, cpu = amounts.get("memory"), amounts.get("cpu")
    return Limits(
        memory_bytes=None if memory is None or memory.is_zero else memory.value,
        cpu_millis=None if cpu is None or cpu.is_zero else cpu.milli_value,
        log_bytes=LOG_BYTES,
    )


def _render_mounts(workload: Workload, container: Object, folder: PodFolder) -> list[Mount]:
    writable = {volume["name"] for volume in workload.spec.get("volumes") or [] if "emptyDir" in volume}
    return [
        Mount(
            target=mount["mountPath"],
            kind="bind",
            source=str(folder.volume(mount["name"])),
            sub_path=mount.get("subPath") or None,
            is_read_only=bool(mount.get("readOnly")) or mount["name"] not in writable,
        )
        for mount in container.get("volumeMounts") or []
    ]
