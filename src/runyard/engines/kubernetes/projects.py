"""Prepare and remove projects in the cluster. A namespace that is not ours is refused, never changed or deleted.

With one namespace for all projects there is nothing to make: the namespace must exist. With a namespace per project,
`ensure_project` creates it with the rules of the project (`project_rules`). Every step is idempotent, and the next call
repeats it. The wall stands before the call returns: it is asked with a dry run.
"""

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from runyard.app.engine import EngineRefusal, EngineUnavailable
from runyard.domain.reasons import Reason
from runyard.domain.resolve_inputs import AdminRules
from runyard.engines.kubernetes.cluster_defaults import read_cluster_defaults
from runyard.engines.kubernetes.kube_errors import LONGEST_DENIAL, engine_errors, translate_error
from runyard.engines.kubernetes.kubernetes_settings import KubernetesSettings
from runyard.engines.kubernetes.namespaces import PROJECT_ANNOTATION, PROJECT_LABEL, Namespaces
from runyard.engines.kubernetes.project_rules import (
    LIMIT_RANGE_NAME,
    NETWORK_POLICY_NAME,
    PROBE_NAME,
    QUOTA_NAME,
    Wall,
    WallInputs,
    list_binding_names,
    render_limit_range,
    render_network_policy,
    render_quota,
    render_role_binding,
    render_security_labels,
    render_wall,
)
from runyard.kube import AlreadyExists, ApiError, Client, Conflict, Forbidden, NotFound, Object, Resource
from runyard.kube.resources import (
    LIMIT_RANGES,
    NAMESPACES,
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    SELF_SUBJECT_REVIEWS,
    SERVICES,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from runyard.manifests.metadata import INSTALLATION_LABEL, to_label_value
from runyard.spec.problems import list_words

FIELD_MANAGER = "runyard"
STUCK_SECONDS = 60
"""After this time a namespace that is still being deleted is reported with its conditions."""
WALL_SECONDS = 10.0
"""How long a call waits until the apiserver enforces a new wall; it reads its policies about once a second."""
RIGHTS_SECONDS = 5.0
"""How long a call waits until the apiserver knows the server's rights in a new namespace."""
UNUSED_SECONDS = 600
"""An admission policy that no namespace uses is deleted when it is that old: another replica may just make it."""
MOST_NAMED_CLAIMS = 5
"""How many claims a message names."""
MOST_ADDRESSES = 16
"""How many addresses of the server's endpoint pods may reach."""
_CREATION_ATTEMPTS = 3
_DEFAULT_MATCH_POLICY = ("matchPolicy", "Equivalent")
_PAUSE_SECONDS = 0.25

_log = logging.getLogger(__name__)


class Projects:
    """The namespaces of projects, and their rules."""

    def __init__(self, client: Client, settings: KubernetesSettings) -> None:
        self._client = client
        self._settings = settings
        self._is_network_told = False
        self._subject: Mapping[str, str] | None = None
        self.namespaces = Namespaces(settings.namespace, settings.installation)

    async def ensure_project(self, project: str, rules: AdminRules) -> None:
        """Create the project's namespace, or find it, and bring its rules up to date. Idempotent.

        Raises `EngineRefusal` if a stranger has its name, `EngineUnavailable` while it is missing or being deleted, or
        while its rules are not in force. A cluster that refuses the objects of a project says nothing against its runs:
        they wait until an operator has mended it.
        """
        try:
            with engine_errors(f"prepare project {project}"):
                if self.namespaces.is_per_project:
                    await self._ensure_namespace(project, rules)
                else:
                    await self._check_shared(self.namespaces.get_namespace(project))
        except EngineRefusal as refusal:
            if refusal.code == Reason.NAMESPACE_TAKEN:
                raise
            raise EngineUnavailable(refusal.code, str(refusal)) from refusal

    async def remove_project(self, project: str) -> bool:
        """Delete the project's own namespace; returns whether it is gone. A namespace that is not ours stays.

        Raises `EngineUnavailable` if it holds claims that no run owns, or if its deletion is stuck: its message says
        why. Nothing is removed in a namespace that projects share.
        """
        if not self.namespaces.is_per_project:
            return True
        with engine_errors(f"remove project {project}"):
            name = self.namespaces.get_namespace(project)
            found = await self._find(NAMESPACES, name)
            if found is not None and self.namespaces.owns(found, project=project):
                await self._delete_namespace(found)
                return False
            if found is None:
                await self._remove_wall(name)
            return True

    async def _delete_namespace(self, found: Object) -> None:
        name = found["metadata"]["name"]
        if "deletionTimestamp" in found["metadata"]:
            _check_stuck(found)
            return
        await self._check_claims(name)
        try:
            await self._client.delete(NAMESPACES, name, uid=found["metadata"]["uid"])
        except (NotFound, Conflict):
            _log.info("the namespace was deleted by others", extra={"namespace": name})

    async def _ensure_namespace(self, project: str, rules: AdminRules) -> None:
        inputs = WallInputs(
            rules,
            project=project,
            launcher=self._settings.launcher,
            endpoint=self._settings.endpoint,
            package_index=self._settings.package_index,
            defaults=await read_cluster_defaults(self._client),
        )
        security = render_security_labels(inputs.pod_security)
        found = await self._find_or_create(project, security)
        namespace, labels = found["metadata"]["name"], self.namespaces.render_labels(project)
        await self._ensure_labels(found, security)
        await self._apply(ROLE_BINDINGS, render_role_binding(namespace, labels, subject=await self._get_subject()))
        await self._retry_refused(lambda: self._ensure_objects(namespace, labels))
        owner = to_label_value(self._settings.installation)
        wall = render_wall(inputs, namespace=namespace, labels=labels, owner=owner)
        await self._ensure_wall(wall, namespace=namespace, project=project)
        await self._wait_enforced(wall, namespace)

    async def _find_or_create(self, project: str, security: Mapping[str, str]) -> Object:
        name = self.namespaces.get_namespace(project)
        for _ in range(_CREATION_ATTEMPTS):
            found = await self._find(NAMESPACES, name) or await self._create_namespace(project, name, security)
            if found is None:
                continue
            if not self.namespaces.owns(found, project=project):
                message = f"namespace {name} exists, and Runyard did not create it for project {project}"
                raise EngineRefusal(Reason.NAMESPACE_TAKEN, message)
            if "deletionTimestamp" in found["metadata"]:
                raise EngineUnavailable(Reason.NAMESPACE_MISSING, f"namespace {name} is being deleted")
            return found
        raise EngineUnavailable(Reason.NAMESPACE_MISSING, f"namespace {name} is created and deleted by others")

    async def _create_namespace(self, project: str, name: str, security: Mapping[str, str]) -> Object | None:
        """The new namespace; None if there is one meanwhile."""
        labels = self.namespaces.render_labels(project)
        metadata: dict[str, Any] = {"name": name, "labels": {**labels, **security}}
        if labels[PROJECT_LABEL] != project:
            metadata["annotations"] = {PROJECT_ANNOTATION: project}
        try:
            return await self._client.create(NAMESPACES, {"metadata": metadata}, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            return None

    async def _ensure_labels(self, found: Object, security: Mapping[str, str]) -> None:
        if security.items() <= (found["metadata"].get("labels") or {}).items():
            return
        metadata = {"uid": found["metadata"]["uid"], "labels": dict(security)}
        patch = {"metadata": metadata}
        await self._client.patch(NAMESPACES, found["metadata"]["name"], patch, field_manager=FIELD_MANAGER)

    async def _ensure_objects(self, namespace: str, labels: Mapping[str, str]) -> None:
        limits = self._settings.project_limits
        network = None
        if limits.is_network_isolated:
            servers = await find_addresses(self._settings.endpoint)
            network = render_network_policy(namespace, labels, limits=limits, servers=servers)
            self._tell_network(namespace)
        wanted = (
            (NETWORK_POLICIES, NETWORK_POLICY_NAME, network),
            (RESOURCE_QUOTAS, QUOTA_NAME, render_quota(namespace, labels, limits=limits)),
            (LIMIT_RANGES, LIMIT_RANGE_NAME, render_limit_range(namespace, labels, limits=limits)),
        )
        for resource, name, body in wanted:
            if body is not None:
                await self._apply(resource, body)
            else:
                await self._remove_own(resource, name, namespace=namespace)

    def _tell_network(self, namespace: str) -> None:
        if not self._is_network_told:
            self._is_network_told = True
            _log.warning(
                "the namespaces of projects have NetworkPolicies; whether the cluster's network plugin enforces them "
                "cannot be asked: docs/operators/kubernetes.md has the command that tests it",
                extra={"namespace": namespace},
            )

    async def _ensure_wall(self, wall: Wall, *, namespace: str, project: str) -> None:
        for policy in wall.policies:
            await self._ensure_policy(policy)
        is_changed = False
        for binding in wall.bindings:
            is_changed |= await self._ensure_binding(binding, project=project)
        kept = {binding["metadata"]["name"] for binding in wall.bindings}
        for name in set(list_binding_names(namespace)) - kept:
            is_changed |= await self._remove_own(VALIDATING_ADMISSION_POLICY_BINDINGS, name)
        if is_changed:
            await self._remove_unused_policies()

    async def _ensure_policy(self, policy: Mapping[str, Any]) -> None:
        name = policy["metadata"]["name"]
        for _ in range(_CREATION_ATTEMPTS):
            found = await self._find(VALIDATING_ADMISSION_POLICIES, name)
            if found is None:
                await self._try_create(VALIDATING_ADMISSION_POLICIES, policy)
                return
            if _is_as_rendered(found["spec"], policy["spec"]):
                return
            # Its name is a hash of its content: somebody has changed it.
            body = {**policy, "metadata": {**policy["metadata"], **_version(found)}}
            try:
                await self._client.replace(VALIDATING_ADMISSION_POLICIES, body, field_manager=FIELD_MANAGER)
            except Conflict:
                continue  # the apiserver writes its status after each change
            return
        raise EngineUnavailable(Reason.ENGINE_FAILED, f"the admission policy {name} is changed by others")

    async def _ensure_binding(self, binding: Mapping[str, Any], *, project: str) -> bool:
        """Returns whether it was created or changed."""
        name = binding["metadata"]["name"]
        found = await self._find(VALIDATING_ADMISSION_POLICY_BINDINGS, name)
        if found is None:
            await self._try_create(VALIDATING_ADMISSION_POLICY_BINDINGS, binding)
            return True
        if not self.namespaces.owns(found, project=project) and not self._is_ours(found):
            message = f"ValidatingAdmissionPolicyBinding {name} exists, and Runyard did not create it"
            raise EngineRefusal(Reason.NAMESPACE_TAKEN, message)
        if _is_as_rendered(found["spec"], binding["spec"]):
            return False
        body = {**binding, "metadata": {**binding["metadata"], **_version(found)}}
        await self._client.replace(VALIDATING_ADMISSION_POLICY_BINDINGS, body, field_manager=FIELD_MANAGER)
        return True

    async def _wait_enforced(self, wall: Wall, namespace: str) -> None:
        """Wait until the apiserver refuses the probe by this wall.

        Another admission rule may refuse the probe first, such as a webhook that demands labels. That says nothing
        about runs, whose objects it has not judged: the wall is not in force yet, as far as can be seen.
        """
        probe = {"metadata": {"name": PROBE_NAME}, "spec": {"ports": [{"port": 1}]}}
        clock = asyncio.get_running_loop().time
        ends_at = clock() + WALL_SECONDS
        denial = ""
        while clock() < ends_at:
            try:
                await self._client.create(SERVICES, probe, namespace=namespace, dry_run=True)
            except ApiError as error:
                if wall.probed_policy in error.message:
                    return
                if not _is_denied(error):
                    raise
                denial = f"; another rule refuses the probe: {error.server_message[:LONGEST_DENIAL]}"
            await asyncio.sleep(_PAUSE_SECONDS)
        message = f"the admission policy {wall.probed_policy} of namespace {namespace} is not in force yet{denial}"
        raise EngineUnavailable(Reason.ENGINE_FAILED, message)

    async def _remove_wall(self, namespace: str) -> None:
        removed = [
            await self._remove_own(VALIDATING_ADMISSION_POLICY_BINDINGS, name) for name in list_binding_names(namespace)
        ]
        if any(removed):
            await self._remove_unused_policies()

    async def _remove_unused_policies(self) -> None:
        """Delete policies of this installation that no binding uses anymore."""
        selector = self.namespaces.selector
        policies = await self._client.list(VALIDATING_ADMISSION_POLICIES, label_selector=selector)
        bindings = await self._client.list(VALIDATING_ADMISSION_POLICY_BINDINGS, label_selector=selector)
        used = {binding["spec"]["policyName"] for binding in bindings.items}
        for policy in policies.items:
            metadata = policy["metadata"]
            if metadata["name"] not in used and _measure_age(metadata["creationTimestamp"]) > UNUSED_SECONDS:
                await self._remove_own(VALIDATING_ADMISSION_POLICIES, metadata["name"])

    async def _check_shared(self, name: str) -> None:
        found = await self._find(NAMESPACES, name)
        if found is None:
            raise EngineUnavailable(Reason.NAMESPACE_MISSING, f"namespace {name} does not exist: create it")
        if "deletionTimestamp" in found["metadata"]:
            raise EngineUnavailable(Reason.NAMESPACE_MISSING, f"namespace {name} is being deleted")

    async def _check_claims(self, namespace: str) -> None:
        """Deleting a namespace deletes the data of its claims: those that no run owns need a decision first."""
        listed = await self._client.list(PERSISTENT_VOLUME_CLAIMS, namespace=namespace)
        kept = sorted(
            claim["metadata"]["name"]
            for claim in listed.items
            if not claim["metadata"].get("ownerReferences") and "deletionTimestamp" not in claim["metadata"]
        )
        if kept:
            message = (
                f"namespace {namespace} holds claims that no run owns and no volume knows: "
                f"{list_words(kept, most=MOST_NAMED_CLAIMS)}; move or delete them"
            )
            raise EngineUnavailable(Reason.PROJECT_REMOVING, message)

    async def _get_subject(self) -> Mapping[str, str]:
        """Who the apiserver takes us for, as the subject of a RoleBinding."""
        if self._subject is None:
            review = await self._client.create(SELF_SUBJECT_REVIEWS, {})
            self._subject = make_subject(review["status"]["userInfo"]["username"])
        return self._subject

    def _is_ours(self, item: Mapping[str, Any]) -> bool:
        labels = item["metadata"].get("labels") or {}
        return labels.get(INSTALLATION_LABEL) == to_label_value(self._settings.installation)

    async def _find(self, resource: Resource, name: str, *, namespace: str | None = None) -> Object | None:
        try:
            return await self._client.get(resource, name, namespace=namespace)
        except NotFound:
            return None

    async def _apply(self, resource: Resource, body: Mapping[str, Any]) -> None:
        """Server-side apply: only in a namespace of our own."""
        await self._client.apply(resource, body, field_manager=FIELD_MANAGER, force=True)

    async def _try_create(self, resource: Resource, body: Mapping[str, Any]) -> None:
        try:
            await self._client.create(resource, body, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            _log.debug("another replica made it", extra={"object": body["metadata"]["name"]})

    async def _remove_own(self, resource: Resource, name: str, *, namespace: str | None = None) -> bool:
        """Delete an object if it is ours; returns whether it was there."""
        found = await self._find(resource, name, namespace=namespace)
        if found is None or not self._is_ours(found):
            return False
        try:
            await self._client.delete(resource, name, namespace=namespace, uid=found["metadata"]["uid"])
        except (NotFound, Conflict):
            return False
        return True

    async def _retry_refused(self, act: Callable[[], Awaitable[None]]) -> None:
        """Repeat what is refused for a lack of rights: the apiserver learns of a new RoleBinding a moment later."""
        clock = asyncio.get_running_loop().time
        ends_at = clock() + RIGHTS_SECONDS
        while True:
            try:
                return await act()
            except Forbidden:
                if clock() >= ends_at:
                    raise
            await asyncio.sleep(_PAUSE_SECONDS)


def make_subject(username: str) -> dict[str, str]:
    """The subject of a RoleBinding for a user name, which may be a service account's."""
    if username.startswith("system:serviceaccount:"):
        _, _, namespace, name = username.split(":", 3)
        return {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": username}


async def find_addresses(endpoint: str | None) -> list[tuple[str, int]]:
    """The addresses and port of a URL, at most `MOST_ADDRESSES`; empty if its host cannot be resolved here."""
    parts = urlsplit(endpoint or "")
    if not parts.hostname:
        return []
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        return [(str(ipaddress.ip_address(parts.hostname)), port)]
    except ValueError:
        loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except OSError as error:
        _log.warning("the host of the server's endpoint cannot be resolved: %s", error)
        return []
    addresses = sorted({str(address[0]).partition("%")[0] for *_, address in found})
    return [(address, port) for address in addresses[:MOST_ADDRESSES]]


def _is_denied(error: ApiError) -> bool:
    """Whether an admission rule refuses the probe, with whatever status: a webhook chooses its own."""
    met = translate_error(error, doing="probe the admission policies")
    is_refused = isinstance(error, Forbidden) or isinstance(met, EngineRefusal)
    return error.is_status and is_refused and met.code != Reason.KUBE_PERMISSIONS


def _is_as_rendered(found: Any, rendered: Any) -> bool:
    """Whether a part of a policy or binding is as it was sent, apart from what the apiserver adds to it.

    It adds empty selectors and its default `matchPolicy`. Anything else that was not sent is somebody's change, such as
    a condition that exempts a user.
    """
    if isinstance(rendered, Mapping) and isinstance(found, Mapping):
        added = found.keys() - rendered.keys()
        return all(not found[key] or (key, found[key]) == _DEFAULT_MATCH_POLICY for key in added) and all(
            key in found and _is_as_rendered(found[key], value) for key, value in rendered.items()
        )
    if isinstance(rendered, list) and isinstance(found, list):
        return len(found) == len(rendered) and all(map(_is_as_rendered, found, rendered))
    return bool(found == rendered)


def _version(found: Mapping[str, Any]) -> dict[str, str]:
    return {"resourceVersion": found["metadata"]["resourceVersion"]}


def _measure_age(timestamp: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(timestamp)).total_seconds()


def _check_stuck(namespace: Mapping[str, Any]) -> None:
    """Say why the deletion of a namespace does not end; its conditions name what is left in it."""
    metadata = namespace["metadata"]
    conditions = (namespace.get("status") or {}).get("conditions") or []
    causes = [
        f"{one.get('reason', one.get('type'))}: {one.get('message', '')}"
        for one in conditions
        if one.get("status") == "True"
    ]
    if _measure_age(metadata["deletionTimestamp"]) > STUCK_SECONDS and causes:
        message = f"namespace {metadata['name']} is being deleted since {metadata['deletionTimestamp']}; "
        raise EngineUnavailable(Reason.PROJECT_REMOVING, message + "; ".join(causes))
