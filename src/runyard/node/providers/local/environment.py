"""The environment and the command line of a container, as a kubelet resolves them. Pure."""

import base64
from collections.abc import Mapping

from runyard.node.providers.provider import Object, ProviderRefused, Workload


def container_environment(workload: Workload, container: Object, *, base: Mapping[str, str]) -> dict[str, str]:
    """`base`, then `envFrom`, then `env`. Raises `ProviderRefused` where something needed is missing."""
    env = dict(base)
    for source in container.get("envFrom") or []:
        prefix = source.get("prefix", "")
        for name, value in _all_values(workload, container, source).items():
            env[prefix + name] = value
    for entry in container.get("env") or []:
        resolved = _entry_value(workload, container, entry, env)
        if resolved is not None:
            env[entry["name"]] = resolved
    return env


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by its value; `$$` is a dollar sign, and unknown names stay as they are."""
    parts: list[str] = []
    position = 0
    while (dollar := text.find("$", position)) >= 0:
        parts.append(text[position:dollar])
        following = text[dollar + 1 : dollar + 2]
        end = text.find(")", dollar) if following == "(" else -1
        if following == "(" and end < 0:
            position = dollar  # No reference ends after this one either.
            break
        if following == "(":
            parts.append(env.get(text[dollar + 2 : end], text[dollar : end + 1]))
            position = end + 1
        else:
            parts.append("$")
            position = dollar + 2 if following == "$" else dollar + 1
    return "".join((*parts, text[position:]))


def read_config_map(config_map: Object) -> dict[str, bytes]:
    """Its entries as bytes."""
    texts = {name: value.encode() for name, value in (config_map.get("data") or {}).items()}
    return texts | {name: base64.b64decode(value) for name, value in (config_map.get("binaryData") or {}).items()}


def read_secret(secret: Object) -> dict[str, bytes]:
    """Its entries as bytes."""
    return {name: base64.b64decode(value or "") for name, value in (secret.get("data") or {}).items()}


def _all_values(workload: Workload, container: Object, source: Object) -> dict[str, str]:
    for field, found, read in (
        ("configMapRef", workload.config_maps, read_config_map),
        ("secretRef", workload.secrets, read_secret),
    ):
        if reference := source.get(field):
            if reference["name"] in found:
                return {name: _text(value) for name, value in read(found[reference["name"]]).items()}
            if not reference.get("optional"):
                raise _missing(container, f"envFrom refers to {field[:-3]} {reference['name']}, which does not exist")
    return {}


def _entry_value(workload: Workload, container: Object, entry: Object, env: Mapping[str, str]) -> str | None:
    source = entry.get("valueFrom")
    if not source:
        return expand(entry.get("value", ""), env)
    for field, found, read in (
        ("configMapKeyRef", workload.config_maps, read_config_map),
        ("secretKeyRef", workload.secrets, read_secret),
    ):
        if reference := source.get(field):
            values = read(found.get(reference["name"], {}))
            if reference["key"] in values:
                return _text(values[reference["key"]])
            if reference.get("optional"):
                return None
            where = f"{field[:-6]} {reference['name']}"
            raise _missing(
                container, f"env {entry['name']} refers to key {reference['key']} of {where}, which is missing"
            )
    raise _missing(container, f"env {entry['name']} has a source that the provider `local` does not know")


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _missing(container: Object, message: str) -> ProviderRefused:
    return ProviderRefused("CreateContainerConfigError", f"container {container['name']}: {message}")
