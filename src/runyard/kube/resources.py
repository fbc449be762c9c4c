"""Resource types and their API paths: `Resource`, and constants for those that Runyard uses."""

import re
from dataclasses import dataclass
from urllib.parse import quote

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DOMAIN = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_SUBRESOURCE = re.compile(r"[a-z]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource type: enough to build every path to it and to complete an object's apiVersion and kind."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    def __post_init__(self) -> None:
        if self.group and not _DOMAIN.fullmatch(self.group):
            raise ValueError(f"group {self.group!r} is not a DNS name")
        for field, value in (("version", self.version), ("plural", self.plural)):
            if not _LABEL.fullmatch(value):
                raise ValueError(f"{field} {value!r} is not a DNS label")

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, *, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The path of a collection, an object or a sub-resource, quoted.

        Refuses with ValueError what would address something else: the apiserver's own rule for names
        (no '/', no '%', not '.' or '..', not empty), strict DNS labels for namespaces.
        """
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace is not None:
            if not self.namespaced:
                raise ValueError(f"{self.plural} are not namespaced, got namespace {namespace!r}")
            if not is_namespace_name(namespace):
                raise ValueError(f"namespace {namespace!r} is not a DNS label")
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name is not None:
            if self.namespaced and namespace is None:
                raise ValueError(f"{self.plural} are namespaced: {name!r} needs a namespace")
            parts.append(_quote_name(name))
        if subresource is not None:
            if name is None:
                raise ValueError(f"sub-resource {subresource!r} of {self.plural} needs a name")
            if not _SUBRESOURCE.fullmatch(subresource):
                raise ValueError(f"sub-resource {subresource!r} is not a lower-case word")
            parts.append(subresource)
        return "/".join(parts)


def is_namespace_name(text: str) -> bool:
    """Whether `text` can name a namespace: a DNS label."""
    return _LABEL.fullmatch(text) is not None


def _quote_name(name: str) -> str:
    if name in ("", ".", "..") or "/" in name or "%" in name or _CONTROL.search(name):
        raise ValueError(f"name {name!r} cannot name an object")
    return quote(name, safe=":")


CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
EVENTS = Resource("", "v1", "events", "Event", namespaced=True)
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange", namespaced=True)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CLUSTER_NAMESPACE = "kube-system"
"""Its uid is that of the cluster: every cluster has it, and nobody deletes it."""
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True)
PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", namespaced=True)
SECRETS = Resource("", "v1", "secrets", "Secret", namespaced=True)
SERVICES = Resource("", "v1", "services", "Service", namespaced=True)
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
JOBS = Resource("batch", "v1", "jobs", "Job", namespaced=True)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", namespaced=True)
INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress", namespaced=True)
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", namespaced=True)
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)

# The Gateway API is a set of CRDs that a cluster may lack: NotServed then.
HTTP_ROUTES = Resource("gateway.networking.k8s.io", "v1", "httproutes", "HTTPRoute", namespaced=True)

# Served by an aggregated API that a cluster may lack: NotServed or Unavailable then. They cannot be watched.
NODE_METRICS = Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False)
POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", namespaced=True)

ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", namespaced=True)
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", namespaced=True)
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
MUTATING_ADMISSION_POLICIES = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingadmissionpolicies",
    "MutatingAdmissionPolicy",
    namespaced=False,
)
MUTATING_ADMISSION_POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingadmissionpolicybindings",
    "MutatingAdmissionPolicyBinding",
    namespaced=False,
)
# What 1.34 and 1.35 serve where it was switched on; v1 is from 1.36.
MUTATING_ADMISSION_POLICIES_V1BETA1 = Resource(
    "admissionregistration.k8s.io",
    "v1beta1",
    "mutatingadmissionpolicies",
    "MutatingAdmissionPolicy",
    namespaced=False,
)
MUTATING_ADMISSION_POLICY_BINDINGS_V1BETA1 = Resource(
    "admissionregistration.k8s.io",
    "v1beta1",
    "mutatingadmissionpolicybindings",
    "MutatingAdmissionPolicyBinding",
    namespaced=False,
)
MUTATING_WEBHOOK_CONFIGURATIONS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_ADMISSION_POLICIES = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)
VALIDATING_ADMISSION_POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
CERTIFICATE_SIGNING_REQUESTS = Resource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False
)
SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
SELF_SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
SELF_SUBJECT_RULES_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespaced=False
)
SELF_SUBJECT_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
