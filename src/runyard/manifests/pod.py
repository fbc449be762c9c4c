"""The pod of a run: its container, placement and identity."""

from typing import Any

from runyard.domain.effective_spec import EffectiveSpec, to_plain
from runyard.manifests.environment import render_env, render_secret_mounts, render_secret_volumes
from runyard.manifests.identity import RunIdentity
from runyard.manifests.launcher import (
    find_launcher,
    render_init_containers,
    render_launcher_mounts,
    render_launcher_volumes,
    render_words,
)
from runyard.manifests.metadata import Marks
from runyard.manifests.names import registry_secret_name
from runyard.manifests.resources import render_resources
from runyard.manifests.security import render_container_security, render_pod_security
from runyard.manifests.services import render_container_ports, render_readiness
from runyard.manifests.volumes import render_mounts, render_volumes

CONTAINER = "main"


def render_template(spec: EffectiveSpec, identity: RunIdentity, marks: Marks) -> dict[str, Any]:
    """The pod template of the Job or Deployment; `spec` has passed `check_workload`."""
    return {"metadata": marks.render_metadata(), "spec": _render_pod(spec, identity, marks)}


def _render_pod(spec: EffectiveSpec, identity: RunIdentity, marks: Marks) -> dict[str, Any]:
    launcher = find_launcher(spec, identity)
    pull_secrets = [*spec.image_pull_secrets]
    if identity.platform.has_registry_secret:
        pull_secrets.append(registry_secret_name(identity.project))
    pod = {
        "restartPolicy": "Never" if spec.action == "job" else "Always",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "serviceAccountName": spec.service_account,
        "securityContext": render_pod_security(spec),
        "terminationGracePeriodSeconds": spec.grace_period_seconds,
        "imagePullSecrets": [{"name": name} for name in dict.fromkeys(pull_secrets)],
        "nodeSelector": to_plain(spec.node_selector),
        "tolerations": to_plain(spec.tolerations),
        "affinity": to_plain(spec.affinity),
        "topologySpreadConstraints": to_plain(spec.topology_spread),
        "runtimeClassName": spec.runtime_class,
        "priorityClassName": spec.priority_class,
        "schedulerName": spec.scheduler_name,
        "hostAliases": to_plain(spec.host_aliases),
        "initContainers": render_init_containers(launcher),
        "containers": [_render_container(spec, identity)],
        "volumes": [
            *render_volumes(spec, identity, marks),
            *render_secret_volumes(spec, identity),
            *render_launcher_volumes(launcher),
        ],
    }
    return _leave_blanks_out(pod)


def _render_container(spec: EffectiveSpec, identity: RunIdentity) -> dict[str, Any]:
    is_served = spec.action == "serve"
    launcher = find_launcher(spec, identity)
    container = {
        "name": CONTAINER,
        "image": spec.image,
        "imagePullPolicy": spec.image_pull_policy,
        **render_words(spec, launcher),
        "workingDir": spec.working_dir,
        "env": render_env(spec, identity),
        "resources": render_resources(spec),
        "ports": render_container_ports(spec) if is_served else None,
        "readinessProbe": render_readiness(spec) if is_served else None,
        # The end of a failed container's log becomes its termination message, which says why a run crashes.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": render_container_security(spec),
        "volumeMounts": [*render_mounts(spec), *render_secret_mounts(spec), *render_launcher_mounts(launcher)],
    }
    return _leave_blanks_out(container)


def _leave_blanks_out(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, [], {})}
