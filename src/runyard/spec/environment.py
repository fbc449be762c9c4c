"""`envs`, `secrets`, `node_selector` and `labels`: names and values, as a list of pairs or as a mapping."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from runyard.spec.names import check_env_name, check_label_value, check_qualified_name, check_slug, suggest_env_name
from runyard.spec.problem_codes import Code
from runyard.spec.problems import MOST_BITS, Problem
from runyard.spec.readers import (
    Findings,
    describe_type,
    expect_keys,
    expect_list,
    expect_mapping,
    expect_text,
    fold_keys,
    has_unpaired_surrogates,
    refuse,
)
from runyard.spec.volumes import read_mount_path

MOST_VALUE_CHARACTERS = 32_768
MOST_ENVIRONMENT_CHARACTERS = 262_144

RESERVED_LABELS = ("runyard.io/", "dhcore/", "batch.kubernetes.io/", "app.kubernetes.io/")
CONTROLLERS_LABELS = frozenset({"controller-uid", "job-name", "pod-template-hash"})

_PAIRS = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}


def _list_schema(key: str, examples: tuple[str, str], *, of: str) -> dict[str, Any]:
    entry = {"type": "object", "required": [key, "value"], "additionalProperties": False}
    values = {"type": ["string", "number", "boolean"], "description": f"Value of the {of}.", "examples": [examples[1]]}
    properties = {
        key: {"type": "string", "description": f"Name of the {of}.", "examples": [examples[0]]},
        "value": values,
    }
    return {"type": "array", "items": {**entry, "properties": properties}}


ENVS_SCHEMA: dict[str, Any] = {
    "description": "Environment variables; numbers and booleans are converted to text.",
    "anyOf": [_list_schema("name", ("HF_HOME", "/local-data/huggingface"), of="variable"), _PAIRS],
    "examples": [[{"name": "HF_HOME", "value": "/local-data/huggingface"}], {"EPOCHS": 3}],
}
NODE_SELECTOR_SCHEMA: dict[str, Any] = {
    "description": "Labels that the node must have.",
    "anyOf": [_list_schema("key", ("disktype", "ssd"), of="label"), _PAIRS],
    "examples": [[{"key": "disktype", "value": "ssd"}], {"disktype": "ssd"}],
}
SECRETS_SCHEMA: dict[str, Any] = {
    "description": "Secrets of the project: as environment variables of the same names, or as files.",
    "type": "array",
    "items": {
        "anyOf": [
            {"type": "string"},
            {
                "type": "object",
                "required": ["name"],
                "additionalProperties": False,
                "properties": {
                    "name": {"type": "string", "description": "Name of the secret.", "examples": ["kaggle"]},
                    "mount_path": {
                        "type": "string",
                        "description": "File to write the value to; without it the value is an environment variable.",
                        "examples": ["/secrets/kaggle.json"],
                    },
                },
            },
        ]
    },
    "examples": [["my-secret-key", {"name": "kaggle", "mount_path": "/secrets/kaggle.json"}]],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretUse:
    """A secret used by a run: as an environment variable of the same name, or as a file."""

    name: str
    mount_path: str | None = None

    @property
    def is_variable(self) -> bool:
        """Whether it sets an environment variable: all rules for `envs` apply to it as well."""
        return self.mount_path is None


def read_envs(given: Any) -> Mapping[str, str]:
    """Environment variables, in their order."""
    envs = _read_pairs(given, key="name", what="variables", read_key=_read_env_name, read_value=_read_env_value)
    if sum(map(len, envs.values())) > MOST_ENVIRONMENT_CHARACTERS:
        raise refuse(
            Code.SIZE_CHARACTERS,
            "the environment is too large",
            allowed=f"at most {MOST_ENVIRONMENT_CHARACTERS} characters",
        )
    return envs


def read_node_selector(given: Any) -> Mapping[str, str]:
    """Labels and their values."""
    return _read_pairs(given, key="key", what="labels", read_key=_read_label_key, read_value=_read_label_value)


def read_labels(given: Any) -> Mapping[str, str]:
    """An admin's labels of objects, as in DigitalHub (`[{name, value}]`) or as a mapping."""
    return _read_pairs(given, key="name", what="labels", read_key=_read_own_label, read_value=_read_label_value)


def read_secrets(given: Any) -> tuple[SecretUse, ...]:
    """The secrets that a run uses; duplicate names and mount paths are refused."""
    findings = Findings()
    uses: list[SecretUse] = []
    for index, entry in enumerate(expect_list(given, of="names")):
        use = findings.read(_read_secret, entry, index)
        if use is None:
            continue
        if any(use.name == other.name for other in uses):
            findings.add(Code.SECRETS_TWICE, (index,), f"duplicate secret `{use.name}`", value=use.name)
        if use.mount_path and any(use.mount_path == other.mount_path for other in uses):
            findings.add(
                Code.SECRETS_PATH_TWICE,
                (index, "mount_path"),
                "another secret has the same mount path",
                value=use.mount_path,
            )
        uses.append(use)
    findings.finish()
    return tuple(uses)


