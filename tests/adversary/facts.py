"""The judge's inputs: the rendered objects, and the admin's inputs read from raw documents."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from runyard.spec.kubernetes.quantity import Quantity
from tests.adversary.cases import Case, World
from tests.adversary.raw import RawScope, read_scopes
from tests.adversary.raw_profiles import read_base, read_profile
from tests.adversary.raw_requests import RequestedFields

SCRATCH, SECRET_FILES = "runyard-scratch", "runyard-secrets"
DEFAULT_PROFILE = "default"
BUILT_IN_SIZE = Quantity.parse("2Gi")
PLATFORM: Mapping[str, Any] = {
    "pod_security": "restricted",
    "mem_tolerance": "1.1",
    "gpu_resources": ["nvidia.com/gpu"],
    "disk_medium": "ephemeral",
    "image_pull_secrets": [],
    "python_images": {f"PYTHON3_{minor}": f"python:3.{minor}" for minor in range(10, 15)},
}


class Facts:
    """The objects of a run, taken apart. Unexpected structure raises, which the judge reports as a complaint."""

    def __init__(
        self,
        objects: Sequence[Mapping[str, Any]],
        *,
        asked: RequestedFields | None = None,
        platform: Mapping[str, str] | None = None,
        is_anchor: bool = False,
    ) -> None:
        self.objects = objects
        self.asked = asked or RequestedFields()
        """What users asked for."""
        self.is_anchor = is_anchor
        self.platform = platform or {}
        """The platform's own variables with their expected values."""
        (self.workload,) = self.of("Job", "Deployment")
        self.is_job: bool = self.workload["kind"] == "Job"
        self.spec: Mapping[str, Any] = self.workload["spec"]
        self.template: Mapping[str, Any] = self.spec["template"]
        self.pod: Mapping[str, Any] = self.template["spec"]
        (self.container,) = self.pod["containers"]
        self.services = self.of("Service")
        self.claims = {claim["metadata"]["name"]: claim for claim in self.of("PersistentVolumeClaim")}
        self.config_maps = {config["metadata"]["name"]: config for config in self.of("ConfigMap")}
        self.secrets = {secret["metadata"]["name"]: secret for secret in self.of("Secret")}
        self.env = {entry["name"]: entry for entry in self.container.get("env", [])}
        self.volumes = {volume["name"]: volume for volume in self.pod.get("volumes", [])}
        self.mounts: list[Mapping[str, Any]] = self.container.get("volumeMounts", [])
        resources = self.container.get("resources", {})
        self.requests, self.limits = (
            {name: Quantity.parse(text) for name, text in resources.get(side, {}).items()}
            for side in ("requests", "limits")
        )

    def of(self, *kinds: str) -> list[Mapping[str, Any]]:
        return [item for item in self.objects if item["kind"] in kinds]

    def side(self, name: str, side: str) -> Quantity | None:
        """An amount by our name of the resource."""
        amounts = self.requests if side == "requests" else self.limits
        return amounts.get({"mem": "memory"}.get(name, name))

    def find_annotation(self, name: str) -> int | None:
        """The number in an annotation of the Job or Deployment."""
        value = self.workload["metadata"].get("annotations", {}).get(f"runyard.io/{name}")
        return None if value is None else int(value)

    def find_timing(self, name: str) -> int | None:
        """`timeout`, `ttl` or `replicas`; an anchor only states them, for our timer and for later patches."""
        if self.is_anchor:
            return self.find_annotation(name)
        key = {"timeout": "activeDeadlineSeconds", "ttl": "ttlSecondsAfterFinished"}.get(name, name)
        found: int | None = self.spec.get(key)
        return found

    @property
    def is_served(self) -> bool:
        return bool(self.services)

    def iter_secret_variables(self) -> Iterator[str]:
        for name, entry in self.env.items():
            if "valueFrom" in entry:
                yield name

    def get_variables(self) -> dict[str, Any]:
        """Every variable that the platform does not set: its text, or the reference that it comes from."""
        said = {name: entry.get("value", entry) for name, entry in self.env.items()}
        return {name: value for name, value in said.items() if value != self.platform.get(name)}

    def iter_secret_names(self) -> Iterator[str]:
        """Secrets in use, as variables and as files."""
        for name in self.iter_secret_variables():
            yield self.env[name]["valueFrom"]["secretKeyRef"]["key"]
        for item in self.volumes.get(SECRET_FILES, {}).get("secret", {}).get("items", []):
            yield item["key"]

    def find_config_files(self, volume: Mapping[str, Any], world: World) -> dict[str, str] | None:
        """The files that a `config_map` volume asks for; None where the project does not have them."""
        if "config_map" not in volume:
            return {key: str(value) for key, value in volume["data"].items()}
        name = str(volume["config_map"])
        if name.startswith("store://"):
            project, *kinds, name = name.removeprefix("store://").split("/")
            if project != self.platform["PROJECT_NAME"] or kinds != ["configmap", "configmap"]:
                return None
        return world.config_maps.get(name)

    def iter_user_volumes(self) -> Iterator[Mapping[str, Any]]:
        """The pod's volumes without the platform's own."""
        for name, volume in self.volumes.items():
            if name not in (SCRATCH, SECRET_FILES):
                yield volume

    def find_claim_spec(self, volume: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The spec of the claim that is made for a volume; None where none is made."""
        if "ephemeral" in volume:
            spec: Mapping[str, Any] = volume["ephemeral"]["volumeClaimTemplate"]["spec"]
            return spec
        if "persistentVolumeClaim" in volume:
            claim = self.claims.get(volume["persistentVolumeClaim"]["claimName"])
            return None if claim is None else claim["spec"]
        return None

    def find_disk(self) -> tuple[Quantity, str | None] | None:
        """Size and class of the scratch space."""
        volume = self.volumes.get(SCRATCH)
        if volume is None:
            return None
        if "emptyDir" in volume:
            return Quantity.parse(volume["emptyDir"]["sizeLimit"]), None
        spec = volume["ephemeral"]["volumeClaimTemplate"]["spec"]
        return Quantity.parse(spec["resources"]["requests"]["storage"]), spec.get("storageClassName")


@dataclass(frozen=True)
class AdminInputs:
    """The admin's inputs for one run: policy scopes, the profile that applies, and its base objects."""

    scopes: tuple[RawScope, ...]
    profile_id: str | None
    profile: Mapping[str, Any]
    bases: tuple[Mapping[str, Any], ...]

    def find_default(self, field: str) -> Any:
        """The narrowest default, unless a wider scope locks the field."""
        found = None
        for scope in self.scopes:
            rule = scope.rules.get(field, {})
            found = rule["default"] if rule.get("default") is not None else found
            if rule.get("locked"):
                break
        return found

    def is_locked(self, field: str) -> bool:
        return any(scope.rules.get(field, {}).get("locked") for scope in self.scopes)

    def find_locked(self, field: str) -> Any:
        """The value that the policy locks for everyone, or None."""
        return self.find_default(field) if self.is_locked(field) else None

    def platform(self, name: str) -> Any:
        said = [scope.platform[name] for scope in self.scopes if scope.platform.get(name) is not None]
        return said[-1] if said else PLATFORM[name]

    @cached_property
    def mem_tolerance(self) -> Decimal:
        """The smallest factor of all scopes: a project can only tighten."""
        said = [scope.platform["mem_tolerance"] for scope in self.scopes if "mem_tolerance" in scope.platform]
        return min(Decimal(str(factor)) for factor in said or [PLATFORM["mem_tolerance"]])

    @cached_property
    def python_images(self) -> set[str]:
        scopes = [PLATFORM, *(scope.platform for scope in self.scopes)]
        return {image for scope in scopes for image in scope.get("python_images", {}).values()}

    @cached_property
    def gpu_names(self) -> list[str]:
        """The GPU names of all scopes: a project's names do not hide the platform's."""
        said = [scope.platform["gpu_resources"] for scope in self.scopes if "gpu_resources" in scope.platform]
        lists = [[names] if isinstance(names, str) else names for names in said or [PLATFORM["gpu_resources"]]]
        return list(dict.fromkeys(name for names in reversed(lists) for name in names))

    def list_set_values(self, field: str) -> list[Any]:
        """Every value that the profile, its base objects or a policy default sets."""
        said = [layer[field] for layer in (self.profile, *self.bases) if field in layer]
        return said + self.list_clauses(field, "default")

    def sets_secret_variable(self, name: str) -> bool:
        """Whether the profile uses this secret as a variable; a file of the same secret is not one."""
        return any(use["name"] == name and use.get("mount_path") is None for use in self.profile.get("secrets", []))

    def list_clauses(self, field: str, clause: str) -> list[Any]:
        """The values of one clause of a field's rules, from all scopes."""
        rules = [scope.rules.get(field, {}) for scope in self.scopes]
        return [rule[clause] for rule in rules if rule.get(clause) is not None]

    def list_amounts(self, *names: str) -> list[Quantity]:
        """Every amount of a resource that the admin set. A `max` is a bound, not a value that the admin set."""
        layers = [layer.get("resources", {}) for layer in (self.profile, *self.bases)]
        said = [amount for layer in layers for name in names for amount in layer.get(name, {}).values()]
        fields = [f"resources.{name}{side}" for name in names for side in ("", ".requests", ".limits")]
        return said + [default for field in fields for default in self.list_clauses(field, "default")]

    def find_max(self, *fields: str) -> Any:
        """The smallest `max` of these fields, or None."""
        return min((cap for field in fields for cap in self.list_clauses(field, "max")), default=None)


def choose_profile(case: Case, scopes: Sequence[RawScope], known: Sequence[str]) -> str | None:
    """Which profile must apply: the policy's if it locks one, else the user's, the policy's default, `default`."""
    admin = AdminInputs(tuple(scopes), None, {}, ())
    asked = [layer["profile"] for layer in case.iter_layers() if layer.get("profile") not in (None, "")]
    default = admin.find_default("profile")
    if default is not None and (admin.is_locked("profile") or not asked):
        return str(default)
    if asked:
        return str(asked[-1])
    return DEFAULT_PROFILE if DEFAULT_PROFILE in known else None


class AdminDocuments:
    """The raw documents of a world, read once."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._scopes: dict[str, tuple[RawScope, ...]] = {}
        self._admin_inputs: dict[tuple[str, str | None, bool], AdminInputs] = {}
        self.profiles = [str(document["id"]) for file in world.profiles for document in file if "id" in document]

    def get_admin_inputs(self, case: Case) -> AdminInputs:
        """The admin's inputs for a case."""
        if case.project not in self._scopes:
            self._scopes[case.project] = tuple(read_scopes(self.world.policy, case.project))
        scopes = self._scopes[case.project]
        profile_id = choose_profile(case, scopes, self.profiles)
        key = (case.project, profile_id, case.action in ("job", "build"))
        if key not in self._admin_inputs:
            self._admin_inputs[key] = self._read_admin_inputs(scopes, profile_id, is_job=key[2])
        return self._admin_inputs[key]

    def _read_admin_inputs(self, scopes: tuple[RawScope, ...], profile_id: str | None, *, is_job: bool) -> AdminInputs:
        file = self.world.find_profile(profile_id) if profile_id is not None else None
        if file is None:
            return AdminInputs(scopes, profile_id, {}, ())
        (profile,) = (document for document in file if "id" in document)
        bases = [document for document in file if "id" not in document and (document["kind"] == "Job") == is_job]
        return AdminInputs(scopes, profile_id, read_profile(profile), tuple(map(read_base, bases)))
