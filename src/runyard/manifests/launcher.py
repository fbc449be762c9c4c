"""The launcher's place in a pod: an init container, a volume, and its mount in the run's container."""

from typing import Any

from runyard.domain.effective_spec import EffectiveSpec
from runyard.manifests.checks import may_use_launcher, needs_launcher
from runyard.manifests.identity import RunIdentity
from runyard.spec.launcher import (
    COMMAND_OPTION,
    LAUNCHER_LIMITS,
    LAUNCHER_NAME,
    LAUNCHER_PATH,
    LAUNCHER_REQUESTS,
    LAUNCHER_VOLUME_SIZE,
    Launcher,
)


def find_launcher(spec: EffectiveSpec, identity: RunIdentity) -> Launcher | None:
    """The launcher that starts the run; None if the run has a command or an image that starts by itself.

    A command with requirements is started by a launcher that installs them.
    """
    launcher = identity.platform.launcher
    if launcher is None or needs_launcher(spec):
        return launcher if needs_launcher(spec) else None
    return launcher if launcher.installs_requirements and may_use_launcher(spec) else None


def render_words(spec: EffectiveSpec, launcher: Launcher | None) -> dict[str, list[str]]:
    """Command and arguments of the run's container."""
    if launcher is None:
        return {"command": [*spec.command], "args": [*spec.args]}
    own = [COMMAND_OPTION, *spec.command] if spec.command else []
    return {"command": [*launcher.start], "args": [*own, *spec.args]}


def render_init_containers(launcher: Launcher | None) -> list[dict[str, Any]]:
    """The init container that installs the launcher; as restricted as Pod Security can demand."""
    if launcher is None:
        return []
    return [
        {
            "name": LAUNCHER_NAME,
            "image": launcher.image,
            "imagePullPolicy": "IfNotPresent",
            "command": [*launcher.install],
            "resources": {"requests": dict(LAUNCHER_REQUESTS), "limits": dict(LAUNCHER_LIMITS)},
            "securityContext": {
                "privileged": False,
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [{"name": LAUNCHER_NAME, "mountPath": LAUNCHER_PATH}],
        }
    ]


def render_launcher_volumes(launcher: Launcher | None) -> list[dict[str, Any]]:
    """The volume that holds the launcher."""
    return [] if launcher is None else [{"name": LAUNCHER_NAME, "emptyDir": {"sizeLimit": LAUNCHER_VOLUME_SIZE}}]


def render_launcher_mounts(launcher: Launcher | None) -> list[dict[str, Any]]:
    """The mount in the run's container: read-only, so that the function cannot change its launcher."""
    return [] if launcher is None else [{"name": LAUNCHER_NAME, "mountPath": LAUNCHER_PATH, "readOnly": True}]
