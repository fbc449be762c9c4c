"""Environment variables and secret files of a run's container, and the Secret that holds their values.

Only the run's own Secret is ever referenced: a run cannot reach another Secret of the namespace by its name.
"""

import base64
from collections.abc import Mapping
from typing import Any

from runyard.domain.effective_spec import EffectiveSpec
from runyard.manifests.identity import RunIdentity
from runyard.manifests.metadata import Marks
from runyard.manifests.names import secret_name

SECRETS_VOLUME = "runyard-secrets"


def get_platform_envs(identity: RunIdentity) -> dict[str, str]:
    """The variables that the platform sets in every run."""
    return {"PROJECT_NAME": identity.project, "RUN_ID": identity.run_id}


def render_env(spec: EffectiveSpec, identity: RunIdentity) -> list[dict[str, Any]]:
    """The platform's variables, then secrets, then `envs`; each name once, the last one wins."""
    platforms = get_platform_envs(identity)
    entries: dict[str, dict[str, Any]] = {name: {"value": value} for name, value in platforms.items()}
    for use in spec.secrets:
        if use.is_variable:
            entries[use.name] = {"valueFrom": {"secretKeyRef": {"name": secret_name(identity), "key": use.name}}}
    entries |= {name: {"value": value} for name, value in spec.envs.items()}
    return [{"name": name, **content} for name, content in entries.items()]


def render_secret(
    spec: EffectiveSpec, identity: RunIdentity, marks: Marks, *, values: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The run's Secret, with only the secrets that it uses; an empty list if it uses none."""
    if not spec.secrets:
        return []
    names = dict.fromkeys(use.name for use in spec.secrets)
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": marks.render_metadata(secret_name(identity)),
            "type": "Opaque",
            "data": {name: base64.b64encode(values[name].encode()).decode() for name in names},
        }
    ]


def render_secret_volumes(spec: EffectiveSpec, identity: RunIdentity) -> list[dict[str, Any]]:
    """The volume with the secret files, if there are any."""
    names = dict.fromkeys(use.name for use in spec.secrets if use.mount_path)
    if not names:
        return []
    # Root owns the files. With fs_group their group is the run's, and only it may read them. Without it every user
    # of the container must be able to read them, since neither owner nor group is the run's.
    mode = 0o444 if spec.fs_group is None else 0o440
    source = {
        "secretName": secret_name(identity),
        "defaultMode": mode,
        "items": [{"key": name, "path": name} for name in names],
    }
    return [{"name": SECRETS_VOLUME, "secret": source}]


def render_secret_mounts(spec: EffectiveSpec) -> list[dict[str, Any]]:
    """Each secret file at its own path (`subPath`); other files of that directory stay visible."""
    return [
        {"name": SECRETS_VOLUME, "mountPath": use.mount_path, "subPath": use.name, "readOnly": True}
        for use in spec.secrets
        if use.mount_path
    ]
