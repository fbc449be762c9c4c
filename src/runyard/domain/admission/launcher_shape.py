"""The launcher in a pod: exactly one shape of init container, volume and mount, or none of them."""

from collections.abc import Iterator
from typing import Any

from runyard.domain.admission.bundle import Bundle, ObjectPart
from runyard.spec.launcher import (
    LAUNCHER_LIMITS,
    LAUNCHER_NAME,
    LAUNCHER_PATH,
    LAUNCHER_REQUESTS,
    LAUNCHER_VOLUME_SIZE,
    Launcher,
)
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem


def check_launcher(
    bundle: Bundle, pod: ObjectPart, container: ObjectPart, launcher: Launcher | None
) -> Iterator[Problem]:
    """Init containers, and what the launcher's volume has to do with them."""
    init_containers = pod.find("initContainers")
    expected = None if launcher is None else [_make_init_container(launcher)]
    if init_containers is not None and init_containers != expected:
        path = (*pod.path, "initContainers")
        yield Problem(Code.ADMISSION_LAUNCHER, path, "an init container must be the installation's launcher")
    is_there = init_containers is not None
    sources = [source.part.content for source in bundle.iter_sources() if source.name == LAUNCHER_NAME]
    if sources != ([{"sizeLimit": LAUNCHER_VOLUME_SIZE}] if is_there else []):
        path = (*pod.path, "volumes", LAUNCHER_NAME)
        yield Problem(Code.ADMISSION_LAUNCHER, path, "the launcher's volume is there with it, and of a fixed size")
    mounts = [mount.content for mount in container.iter_parts("volumeMounts") if _is_launchers(mount.content)]
    if mounts != ([{"name": LAUNCHER_NAME, "mountPath": LAUNCHER_PATH, "readOnly": True}] if is_there else []):
        path = (*container.path, "volumeMounts")
        yield Problem(Code.ADMISSION_LAUNCHER, path, f"the launcher is mounted read-only at {LAUNCHER_PATH}, or not")
    if is_there and launcher is not None and container.find("command") != list(launcher.start):
        path = (*container.path, "command")
        yield Problem(Code.ADMISSION_LAUNCHER, path, "the container must start the launcher")


def _is_launchers(mount: Any) -> bool:
    return bool(mount["name"] == LAUNCHER_NAME)


def _make_init_container(launcher: Launcher) -> dict[str, Any]:
    return {
        "name": LAUNCHER_NAME,
        "image": launcher.image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(launcher.install),
        "resources": {"requests": dict(LAUNCHER_REQUESTS), "limits": dict(LAUNCHER_LIMITS)},
        "securityContext": {
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": LAUNCHER_NAME, "mountPath": LAUNCHER_PATH}],
    }
