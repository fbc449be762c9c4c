"""What a run's program finds: variables and secret files; and the Secret behind them.

Only the run's own Secret is ever referenced, so a Secret of the cluster that happens to have a user's secret's name is
out of reach.
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
    """What the platform itself tells every run."""
    return {"PROJECT_NAME": identity.project, "RUN_ID": identity.run_id}


def render_env(spec: EffectiveSpec, identity: RunIdentity) -> list[dict[str, Any]]:
    """The platform's variables, then secrets, then `envs`; each name once, with the value the spec decided."""
    platforms = get_platform_envs(identity)
    entries: dict[str, dict[str, Any]] = {name: {"value": value} for name, value in platforms.items()}
    for use in spec.secrets:
        if use.mount_path is None:
            entries[use.name] = {"valueFrom": {"secretKeyRef": {"name": secret_name(identity.run_id), "key": use.name}}}
    entries |= {name: {"value": value} for name, value in spec.envs.items()}
    return [{"name": name, **content} for name, content in entries.items()]


def render_secret(
    spec: EffectiveSpec, identity: RunIdentity, marks: Marks, *, values: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The run's Secret with what it uses and nothing else; none where nothing is secret."""
    if not spec.secrets:
        return []
    names = dict.fromkeys(use.name for use in spec.secrets)
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": marks.render_metadata(secret_name(identity.run_id)),
            "type": "Opaque",
            "data": {name: base64.b64encode(values[name].encode()).decode() for name in names},
        }
    ]


def render_secret_volumes(spec: EffectiveSpec, identity: RunIdentity) -> list[dict[str, Any]]:
    """The volume of secret files, if there are any."""
    names = dict.fromkeys(use.name for use in spec.secrets if use.mount_path)
    if not names:
        return []
    # The files are root's. With fs_group their group is the run's, and only that may read them; without it any user
    # of this one container must, since none of them owns the file and its group is root's.
    mode = 0o444 if spec.fs_group is None else 0o440
    source = {
        "secretName": secret_name(identity.run_id),
        "defaultMode": mode,
        "items": [{"key": name, "path": name} for name in names],
    }
    return [{"name": SECRETS_VOLUME, "secret": source}]


def render_secret_mounts(spec: EffectiveSpec) -> list[dict[str, Any]]:
    """Each secret file at its own path; what else stands in that folder stays."""
    return [
        {"name": SECRETS_VOLUME, "mountPath": use.mount_path, "subPath": use.name, "readOnly": True}
        for use in spec.secrets
        if use.mount_path
    ]