def find_variables_set_twice(envs: Mapping[str, str] | None, secrets: Sequence[SecretUse] | None) -> list[Problem]:
    """A problem for each secret that sets a variable which `envs` sets as well."""
    return [
        Problem(
            Code.SECRETS_ENV_TWICE,
            ("secrets", index),
            f"`{use.name}` is also a variable of `envs`",
            value=use.name,
            allowed="one of them, or a `mount_path` for the secret",
        )
        for index, use in enumerate(secrets or ())
        if use.is_variable and use.name in (envs or ())
    ]


def _read_secret(given: Any) -> SecretUse:
    if isinstance(given, str):
        return SecretUse(name=_read_secret_name(given))
    findings = Findings()
    entry, _ = fold_keys(expect_mapping(given, of="a secret's `name` and `mount_path`"), findings)
    expect_keys(entry, ("name", "mount_path"), findings)
    if entry.get("name") is None:
        findings.add(Code.FIELD_MISSING, ("name",), "a secret needs `name`")
    name = findings.read(_read_secret_name, entry["name"], "name") if entry.get("name") is not None else ""
    path = entry.get("mount_path")
    mount_path = findings.read(read_mount_path, path, "mount_path") if path is not None else None
    findings.finish()
    return SecretUse(name=name or "", mount_path=mount_path)


def _read_secret_name(given: Any) -> str:
    name = expect_text(given, what="a secret's name", most=253)
    if error := check_slug(name) or check_env_name(name):
        raise refuse(Code.SECRETS_NAME, error, value=name, suggestion=suggest_env_name(name))
    return name


_TWICE = {"name": Code.NAME_TWICE, "key": Code.KEY_TWICE}


def _read_pairs(
    given: Any,
    *,
    key: str,
    what: str,
    read_key: Callable[[Any], str],
    read_value: Callable[[Any], str],
) -> Mapping[str, str]:
    findings = Findings()
    pairs: dict[str, str] = {}

    def add(name: str | None, value: str | None, *path: str | int) -> None:
        if name is None or value is None:
            return
        if name in pairs:
            findings.add(_TWICE[key], path, f"duplicate {key} `{name}`", value=name)
        pairs[name] = value

    if isinstance(given, Mapping):
        for name, value in expect_mapping(given, of=what).items():
            add(findings.read(read_key, name, name), findings.read(read_value, value, name), name)
        findings.finish()
        return MappingProxyType(pairs)
    if not isinstance(given, (list, tuple)):
        allowed = f"[{{{key}: …, value: …}}] or {{{key}: value}}"
        message = f"must be a list or mapping of {what}, not {describe_type(given)}"
        raise refuse(Code.TYPE_PAIRS, message, value=given, allowed=allowed)
    for index, entry in enumerate(expect_list(given, of=what)):
        fields = findings.read(lambda entry: expect_mapping(entry, of=f"`{key}` and `value`"), entry, index)
        if fields is None:
            continue
        expect_keys(fields, (key, "value"), findings, index)
        for name in (key, "value"):
            if fields.get(name) is None:
                findings.add(Code.FIELD_MISSING, (index, name), f"an entry needs `{name}`")
        word = findings.read(read_key, fields[key], index, key) if fields.get(key) is not None else None
        value = findings.read(read_value, fields["value"], index, "value") if fields.get("value") is not None else None
        add(word, value, index, key)
    findings.finish()
    return MappingProxyType(pairs)


def read_plain_text(given: Any) -> str:
    """Text; numbers and booleans are converted as in YAML."""
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, int) and given.bit_length() > MOST_BITS:
        raise refuse(Code.TEXT_LONG, "the number is too long", value=given)
    if isinstance(given, (int, float)):
        return str(given)
    if not isinstance(given, str):
        raise refuse(Code.TYPE_TEXT, f"must be text, a number or true/false, not {describe_type(given)}", value=given)
    if "\0" in given or has_unpaired_surrogates(given):
        raise refuse(Code.TEXT_CONTROL, "must not contain NUL or unpaired surrogates")
    if len(given) > MOST_VALUE_CHARACTERS:
        raise refuse(Code.TEXT_LONG, f"has {len(given)} characters", allowed=f"at most {MOST_VALUE_CHARACTERS}")
    return given


def _read_env_name(given: Any) -> str:
    name = expect_text(given, what="a variable's name", most=253)
    if error := check_env_name(name):
        raise refuse(Code.ENVS_NAME, error, value=name, suggestion=suggest_env_name(name))
    return name


_read_env_value = read_plain_text


def _read_label_key(given: Any) -> str:
    name = expect_text(given, what="a label's key", most=317)
    if error := check_qualified_name(name):
        raise refuse(Code.LABEL_KEY, error, value=name)
    return name


def _read_own_label(given: Any) -> str:
    name = _read_label_key(given)
    if name.startswith(RESERVED_LABELS) or name in CONTROLLERS_LABELS:
        raise refuse(Code.LABEL_RESERVED, "this label is reserved for the platform or Kubernetes", value=name)
    return name


def _read_label_value(given: Any) -> str:
    value = read_plain_text(given)
    if error := check_label_value(value):
        raise refuse(Code.LABEL_VALUE, error, value=value)
    return value
