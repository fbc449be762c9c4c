"""Rules of the policy that the wall does not hold, wholly or in part, and why. docs/operators/kubernetes.md lists them.

Runyard itself holds all of them before it sends anything.
"""

from collections.abc import Mapping
from types import MappingProxyType

INEXPRESSIBLE: Mapping[str, str] = MappingProxyType(
    {
        "profile": "a pod only claims to come from a profile; the wall checks the values, whoever set them",
        "pending_timeout": "only Runyard's own timer knows how long a run has waited",
        "timeout.min": "a bound on what Runyard's own timer does; a shorter run harms nobody",
        "timeout.options": "the deadline of a Job is a later backstop, whose exact length says nothing about `timeout`",
        "timeout.locked": "as `timeout.options`",
        "ttl.required": "a Job gets its TTL only after its log is stored",
        "ttl.locked": "as `ttl.required`",
        "replicas.min": "services that are held back or stopped have 0 replicas",
        "replicas.options": "as `replicas.min`: 0 must always pass; the maximum is checked",
        "replicas.required": "the apiserver fills in 1",
        "replicas.locked": "as `replicas.options`",
        "grace_period.required": "the apiserver fills in 30 seconds",
        "image_pull_policy.required": "the apiserver fills in a value by the image's tag",
        "service_type.required": "the apiserver fills in ClusterIP",
        "resources.gpu.required": "0 GPUs are not written into a pod",
        "image.required": "Kubernetes itself refuses a container without an image",
    }
)
"""By field, or field and clause. Defaults are no rules for others: they fill blanks when Runyard resolves a run."""
PARTIAL: Mapping[str, str] = MappingProxyType(
    {
        "timeout.max": "of Jobs only, with an hour more; a pod without a Job, or a Deployment's, has no deadline",
        "backoff_limit": "of new Jobs only: stopping a Job changes its retries",
        "image_pull_policy": "checked where it is locked, required or has a default: else the apiserver fills it",
        "image": "a registry with an IPv6 address is refused where there is a rule: CEL cannot compare its spellings",
        "volumes.type": "a pod does not tell `shared_volume` from `persistent_volume_claim`",
        "envs": "the platform's own variables are known by name; only the server's address is compared",
        "lists": "a value that some profile sets passes `options`, `allowed` and `denied` for all pods of the project",
    }
)
COVERED: Mapping[str, str] = MappingProxyType(
    {"resources.disk.storage_class": "resources.disk.storage_class.default"},
)
"""Fields whose rules are all covered by one stricter check: scratch space has the class of the policy, or none."""
