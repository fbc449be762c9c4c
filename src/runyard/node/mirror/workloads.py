"""Workloads: translated pods with the contents of everything that they refer to, read live."""

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from runyard.kube import Client
from runyard.node.mirror.needed_objects import POLL_SECONDS, NeededObjects, read_contents
from runyard.node.mirror.translation import TOKENS, Needed, TokenSource, Untranslatable, translate_pod
from runyard.node.offer import Shape
from runyard.node.providers.provider import Object, Workload

RENEWED_AFTER = 0.8
"""The part of a token's life after which the next one is asked for, as a kubelet does."""


class ShapeMissing(Untranslatable):
    """The provider no longer offers the pod's class; it may come back."""

    def __init__(self, message: str) -> None:
        super().__init__("RuntimeClassNotOffered", message)


@dataclass(frozen=True, slots=True)
class BuiltWorkload:
    """A workload, and when it is out of date."""

    workload: Workload
    signature: int | None
    """Of the versions that it was built from; None where they are not watched yet."""
    absent: list[Needed] = field(default_factory=list)
    """Optional objects that do not exist."""
    renew_at: datetime | None = None
    """When its tokens are to be renewed."""


class WorkloadBuilder:
    """Builds workloads, and tells when one must be built again."""

    def __init__(
        self,
        client: Client,
        needed: NeededObjects,
        *,
        find_shape: Callable[[Object], Shape | None],
        host_address: str,
        allows_tokens: bool,
    ) -> None:
        self._client = client
        self._needed = needed
        self._find_shape = find_shape
        self._host_address = host_address
        self._allows_tokens = allows_tokens

    async def build(self, local: Object) -> BuiltWorkload:
        """Build the workload of a pod. Raises `Untranslatable`, `MissingObject` and `KubeError`."""
        metadata = local["metadata"]
        shape = self._find_shape(local)
        if shape is None:
            name = local["spec"].get("runtimeClassName")
            raise ShapeMissing(f"the provider no longer offers the RuntimeClass {name}")
        translated = translate_pod(local, host_address=self._host_address, allows_tokens=self._allows_tokens)
        self._needed.follow(metadata["uid"], metadata["namespace"], translated.needed)
        signature = self.sign(local)
        contents = await read_contents(self._client, metadata["namespace"], translated.needed)
        secrets, renew_at = contents.secrets, None
        if translated.tokens:
            tokens, renew_at = await self._request_tokens(local, translated.tokens)
            secrets = {**secrets, TOKENS: {"type": "Opaque", "data": tokens}}
        workload = translated.to_workload(local, shape=shape, config_maps=contents.config_maps, secrets=secrets)
        return BuiltWorkload(workload, signature, contents.absent, renew_at)

    def follow(self, local: Object) -> None:
        """Follow the changes of what a pod needs that was started before this process. Raises `Untranslatable`."""
        translated = translate_pod(local, host_address=self._host_address, allows_tokens=self._allows_tokens)
        self._needed.follow(local["metadata"]["uid"], local["metadata"]["namespace"], translated.needed)

    def sign(self, local: Object) -> int | None:
        """A hash of what a workload would be built from, by version; None where that is not known."""
        metadata = local["metadata"]
        versions = self._needed.versions(metadata["uid"])
        if versions is None:
            if not self._needed.is_polled(metadata["uid"]):
                return None
            versions = (str(datetime.now(UTC).timestamp() // POLL_SECONDS),)
        texts = [tuple(sorted((metadata.get(name) or {}).items())) for name in ("labels", "annotations")]
        return hash((*texts, versions))

    async def _request_tokens(self, local: Object, sources: tuple[TokenSource, ...]) -> tuple[dict[str, str], datetime]:
        """Tokens that end with the pod, by key, and when to ask for the next ones."""
        metadata = local["metadata"]
        tokens: dict[str, str] = {}
        renewals: list[datetime] = []
        for source in sources:
            asked_at = datetime.now(UTC)
            answer = await self._client.create_token(
                local["spec"].get("serviceAccountName") or "default",
                namespace=metadata["namespace"],
                audiences=[source.audience] if source.audience else (),
                expiration_seconds=source.expiration_seconds,
                pod=(metadata["name"], metadata["uid"]),
            )
            tokens[source.key] = base64.b64encode(answer["status"]["token"].encode()).decode()
            ends_at = datetime.fromisoformat(answer["status"]["expirationTimestamp"])
            renewals.append(asked_at + (ends_at - asked_at) * RENEWED_AFTER)
        return tokens, min(renewals)
