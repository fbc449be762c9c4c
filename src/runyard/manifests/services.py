"""How a served run is reached: its ports, its readiness, its Service and the alias with a stable name."""

from typing import Any

from runyard.domain.effective_spec import EffectiveSpec
from runyard.manifests.identity import RunIdentity
from runyard.manifests.metadata import Marks
from runyard.manifests.names import alias_name, service_name
from runyard.spec.services import ServicePort

DEFAULT_PORT = 8080


def get_ports(spec: EffectiveSpec) -> tuple[ServicePort, ...]:
    """The ports that are served; the one that python services listen on where none is named."""
    return spec.service_ports or (ServicePort(port=DEFAULT_PORT, target_port=DEFAULT_PORT),)


def render_container_ports(spec: EffectiveSpec) -> list[dict[str, Any]]:
    """The container's ports, each once however many ports of the Service lead to it."""
    targets = dict.fromkeys(port.target_port for port in get_ports(spec))
    return [{"containerPort": target, "protocol": "TCP"} for target in targets]


def render_readiness(spec: EffectiveSpec) -> dict[str, Any]:
    """When the pod gets requests: once the path answers, or the first port opens."""
    port = get_ports(spec)[0].target_port
    if spec.readiness_path:
        handler: dict[str, Any] = {"httpGet": {"path": spec.readiness_path, "port": port}}
    else:
        handler = {"tcpSocket": {"port": port}}
    # Kubernetes' one second takes a model server that is busy with a request for a dead one.
    return {**handler, "periodSeconds": 5, "timeoutSeconds": 5}


def render_services(spec: EffectiveSpec, identity: RunIdentity, marks: Marks) -> list[dict[str, Any]]:
    """The run's Service, and with `service_name` the alias, which the newest run takes over from its forerunner."""
    names = [service_name(identity.run_id)]
    if spec.service_name:
        names.append(alias_name(identity.project, function=identity.function, service=spec.service_name))
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
    """`port<port>`, unless another port was given that name."""
    name = f"port{port}"
    while name in taken:
        name += "x"
    return name
