"""Fields of services: ports, type and name of the Service, readiness path."""

from dataclasses import dataclass
from typing import Any

from runyard.spec.names import check_dns_1035_label, check_port_name, suggest_dns_1035_label
from runyard.spec.problem_codes import Code
from runyard.spec.readers import (
    Findings,
    expect_integer,
    expect_keys,
    expect_list,
    expect_mapping,
    expect_option,
    expect_text,
    fold_keys,
    refuse,
)

SERVICE_TYPES = ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName")
MOST_PORTS = 32

_PORT: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": 65535}
SERVICE_PORTS_SCHEMA: dict[str, Any] = {
    "description": "Ports of the Service, each with the container port behind it.",
    "type": "array",
    "items": {
        "anyOf": [
            _PORT,
            {
                "type": "object",
                "required": ["port"],
                "additionalProperties": False,
                "properties": {
                    "port": {**_PORT, "description": "Port of the Service.", "examples": [80]},
                    "target_port": {
                        **_PORT,
                        "description": "Port of the container; the same as `port` by default.",
                        "examples": [8080],
                    },
                    "name": {"type": "string", "description": "Name of the port.", "examples": ["http"]},
                },
            },
        ]
    },
    "examples": [[{"port": 80, "target_port": 8080}]],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePort:
    """A port of the run's Service, and the container port behind it."""

    port: int
    target_port: int
    name: str | None = None


def read_service_ports(given: Any) -> tuple[ServicePort, ...]:
    """The ports; duplicates are refused."""
    findings = Findings()
    entries = expect_list(given, of="ports")
    if len(entries) > MOST_PORTS:
        raise refuse(Code.SIZE_ENTRIES, f"has {len(entries)} ports", allowed=f"at most {MOST_PORTS}")
    ports: list[ServicePort] = []
    for index, entry in enumerate(entries):
        port = findings.read(_read_port, entry, index)
        if port is None:
            continue
        if any(port.port == other.port for other in ports):
            findings.add(Code.SERVICE_PORTS_TWICE, (index, "port"), f"duplicate port {port.port}", value=port.port)
        if port.name and any(port.name == other.name for other in ports):
            findings.add(
                Code.SERVICE_PORTS_NAME_TWICE, (index, "name"), f"duplicate name `{port.name}`", value=port.name
            )
        ports.append(port)
    findings.finish()
    return tuple(ports)


def read_service_type(given: Any) -> str:
    """One of Kubernetes' service types; the policy decides which are allowed."""
    return expect_option(given, what="service type", options=SERVICE_TYPES)


def read_service_name(given: Any) -> str:
    """The additional name of the service."""
    name = expect_text(given, what="a service's name", most=253)
    if error := check_dns_1035_label(name):
        raise refuse(Code.SERVICE_NAME_INVALID, error, value=name, suggestion=suggest_dns_1035_label(name))
    return name


def read_readiness_path(given: Any) -> str:
    """The HTTP path that returns 200 once the service is ready."""
    path = expect_text(given, what="a readiness path", most=1024)
    if not path.startswith("/") or any(character.isspace() or ord(character) > 126 for character in path):
        message = "must begin with / and consist of ASCII characters without spaces"
        raise refuse(
            Code.READINESS_PATH_INVALID, message, value=path, suggestion=_quote(f"/{path.strip().lstrip('/')}")
        )
    return path


def _quote(path: str) -> str:
    return "".join(
        character if "!" <= character <= "~" else "".join(f"%{byte:02X}" for byte in character.encode())
        for character in path
    )


def _read_port(given: Any) -> ServicePort:
    if not isinstance(given, dict):
        number = _read_number(given)
        return ServicePort(port=number, target_port=number)
    findings = Findings()
    entry, spelling = fold_keys(expect_mapping(given, of="`port` and `target_port`"), findings)
    expect_keys(entry, ("port", "target_port", "name"), findings, spelling=spelling)
    if entry.get("port") is None:
        findings.add(Code.FIELD_MISSING, ("port",), "a service port needs `port`")
    port = findings.read(_read_number, entry["port"], "port") if entry.get("port") is not None else None
    target = entry.get("target_port")
    target_port = findings.read(_read_number, target, spelling["target_port"]) if target is not None else port
    name = findings.read(_read_port_name, entry["name"], "name") if entry.get("name") is not None else None
    findings.finish()
    return ServicePort(port=port or 0, target_port=target_port or 0, name=name)


def _read_number(given: Any) -> int:
    return expect_integer(given, what="a port", at_least=1, at_most=65535)


def _read_port_name(given: Any) -> str:
    name = expect_text(given, what="a port's name", most=15)
    if error := check_port_name(name):
        raise refuse(Code.SERVICE_PORTS_NAME, error, value=name)
    return name
