"""The rules of a project's namespace as Kubernetes objects, rendered from policy and profiles. Pure.

Start at `second_wall.render_wall`: ValidatingAdmissionPolicies that hold the admin's rules against what comes to the
namespace without Runyard. The `*_checks` modules generate their expressions in CEL, one per rule and clause; `cel.py`
has the notation, `wall_inputs.py` what the admin said, `inexpressible.py` the rules that no expression can hold.
`namespace_objects.py` renders the other objects: NetworkPolicy, ResourceQuota, LimitRange, RoleBinding.
"""

from runyard.engines.kubernetes.project_rules.namespace_objects import (
    LIMIT_RANGE_NAME,
    NETWORK_POLICY_NAME,
    QUOTA_NAME,
    render_limit_range,
    render_network_policy,
    render_quota,
    render_role_binding,
    render_security_labels,
)
from runyard.engines.kubernetes.project_rules.second_wall import (
    POLICY_LABEL,
    PROBE_NAME,
    Wall,
    list_binding_names,
    render_wall,
)
from runyard.engines.kubernetes.project_rules.wall_inputs import ClusterDefaults, WallInputs

__all__ = [
    "LIMIT_RANGE_NAME",
    "NETWORK_POLICY_NAME",
    "POLICY_LABEL",
    "PROBE_NAME",
    "QUOTA_NAME",
    "ClusterDefaults",
    "Wall",
    "WallInputs",
    "list_binding_names",
    "render_limit_range",
    "render_network_policy",
    "render_quota",
    "render_role_binding",
    "render_security_labels",
    "render_wall",
]
