"""Compares a pod of the cluster with the effective spec of its run, field by field. Shares no code with `manifests`."""

import re
from typing import Any

from runyard.spec.kubernetes.quantity import Quantity

Json = dict[str, Any]
_SIDES = ("requests", "limits")
ADDED_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Keys of the tolerations that the apiserver adds to every pod."""


def find_differences(effective: Json, pod: Json) -> list[str]:
    """Every field of the pod that is not as the effective spec says."""
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    context = spec["securityContext"]
    compared: dict[str, tuple[Any, Any]] = {
        "image": (effective["image"], container["image"]),
        "command": (effective.get("command", []), container.get("command", [])),
        "args": (effective.get("args", []), container.get("args", [])),
        "working_dir": (effective.get("working_dir"), container.get("workingDir")),
        "image_pull_policy": (
            effective.get("image_pull_policy", container["imagePullPolicy"]),
            container["imagePullPolicy"],
        ),
        "resources": (_read_wanted(effective), _read_amounts(container)),
        "envs": (effective.get("envs", {}), _read_envs(effective, container)),
        "secrets": (_list_secrets(effective), _list_secret_uses(spec, container)),
        "node_selector": (effective.get("node_selector", {}), spec.get("nodeSelector", {})),
        "tolerations": (effective.get("tolerations", []), _list_tolerations(spec)),
        "affinity": (_leave_empty_lists_out(effective.get("affinity", {})), spec.get("affinity", {})),
        "runtime_class": (effective.get("runtime_class"), spec.get("runtimeClassName")),
        "priority_class": (effective.get("priority_class"), spec.get("priorityClassName")),
        "grace_period": (effective.get("grace_period", 30), spec["terminationGracePeriodSeconds"]),
        "volumes": (_list_wanted_volumes(effective), _list_volumes(effective, spec, container)),
        **{
            name: (effective.get(name), context.get(key))
            for name, key in (("run_as_user", "runAsUser"), ("run_as_group", "runAsGroup"), ("fs_group", "fsGroup"))
        },
    }
    return [f"{name}: {wanted!r} became {found!r}" for name, (wanted, found) in compared.items() if wanted != found]


def _leave_empty_lists_out(value: Any) -> Any:
    """As the apiserver does: `namespaces: []` means the same as none."""
    if isinstance(value, dict):
        return {key: _leave_empty_lists_out(item) for key, item in value.items() if item != []}
    return [_leave_empty_lists_out(item) for item in value] if isinstance(value, list) else value


def _read_wanted(effective: Json) -> dict[tuple[str, str], int]:
    """Amounts in thousandths, by side and Kubernetes name."""
    wanted = {}
    for name, sides in effective.get("resources", {}).items():
        if name == "disk" or (name == "gpu" and "resource" not in sides):
            continue
        is_gpu, kubernetes_name = name == "gpu", {"mem": "memory"}.get(name, name)
        for side in _SIDES:
            if is_gpu:
                wanted[side, sides["resource"]] = Quantity.parse(sides["limits"]).milli_value
            elif side in sides:
                wanted[side, kubernetes_name] = Quantity.parse(sides[side]).milli_value
    return wanted


def _read_amounts(container: Json) -> dict[tuple[str, str], int]:
    found = container["resources"]
    return {
        (side, name): Quantity.parse(text).milli_value for side in _SIDES for name, text in found.get(side, {}).items()
    }


def _read_envs(effective: Json, container: Json) -> dict[str, str]:
    """The variables that are no secrets; of the platform's own only those that the spec names."""
    wanted = effective.get("envs", {})
    given = {entry["name"]: entry.get("value", "") for entry in container["env"] if "valueFrom" not in entry}
    is_of_platform = re.compile(r"(DHCORE|RUNYARD|DIGITALHUB)_.*|RUN_ID|PROJECT_NAME|HOME|TMPDIR")
    return {name: value for name, value in given.items() if name in wanted or not is_of_platform.fullmatch(name)}


def _list_secrets(effective: Json) -> list[tuple[str, str | None]]:
    uses = effective.get("secrets", [])
    return sorted(((use["name"], use.get("mount_path")) for use in uses), key=str)


def _list_secret_uses(spec: Json, container: Json) -> list[tuple[str, str | None]]:
    """Secrets as variables, which have the secret's name, and as files."""
    own = [entry for entry in container["env"] if "secretKeyRef" in entry.get("valueFrom", {})]
    variables = [(entry["name"], None) for entry in own if not entry["name"].startswith(("RUNYARD_", "DHCORE_"))]
    keys = {
        (volume["name"], item["path"]): item["key"]
        for volume in spec.get("volumes", [])
        if "secret" in volume
        for item in volume["secret"].get("items", [])
    }
    files = [
        (keys[mount["name"], mount["subPath"]], mount["mountPath"])
        for mount in container.get("volumeMounts", [])
        if (mount["name"], mount.get("subPath", "")) in keys
    ]
    return sorted([*variables, *files], key=str)


def _list_tolerations(spec: Json) -> list[Json]:
    return [one for one in spec["tolerations"] if one.get("key") not in ADDED_TOLERATIONS]


def _list_wanted_volumes(effective: Json) -> dict[str, Any]:
    """Kind, size, storage class and sub-path, by mount path. Sizes in thousandths, to which the apiserver rounds."""
    wanted = {volume["mount_path"]: _describe_wanted(volume) for volume in effective.get("volumes", [])}
    if disk := effective.get("resources", {}).get("disk"):
        wanted["/shared"] = ("ephemeral", Quantity.parse(disk["size"]).milli_value, disk.get("storage_class"), None)
    return wanted


def _describe_wanted(volume: Json) -> tuple[Any, ...]:
    size = Quantity.parse(volume["size"]).milli_value if "size" in volume else None
    kind, sub_path = volume["type"], volume.get("sub_path")
    if kind in ("persistent_volume_claim", "shared_volume"):
        return ("claim", None, None, sub_path)
    if kind == "config_map":
        return (kind, None, None, sub_path)
    if kind == "empty_dir":
        return (kind, size, volume.get("medium") or None, sub_path)
    if kind == "image":
        return (kind, None, volume["image"], sub_path)
    return (kind, size, volume.get("storage_class"), sub_path)


def _list_volumes(effective: Json, spec: Json, container: Json) -> dict[str, Any]:
    sources = {volume["name"]: volume for volume in spec.get("volumes", [])}
    wanted = _list_wanted_volumes(effective)
    mounts = {mount["mountPath"]: mount for mount in container.get("volumeMounts", [])}
    is_other = {path for path, mount in mounts.items() if "secret" in sources[mount["name"]]} - set(wanted)
    return {
        path: _describe_volume(sources[mount["name"]], mount) for path, mount in mounts.items() if path not in is_other
    }


def _describe_volume(source: Json, mount: Json) -> tuple[Any, ...]:
    sub_path = mount.get("subPath")
    if "persistentVolumeClaim" in source:
        return ("claim", None, None, sub_path)
    if "configMap" in source:
        return ("config_map", None, None, sub_path)
    if "emptyDir" in source:
        found = source["emptyDir"]
        size = Quantity.parse(found["sizeLimit"]).milli_value if "sizeLimit" in found else None
        return ("empty_dir", size, found.get("medium") or None, sub_path)
    if "image" in source:
        return ("image", None, source["image"]["reference"], sub_path)
    template = source["ephemeral"]["volumeClaimTemplate"]["spec"]
    size = Quantity.parse(template["resources"]["requests"]["storage"]).milli_value
    return ("ephemeral", size, template.get("storageClassName"), sub_path)
