"""How a service is reached: ports, readiness probe, Service, and the alias with a stable name."""

from typing import Any

from runyard.domain.effective_spec import EffectiveSpec
from runyard.manifests.identity import RunIdentity
from runyard.manifests.metadata import Marks
from runyard.manifests.names import alias_name, service_name
from runyard.spec.services import ServicePort

DEFAULT_PORT = 8080


def get_ports(spec: EffectiveSpec) -> tuple[ServicePort, ...]:
    """The service ports; by default the one port that python services listen on."""
    return spec.service_ports or (ServicePort(port=DEFAULT_PORT, target_port=DEFAULT_PORT),)


def render_container_ports(spec: EffectiveSpec) -> list[dict[str, Any]]:
    """The container's ports, each once even if several Service ports lead to it."""
    targets = dict.fromkeys(port.target_port for port in get_ports(spec))
    return [{"containerPort": target, "protocol": "TCP"} for target in targets]


def render_readiness(spec: EffectiveSpec) -> dict[str, Any]:
    """The readiness probe: the path answers, or the first port is open."""
    port = get_ports(spec)[0].target_port
    if spec.readiness_path:
        handler: dict[str, Any] = {"httpGet": {"path": spec.readiness_path, "port": port}}
    else:
        handler = {"tcpSocket": {"port": port}}
    # With Kubernetes' default timeout of 1 s, a busy model server would count as not ready.
    return {**handler, "periodSeconds": 5, "timeoutSeconds": 5}


def render_services(spec: EffectiveSpec, identity: RunIdentity, marks: Marks) -> list[dict[str, Any]]:
    """The run's Service and, with `service_name`, the alias; the newest run takes the alias over once it is ready."""
    alias = find_alias_name(spec, identity)
    names = [service_name(identity), *([] if alias is None else [alias])]
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": marks.render_metadata(name),
            "spec": {
                "type": spec.service_type or "ClusterIP",
                "selector": marks.render_selector(),
                "ports": _render_service_ports(spec),
            },
        }
        for name in names
    ]


def find_alias_name(spec: EffectiveSpec, identity: RunIdentity) -> str | None:
    """The name of the alias; None if the run has none."""
    if spec.action != "serve" or not spec.service_name:
        return None
    return alias_name(identity.project, function=identity.function, service=spec.service_name)


def _render_service_ports(spec: EffectiveSpec) -> list[dict[str, Any]]:
    taken = {port.name for port in spec.service_ports if port.name}
    return [
        {
            "name": port.name or _make_port_name(port.port, taken),
            "port": port.port,
            "targetPort": port.target_port,
            "protocol": "TCP",
        }
        for port in get_ports(spec)
    ]


def _make_port_name(port: int, taken: set[str]) -> str:
    """`port<port>`, with `x` appended while another port has that name."""
    name = f"port{port}"
    while name in taken:
        name += "x"
    return name
