"""The environment variables of a container, and the ways by which a runtime gets them without showing secrets.

A command line can be read by every user of the machine, so it holds no secrets. An env-file in memory holds values that
every version of podman and docker reads alike. Other secrets are variables of the runtime itself, which it hands on;
a variable that could change what the runtime does, as root perhaps, is refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from runyard.app.engine import EngineRefusal
from runyard.domain.reasons import Reason
from runyard.manifests.environment import TOKEN_VARIABLES

LONGEST_ENV_LINE = 60_000
"""Bytes of a variable in an env-file; podman reads lines of up to 64 KiB."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN_VALUE = re.compile(r"(?! )[A-Za-z0-9_./:@%+,=~^()\[\]{}<>;|&?!* -]*(?<! )")
"""No quotes, `#`, `$`, backslashes and line breaks: podman 4.6 reads them otherwise than its other versions."""
_STEERS_RUNTIME = re.compile(
    r"(?:LD|GLIBC|MALLOC|GCONV|LOC|NLS|RES|HOSTALIASES|TZ|LC|LANG|XDG|CONTAINERS?|PODMAN|STORAGE|BUILDAH|DOCKER|DBUS"
    r"|LISTEN|NOTIFY|SSL|REGISTRY|SSH|GNUPG|PYTHON|BASH|CNI|NETAVARK|XTABLES|IPTABLES|FUSE|RUST|OCI|RUNC|CRUN|CONMON|GO"
    r"|KRB5|GSS|CURL|TMP|TEMP)"
    r"|(?i:.*_proxy$)|(?:PATH|HOME|USER|LOGNAME|SHELL|ENV|IFS|PWD|TERM|PS4|RUNYARD_SUPERVISION)$|_"
)
"""Names of variables that could change what the runtime or the programs that it starts do."""


@dataclass(slots=True)
class ContainerEnvironment:
    """A container's variables, by the way in which the runtime gets them."""

    lines: list[str] = field(default_factory=list)
    """Of an env-file in memory."""
    arguments: list[str] = field(default_factory=list)
    """Options on the command line, which every user of the machine can read."""
    inherited: dict[str, str] = field(default_factory=dict)
    """Variables of the runtime itself, which it hands on."""


def choose_variables(
    env: Mapping[str, str], *, secret_names: frozenset[str], exposure: str | None, warnings: list[str]
) -> dict[str, str]:
    """The variables that the container gets: without its token, where that would be written to disk in clear.

    `exposure` says why variables are written to disk, or is None. Raises `EngineRefusal` for other secrets.
    """
    kept = dict(env)
    if exposure is None:
        return kept
    exposed = [name for name in kept if name in secret_names and name not in TOKEN_VARIABLES]
    if exposed:
        raise EngineRefusal(
            Reason.SECRETS_EXPOSED,
            f"secrets as environment variables ({', '.join(exposed)}) would be written to disk in clear: "
            f"{exposure}; give each a `mount_path`, so that it is a file in memory",
        )
    tokens = [name for name in TOKEN_VARIABLES if kept.pop(name, None) is not None]
    if tokens:
        warnings.append(f"{', '.join(tokens)}: left out, because variables are not private: {exposure}")
    return kept


def split_environment(env: Mapping[str, str], *, secret_names: frozenset[str]) -> ContainerEnvironment:
    """Sort variables by the way in which the runtime gets them; raises `EngineRefusal` if there is none."""
    split = ContainerEnvironment()
    for name, value in env.items():
        is_short = len(name) + len(value.encode()) < LONGEST_ENV_LINE
        if is_short and _PLAIN_NAME.fullmatch(name) and _PLAIN_VALUE.fullmatch(value):
            split.lines.append(f"{name}={value}")
        elif name not in secret_names:
            split.arguments += ("--env", f"{name}={value}")
        elif _STEERS_RUNTIME.match(name):
            raise EngineRefusal(
                Reason.SECRETS_EXPOSED,
                f"the secret {name} cannot be an environment variable of a container here: its value has quotes or "
                "several lines, and a variable of this name could change what the container runtime does; "
                "give it another name or a `mount_path`",
            )
        else:
            split.arguments += ("--env", name)
            split.inherited[name] = value
    return split
