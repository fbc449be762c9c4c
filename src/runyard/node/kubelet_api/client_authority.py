"""The authority that signs client certificates of the cluster, as the apiserver publishes it for servers like ours."""

from runyard.kube import Client, NotFound
from runyard.kube.resources import CONFIG_MAPS

NAMESPACE = "kube-system"
NAME = "extension-apiserver-authentication"
_FIELD = "client-ca-file"
_LONGEST_BYTES = 1 << 20


async def read_client_authority(client: Client) -> bytes | None:
    """The bundle in PEM; None where the apiserver has no such authority: tokens alone are accepted then.

    Needs the role `extension-apiserver-authentication-reader` in kube-system. Raises KubeError.
    """
    try:
        config_map = await client.get(CONFIG_MAPS, NAME, namespace=NAMESPACE)
    except NotFound:
        return None
    bundle = (config_map.get("data") or {}).get(_FIELD)
    if not isinstance(bundle, str) or "-----BEGIN CERTIFICATE-----" not in bundle or len(bundle) > _LONGEST_BYTES:
        return None
    return bundle.encode()
