"""What cannot become objects, told before anything is rendered, and all at once.

Most of it never gets past `domain`; nothing here relies on that, because a bad object is refused by the apiserver only
after the anchor was made.
"""

from collections.abc import Iterator, Mapping

from runyard.domain.effective_spec import EffectiveSpec
from runyard.spec.names import check_config_key
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused, list_words
from runyard.spec.volumes import SCRATCH_PATH, Volume

MOST_SECRET_BYTES = 1_048_576
"""Kubernetes' own limit for all values of a Secret together."""


def check_workload(spec: EffectiveSpec) -> None:
    """Raise `Refused` where the Job or Deployment, its Services and claims cannot be rendered."""
    _finish([*_iter_workload_problems(spec)])


def check_run(spec: EffectiveSpec, *, secret_values: Mapping[str, str]) -> None:
    """The same for the whole run: every secret that it uses needs its value."""
    _finish([*_iter_workload_problems(spec), *_iter_secret_problems(spec, secret_values)])


def _finish(problems: list[Problem]) -> None:
    if problems:
        raise Refused(problems)


def _iter_workload_problems(spec: EffectiveSpec) -> Iterator[Problem]:
    if spec.action == "build":
        yield Problem(
            Code.ACTION_UNSUPPORTED,
            ("action",),
            "building images is not possible yet",
            value=spec.action,
            allowed="job, serve, deploy",
        )
    if not spec.image:
        yield Problem(Code.FIELD_MISSING, ("image",), "a run needs an `image`")
    if spec.kind == "python" and not spec.command:
        message = "a python function cannot be started without a `command` yet"
        yield Problem(Code.FIELD_MISSING, ("command",), message, allowed="the program to start, as words")
    for field in ("run_as_user", "run_as_group", "fs_group"):
        given = getattr(spec, field)
        if given is not None and given < 1:
            yield Problem(Code.IDENTITY_ROOT, (field,), "a run is never root", value=given, allowed="1 or more")
    if spec.gpu and not spec.gpu_resource:
        yield Problem(Code.GPU_RESOURCE, ("resources", "gpu"), "GPUs have no resource name here", value=spec.gpu)
    if spec.action == "serve" and spec.service_type == "ExternalName":
        yield Problem(
            Code.SERVICE_TYPE_UNSUPPORTED,
            ("service_type",),
            "a Service of this type has no pods behind it",
            value=spec.service_type,
            allowed="ClusterIP, NodePort, LoadBalancer",
        )
    for index, volume in enumerate(spec.volumes):
        if lacking := _find_lacking(volume):
            message = f"a {volume.type} needs its `{lacking}`"
            yield Problem(Code.FIELD_MISSING, ("volumes", index, "spec", lacking), message)
    yield from _iter_clashes(spec)


def _find_lacking(volume: Volume) -> str | None:
    match volume.type:
        case "persistent_volume_claim" if volume.claim_name is None and volume.size is None:
            return "size"
        case "ephemeral" if volume.size is None:
            return "size"
        case "shared_volume" if volume.claim_name is None:
            return "claim_name"
        case "image" if not volume.image:
            return "image"
        case "config_map" if volume.data is None and volume.config_map is None:
            return "data"
    return None


def _iter_clashes(spec: EffectiveSpec) -> Iterator[Problem]:
    """One path with two mounts, one variable with two values: each was decided, and only one can be."""
    taken = {SCRATCH_PATH: "`resources.disk`"} if spec.disk else {}
    mounts = [(("volumes", index, "mount_path"), volume.mount_path) for index, volume in enumerate(spec.volumes)]
    mounts += [(("secrets", i, "mount_path"), use.mount_path) for i, use in enumerate(spec.secrets) if use.mount_path]
    for path, mount_path in mounts:
        if mount_path in taken:
            message = f"{taken[mount_path]} is mounted there"
            yield Problem(Code.MOUNT_PATH_TWICE, path, message, value=mount_path)
        taken.setdefault(mount_path, "another volume or secret")
    for index, use in enumerate(spec.secrets):
        if use.mount_path is None and use.name in spec.envs:
            message = f"`{use.name}` is also a variable of `envs`"
            yield Problem(Code.SECRETS_ENV_TWICE, ("secrets", index), message, value=use.name)


def _iter_secret_problems(spec: EffectiveSpec, values: Mapping[str, str]) -> Iterator[Problem]:
    used = {use.name: values.get(use.name) for use in spec.secrets}
    for index, use in enumerate(spec.secrets):
        if used[use.name] is None:
            message = f"the secret `{use.name}` has no value"
            known = f"secrets with values: {list_words(sorted(values))}" if values else None
            yield Problem(Code.SECRETS_MISSING, ("secrets", index), message, value=use.name, allowed=known)
        if error := check_config_key(use.name):
            yield Problem(Code.SECRETS_NAME, ("secrets", index), error, value=use.name)
    if sum(len(value.encode()) for value in used.values() if value) > MOST_SECRET_BYTES:
        yield Problem(
            Code.SIZE_BYTES, ("secrets",), "the secrets of one run are too large", allowed=f"{MOST_SECRET_BYTES} bytes"
        )
