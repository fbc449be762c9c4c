"""A local pod as the provider gets to see it: without what belongs to the local cluster, its own fields resolved.

- Scheduling, priority, service account, node and overhead are dropped: the provider has its own.
- The volume `kube-api-access-…`, which every pod gets, is dropped with its mounts: its token is the local cluster's.
- References of an environment to the pod's metadata, node and service account become values. Those of downward API
  volumes become files of one generated ConfigMap, `DOWNWARD_API`, so that labels and annotations keep changing.
- `status.podIP` and amounts of resources stay references: the provider resolves them.
- Service account tokens that the pod asks for are refused, or, where allowed, become files of a generated Secret.
- Readiness gates are dropped: their conditions are set on the local pod, and judged there (`statuses`).
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runyard.node.mirror.field_references import OF_THE_PROVIDER, LocalFields, escape_expansion
from runyard.node.offer import Shape
from runyard.node.providers.provider import Object, Workload
from runyard.pods.references import ReferenceKind, iter_references

DOWNWARD_API = "k8s.gpu/downward-api"
"""The generated ConfigMap. No object can have this name."""
TOKENS = "k8s.gpu/tokens"
"""The generated Secret of service account tokens."""
SHORTEST_TOKEN_SECONDS = 600
MOST_REFERENCES = 100
"""How many ConfigMaps and Secrets a pod may refer to."""
LONGEST_HOST_NAME = 63

_LOCAL_FIELDS = (
    *("serviceAccount", "serviceAccountName", "nodeName", "nodeSelector", "affinity", "tolerations", "schedulerName"),
    *("priority", "priorityClassName", "preemptionPolicy", "overhead", "runtimeClassName", "topologySpreadConstraints"),
    *("schedulingGates", "resourceClaims", "readinessGates", "ephemeralContainers", "workloadRef", "schedulingGroup"),
)
_VOLUMES = frozenset({"configMap", "secret", "emptyDir", "projected", "downwardAPI", "image"})
_SOURCES = frozenset({"configMap", "secret", "downwardAPI", "serviceAccountToken"})
_API_ACCESS = "kube-api-access-"
_LOCAL_ANNOTATIONS = ("k8s.gpu/", "kubectl.kubernetes.io/last-applied-configuration", "kubernetes.io/config.")


class Untranslatable(Exception):
    """The pod cannot run at a provider. `reason` is one CamelCase word, for its status."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True, order=True)
class Needed:
    """A ConfigMap or Secret of the pod's namespace that the pod refers to."""

    kind: ReferenceKind
    name: str
    is_optional: bool
    """Whether every reference to it is optional."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSource:
    """A service account token that the pod has as a file."""

    key: str
    """In the Secret `TOKENS`."""
    audience: str
    """Empty: the cluster's own."""
    expiration_seconds: int


@dataclass(frozen=True, slots=True)
class TranslatedPod:
    """A pod that is ready to be started, but for the contents of what it needs."""

    spec: Object
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    needed: tuple[Needed, ...]
    generated: Mapping[str, Object]
    """ConfigMaps that exist nowhere else."""
    tokens: tuple[TokenSource, ...] = ()

    def to_workload(
        self,
        pod: Mapping[str, Any],
        *,
        shape: Shape,
        config_maps: Mapping[str, Object],
        secrets: Mapping[str, Object],
    ) -> Workload:
        """The workload, with the contents of what it needs by local name."""
        metadata = pod["metadata"]
        return Workload(
            uid=metadata["uid"],
            namespace=metadata["namespace"],
            name=metadata["name"],
            shape=shape,
            labels=self.labels,
            annotations=self.annotations,
            spec=self.spec,
            config_maps={**config_maps, **self.generated},
            secrets=secrets,
        )


def translate_pod(pod: Mapping[str, Any], *, host_address: str, allows_tokens: bool = False) -> TranslatedPod:
    """The pod as a provider gets it. Never changes `pod`. Raises `Untranslatable`, in words that name the field.

    `allows_tokens`: whether service account tokens that the pod asks for are handed to the provider.
    """
    volumes = _Volumes(LocalFields(pod, host_address), allows_tokens=allows_tokens)
    spec: Object = {key: copy.deepcopy(value) for key, value in pod["spec"].items() if key not in _LOCAL_FIELDS}
    spec["automountServiceAccountToken"] = False
    spec["enableServiceLinks"] = False
    spec.setdefault("hostname", _host_name(pod["metadata"]["name"]))
    _drop_api_access(spec)
    for path, container in _iter_containers(spec):
        (container.get("resources") or {}).pop("claims", None)
        _resolve_environment(container, volumes.fields, path)
    volumes.resolve(spec)
    metadata = pod["metadata"]
    return TranslatedPod(
        spec=spec,
        labels=metadata.get("labels") or {},
        annotations={
            key: value
            for key, value in (metadata.get("annotations") or {}).items()
            if not key.startswith(_LOCAL_ANNOTATIONS)
        },
        needed=_list_needed(spec),
        generated={DOWNWARD_API: {"data": volumes.files}} if volumes.files else {},
        tokens=tuple(volumes.tokens),
    )


def _host_name(name: str) -> str:
    """The local name, as far as it can be a host's: a `hostname` has no dots, and 63 characters at most."""
    return name.replace(".", "-")[:LONGEST_HOST_NAME].strip("-")


