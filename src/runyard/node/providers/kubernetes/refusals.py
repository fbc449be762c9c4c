"""Errors of the provider's cluster as a provider's: try again, or never.

| the cluster's answer                                        | raised                        |
|-------------------------------------------------------------|-------------------------------|
| no answer, 401, 404, 409, 429, 5xx, an answer of a proxy    | `ProviderUnavailable`         |
| 403 by authorization: the agent's account lacks a right     | `ProviderUnavailable`         |
| 403 by admission that is not ready; the namespace is ending | `ProviderUnavailable`         |
| 403 by a ResourceQuota without room                         | `ProviderFull` `QuotaExceeded`|
| 400, 413, 422; 403 by admission                             | `ProviderRefused`             |
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from runyard.kube import ApiError, BadRequest, Forbidden, Invalid, KubeError, TooLarge
from runyard.node.providers.provider import ProviderError, ProviderFull, ProviderRefused, ProviderUnavailable
from runyard.pods.creation_refusal import describe_quota

LONGEST_DENIAL = 1024
"""How many characters of a denial are passed on."""
_LACKS_RIGHT = re.compile(r"forbidden: User \"|is attempting to grant RBAC permissions")
_QUOTA = re.compile(r"exceeded quota: ")
_NOT_READY = re.compile(
    r"is forbidden: (?:not yet ready to handle request|status unknown for quota: |"
    r"unable to \S+ \S+ at this time because there was an error enforcing limit ranges)|"
    r"denied request: failed to configure (?:policy|binding): |because it is being terminated"
)
_DENIED = re.compile(r"^\S+ \"[^\"]*\" is forbidden: |admission webhook \"[^\"]*\" denied the request")
_POD_NAME = re.compile(r"^pods \"[^\"]*\" is forbidden: |^Pod \"[^\"]*\" is invalid: ")


@contextmanager
def provider_errors(doing: str) -> Iterator[None]:
    """Turn the errors of a block into a provider's. `doing` completes the sentence `cannot …`."""
    try:
        yield
    except KubeError as error:
        raise translate_error(error, doing=doing) from error


def translate_error(error: KubeError, *, doing: str) -> ProviderError:
    """What an error of the provider's cluster means for the pod."""
    unavailable = ProviderUnavailable(f"cannot {doing} at the provider: {error}")
    if not isinstance(error, ApiError) or not error.is_status or _NOT_READY.search(error.server_message):
        return unavailable
    said = error.server_message[:LONGEST_DENIAL]
    if isinstance(error, Forbidden):
        if _LACKS_RIGHT.search(said):
            return unavailable
        if _QUOTA.search(said):
            return ProviderFull("QuotaExceeded", f"the provider has no room: {describe_quota(said) or said}")
        if not _DENIED.search(said):
            return unavailable
        return ProviderRefused("RefusedByProvider", f"the provider refuses to {doing}: {_POD_NAME.sub('', said)}")
    if isinstance(error, BadRequest | Invalid | TooLarge):
        return ProviderRefused("InvalidAtProvider", f"the provider refuses to {doing}: {_POD_NAME.sub('', said)}")
    return unavailable
