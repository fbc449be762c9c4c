"""Fields one level too high: typical of a pasted snippet that lost its indentation."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, shorten

_HOMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "cpu": ("resources",),
        "mem": ("resources",),
        "gpu": ("resources",),
        "disk": ("resources",),
        "requests": ("resources",),
        "limits": ("resources",),
        "volume_type": ("volumes",),
        "mount_path": ("volumes", "secrets"),
        "spec": ("volumes",),
        "size": ("volumes",),
        "size_limit": ("volumes",),
        "storage_class": ("volumes",),
        "claim_name": ("volumes",),
        "name": ("volumes", "envs", "secrets"),
        "value": ("envs", "node_selector"),
        "key": ("node_selector", "tolerations"),
        "operator": ("tolerations",),
        "effect": ("tolerations",),
        "node_affinity": ("affinity",),
        "pod_affinity": ("affinity",),
        "pod_anti_affinity": ("affinity",),
        "target_port": ("service_ports",),
        "port": ("service_ports",),
    }
)
_IN_SPEC = frozenset({"size", "size_limit", "storage_class", "claim_name"})


def find_misplaced(
    given: Mapping[str, Any], known: Iterable[str], *, spelling: Mapping[str, str]
) -> dict[str, Problem]:
    """For each unknown key that belongs under another field, the problem that names that field."""
    names = set(known)
    found = {}
    for key, value in given.items():
        homes = [home for home in _HOMES.get(key, ()) if home in names]
        if key in names or not homes:
            continue
        home = next((candidate for candidate in homes if candidate in given), homes[0])
        place = f"{home}[].spec" if key in _IN_SPEC else home if home in ("resources", "affinity") else f"{home}[]"
        written = spelling[key]
        message = f"`{written}` belongs under `{place}`"
        if home in given:
            message += "; check the indentation"
        shown = value if isinstance(value, str | int | float) else None
        found[key] = Problem(Code.FIELD_MISPLACED, (written,), message, value=shown, suggestion=_show(home, key, shown))
    return found


def _show(home: str, key: str, value: Any) -> str | None:
    return None if value is None else f"{home}: {{{key}: {shorten(value)}}}" if home == "resources" else None
