"""Environment variables and secret files of a run's container, and the Secret that holds their values.

Only the run's own Secret is ever referenced: a run cannot reach another Secret of the namespace by its name.
"""

import base64
from collections.abc import Mapping
from typing import Any

from runyard.domain.effective_spec import EffectiveSpec
from runyard.manifests.identity import RunIdentity
from runyard.manifests.metadata import GENERATION_ANNOTATION, Marks
from runyard.manifests.names import secret_name

SECRETS_VOLUME = "runyard-secrets"
TOKEN_VARIABLES = ("DHCORE_ACCESS_TOKEN", "RUNYARD_TOKEN")
"""The variables with the run's token, for DigitalHub's SDK and for ours. Its value is in the run's Secret only."""


def get_platform_envs(identity: RunIdentity) -> dict[str, str]:
    """The variables that the platform sets in every run; without an endpoint, only those of an offline run."""
    envs = {"PROJECT_NAME": identity.project, "RUN_ID": identity.run_id}
    endpoint = identity.platform.endpoint
    if endpoint is not None:
        envs |= {
            "DHCORE_ENDPOINT": endpoint,
            "RUNYARD_ENDPOINT": endpoint,
            "RUNYARD_PROJECT": identity.project,
            "RUNYARD_RUN_ID": identity.run_id,
            "RUNYARD_RUN_UID": identity.run_uid,
        }
        if identity.namespace is not None:
            envs["DHCORE_NAMESPACE"] = identity.namespace
    if identity.platform.package_index is not None:
        envs |= _render_package_index(identity.platform.package_index)
    return envs


def _render_package_index(index: str) -> dict[str, str]:
    """The variables that pip and uv read. They use an index without TLS only if they are told to trust its host."""
    envs = {"PIP_INDEX_URL": index, "UV_DEFAULT_INDEX": index}
    scheme, _, rest = index.partition("://")
    if scheme == "http":
        host = rest.partition("/")[0].rpartition("@")[2]
        envs |= {"PIP_TRUSTED_HOST": host, "UV_INSECURE_HOST": host}
    return envs


def render_env(spec: EffectiveSpec, identity: RunIdentity) -> list[dict[str, Any]]:
    """The platform's variables, then secrets, then `envs`; each name once, the last one wins."""
    platforms = get_platform_envs(identity)
    entries: dict[str, dict[str, Any]] = {name: {"value": value} for name, value in platforms.items()}
    secrets = [*(TOKEN_VARIABLES if identity.platform.has_token else ())]
    secrets += [use.name for use in spec.secrets if use.is_variable]
    for name in secrets:
        entries[name] = {"valueFrom": {"secretKeyRef": {"name": secret_name(identity), "key": name}}}
    entries |= {name: {"value": value} for name, value in spec.envs.items()}
    return [{"name": name, **content} for name, content in entries.items()]


def render_secret(
    spec: EffectiveSpec, identity: RunIdentity, marks: Marks, *, values: Mapping[str, str], token: str | None
) -> list[dict[str, Any]]:
    """The run's Secret: its token, and only the secrets that it uses; an empty list if it has neither.

    That of an anchor states the generation, so that a settle of an older one does not delete it.
    """
    tokens = {} if token is None else dict.fromkeys(TOKEN_VARIABLES, token)
    # A secret that a policy allows a run to name like a platform variable wins, as its variable does.
    contents = {**tokens, **{use.name: values[use.name] for use in spec.secrets}}
    if not contents:
        return []
    notes = {} if marks.owner is None else {GENERATION_ANNOTATION: str(identity.generation)}
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": marks.render_metadata(secret_name(identity), annotations=notes),
            "type": "Opaque",
            "data": {name: base64.b64encode(value.encode()).decode() for name, value in contents.items()},
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