def _drop_api_access(spec: Object) -> None:
    volumes = spec.get("volumes") or []
    dropped = {volume["name"] for volume in volumes if _is_api_access(volume)}
    if not dropped:
        return
    spec["volumes"] = [volume for volume in volumes if volume["name"] not in dropped]
    for _, container in _iter_containers(spec):
        mounts = container.get("volumeMounts") or []
        container["volumeMounts"] = [mount for mount in mounts if mount.get("name") not in dropped]


def _is_api_access(volume: Mapping[str, Any]) -> bool:
    sources = (volume.get("projected") or {}).get("sources") or ()
    return volume["name"].startswith(_API_ACCESS) and any("serviceAccountToken" in source for source in sources)


def _iter_containers(spec: Mapping[str, Any]) -> Iterator[tuple[str, Object]]:
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield f"spec.{field}[{index}]", container


def _resolve_environment(container: Object, fields: LocalFields, path: str) -> None:
    for index, variable in enumerate(container.get("env") or ()):
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is None or reference.get("fieldPath") in OF_THE_PROVIDER:
            continue
        value = _resolve(reference, fields, f"{path}.env[{index}].valueFrom.fieldRef")
        del variable["valueFrom"]
        variable["value"] = escape_expansion(value)


def _resolve(reference: Mapping[str, Any], fields: LocalFields, path: str) -> str:
    given = reference.get("fieldPath", "")
    value = fields.find(given)
    if value is None:
        raise Untranslatable("UnknownField", f"{path}: the field {given} cannot be resolved for a pod of this node")
    return value


class _Volumes:
    """The volumes of one pod; collects the files of the generated ConfigMap and Secret."""

    def __init__(self, fields: LocalFields, *, allows_tokens: bool) -> None:
        self.fields = fields
        self.files: dict[str, str] = {}
        self.tokens: list[TokenSource] = []
        self._allows_tokens = allows_tokens

    def resolve(self, spec: Object) -> None:
        """Rewrite what refers to the local cluster; refuse what cannot be."""
        for index, volume in enumerate(spec.get("volumes") or ()):
            path = f"spec.volumes[{index}]"
            _refuse_unknown(path, "volume", set(volume) - {"name"}, _VOLUMES)
            if "downwardAPI" in volume:
                downward = volume.pop("downwardAPI") or {}
                sources = self._split_downward(downward, f"{path}.downwardAPI")
                mode = {"defaultMode": downward["defaultMode"]} if "defaultMode" in downward else {}
                volume["projected"] = {"sources": sources, **mode}
            elif projected := volume.get("projected"):
                projected["sources"] = [
                    resolved
                    for number, source in enumerate(projected.get("sources") or ())
                    for resolved in self._resolve_source(source, f"{path}.projected.sources[{number}]")
                ]

    def _resolve_source(self, source: Object, path: str) -> list[Object]:
        _refuse_unknown(path, "source", set(source), _SOURCES)
        if "serviceAccountToken" in source:
            return [self._take_token(source["serviceAccountToken"], f"{path}.serviceAccountToken")]
        if "downwardAPI" in source:
            return self._split_downward(source["downwardAPI"], f"{path}.downwardAPI")
        return [source]

    def _take_token(self, token: Mapping[str, Any], path: str) -> Object:
        if not self._allows_tokens:
            raise Untranslatable(
                "ServiceAccountTokenNotAllowed",
                f"{path}: tokens of this cluster are not handed to the provider; "
                "remove the source, or put a credential into a Secret",
            )
        key = f"token-{len(self.tokens)}"
        seconds = max(SHORTEST_TOKEN_SECONDS, int(token.get("expirationSeconds") or 3600))
        self.tokens.append(TokenSource(key=key, audience=token.get("audience") or "", expiration_seconds=seconds))
        return {"secret": {"name": TOKENS, "items": [{"key": key, "path": token["path"]}]}}

    def _split_downward(self, downward: Mapping[str, Any], path: str) -> list[Object]:
        """One source of the generated ConfigMap for metadata, and one of the downward API for resources."""
        files: list[Object] = []
        amounts: list[Object] = []
        for index, item in enumerate(downward.get("items") or ()):
            reference = item.get("fieldRef")
            if reference is None:
                amounts.append(item)
                continue
            key = f"file-{len(self.files)}"
            self.files[key] = _resolve(reference, self.fields, f"{path}.items[{index}].fieldRef")
            mode = {"mode": item["mode"]} if "mode" in item else {}
            files.append({"key": key, "path": item["path"], **mode})
        sources: list[Object] = [{"configMap": {"name": DOWNWARD_API, "items": files}}] if files else []
        return [*sources, {"downwardAPI": {"items": amounts}}] if amounts else sources


def _refuse_unknown(path: str, what: str, found: set[str], known: frozenset[str]) -> None:
    if unknown := sorted(found - known):
        raise Untranslatable(
            "VolumeNotSupported",
            f"{path}: a pod of this node cannot have a {what} of type {unknown[0]}; "
            f"allowed: {', '.join(sorted(known))}",
        )


def _list_needed(spec: Object) -> tuple[Needed, ...]:
    optional: dict[tuple[ReferenceKind, str], bool] = {}
    for reference in iter_references(spec):
        if reference.name in (DOWNWARD_API, TOKENS):
            continue
        key = (reference.kind, reference.name)
        optional[key] = optional.get(key, True) and reference.is_optional
    if len(optional) > MOST_REFERENCES:
        raise Untranslatable(
            "TooManyReferences",
            f"the pod refers to {len(optional)} ConfigMaps and Secrets; allowed: {MOST_REFERENCES}",
        )
    return tuple(sorted(Needed(kind, name, is_optional) for (kind, name), is_optional in optional.items()))
