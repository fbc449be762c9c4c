"""Reads the facts of a pod from its dictionary; raises `UnreadablePod` for unknown and invalid fields."""

from collections.abc import Iterator, Mapping
from typing import Any

from runyard.pods.fields import Part, UnreadablePod, read_part, unreadable
from runyard.pods.security import known_fields
from runyard.pods.security.facts import Container, Pod, Port, SecurityContext, SelinuxOptions, Volume
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem

HOST_NAMESPACES = ("hostNetwork", "hostPID", "hostIPC")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("postStart", "preStop")


def read_pod(given: Mapping[str, Any]) -> Pod:
    """The facts of a Pod, before defaults."""
    pod = read_part(given)
    pod.refuse_unknown(known_fields.POD)
    kind = pod.read_text("kind")
    if kind not in ("", "Pod"):
        raise unreadable(kind, ("kind",), allowed="Pod")
    return _read_metadata_and_spec(pod)


def read_template(given: Mapping[str, Any]) -> Pod:
    """The facts of a PodTemplateSpec."""
    template = read_part(given)
    template.refuse_unknown(known_fields.TEMPLATE)
    return _read_metadata_and_spec(template)


def _read_metadata_and_spec(pod: Part) -> Pod:
    metadata, spec = pod.find_part("metadata"), pod.find_part("spec")
    if spec is None:
        raise UnreadablePod(Problem(Code.FIELD_MISSING, (*pod.path, "spec"), "a pod needs `spec`"))
    spec.refuse_unknown(known_fields.SPEC)
    context = _find_known(spec, "securityContext", known_fields.POD_SECURITY_CONTEXT)
    return Pod(
        annotations=_read_annotations(metadata),
        context=_read_context(context),
        containers=tuple(_iter_containers(spec)),
        volumes=tuple(map(_read_volume, spec.read_parts("volumes"))),
        sysctls=tuple(map(_read_sysctl, context.read_parts("sysctls"))) if context else (),
        host_namespaces=tuple(name for name in HOST_NAMESPACES if spec.find_flag(name)),
        is_windows=_reads_windows(spec),
        has_own_users=spec.find_flag("hostUsers") is False,
    )


def _read_annotations(metadata: Part | None) -> Mapping[str, str]:
    if metadata is None:
        return {}
    metadata.refuse_unknown(known_fields.METADATA)
    return metadata.read_text_map("annotations")


def _reads_windows(spec: Part) -> bool:
    system = _find_known(spec, "os", known_fields.OS)
    return system is not None and system.read_text("name") == "windows"


def _read_sysctl(sysctl: Part) -> str:
    sysctl.refuse_unknown(known_fields.SYSCTL)
    return sysctl.read_text("name")


def _read_volume(volume: Part) -> Volume:
    volume.refuse_unknown(known_fields.VOLUME)
    sources = frozenset(kind for kind in known_fields.VOLUME - {"name"} if volume.find_part(kind) is not None)
    return Volume(volume.read_text("name"), sources)


def _iter_containers(spec: Part) -> Iterator[Container]:
    if not spec.read_parts("containers"):
        raise UnreadablePod(
            Problem(Code.FIELD_MISSING, (*spec.path, "containers"), "a pod needs at least one container")
        )
    for name in ("initContainers", "containers"):
        for container in spec.read_parts(name):
            container.refuse_unknown(known_fields.CONTAINER)
            yield _read_container(container)
    for container in spec.read_parts("ephemeralContainers"):
        container.refuse_unknown(known_fields.EPHEMERAL_CONTAINER)
        yield _read_container(container)


def _read_container(container: Part) -> Container:
    context = _find_known(container, "securityContext", known_fields.SECURITY_CONTEXT) or Part({}, container.path)
    capabilities = _find_known(context, "capabilities", known_fields.CAPABILITIES) or Part({}, context.path)
    return Container(
        name=container.read_text("name"),
        context=_read_context(context),
        privileged=context.find_flag("privileged"),
        allow_privilege_escalation=context.find_flag("allowPrivilegeEscalation"),
        proc_mount=context.find_text("procMount"),
        added_capabilities=capabilities.read_texts("add"),
        dropped_capabilities=capabilities.read_texts("drop"),
        ports=tuple(map(_read_port, container.read_parts("ports"))),
        handler_hosts=tuple(_iter_handler_hosts(container)),
    )


def _read_context(context: Part | None) -> SecurityContext:
    """The fields that security contexts of pods and containers have in common."""
    if context is None:
        return SecurityContext()
    seccomp = _find_known(context, "seccompProfile", known_fields.SECCOMP_PROFILE)
    apparmor = _find_known(context, "appArmorProfile", known_fields.APPARMOR_PROFILE)
    windows = _find_known(context, "windowsOptions", known_fields.WINDOWS_OPTIONS)
    return SecurityContext(
        run_as_non_root=context.find_flag("runAsNonRoot"),
        run_as_user=context.find_integer("runAsUser", bits=64),
        seccomp_type=seccomp.read_text("type") if seccomp else None,
        apparmor_type=apparmor.read_text("type") if apparmor else None,
        selinux=_find_selinux(context),
        host_process=windows.find_flag("hostProcess") if windows else None,
    )


def _find_selinux(context: Part) -> SelinuxOptions | None:
    options = _find_known(context, "seLinuxOptions", known_fields.SELINUX_OPTIONS)
    if options is None:
        return None
    return SelinuxOptions(
        type=options.read_text("type"), user=options.read_text("user"), role=options.read_text("role")
    )


def _read_port(port: Part) -> Port:
    port.refuse_unknown(known_fields.PORT)
    return Port(
        container=port.find_integer("containerPort", bits=32) or 0, host=port.find_integer("hostPort", bits=32) or 0
    )


def _iter_handler_hosts(container: Part) -> Iterator[str]:
    for name in _PROBES:
        if probe := _find_known(container, name, known_fields.PROBE):
            yield from _iter_hosts(probe)
    if lifecycle := _find_known(container, "lifecycle", known_fields.LIFECYCLE):
        for name in _HANDLERS:
            if handler := _find_known(lifecycle, name, known_fields.LIFECYCLE_HANDLER):
                yield from _iter_hosts(handler)


def _iter_hosts(handler: Part) -> Iterator[str]:
    for name, fields in (("httpGet", known_fields.HTTP_GET), ("tcpSocket", known_fields.TCP_SOCKET)):
        action = _find_known(handler, name, fields)
        if action and (host := action.read_text("host")):
            yield host


def _find_known(parent: Part, name: str, fields: frozenset[str]) -> Part | None:
    part = parent.find_part(name)
    if part is not None:
        part.refuse_unknown(fields)
    return part
