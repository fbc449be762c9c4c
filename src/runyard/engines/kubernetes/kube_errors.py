"""Errors of the cluster as the Core understands them: try again later, or never. An API error is no failed run.

| the cluster's answer                                    | the Core's                                            |
|---------------------------------------------------------|-------------------------------------------------------|
| no answer, 401, any other 404, 409, 429, 5xx            | `EngineUnavailable` `engine.failed`                   |
| any answer without a Status: a proxy's page             | `EngineUnavailable` `engine.failed`                   |
| no answer before the deadline                           | `EngineUnavailable` `engine.timeout`                  |
| 403 by authorization (RBAC)                             | `EngineUnavailable` `kube.permissions`: which right   |
| 403 by a ResourceQuota without room                     | `EngineFull` `quota.exceeded`, with its figures       |
| 403 by admission that is not ready, or not configured   | `EngineUnavailable` `engine.failed`                   |
| 404 or 403: the namespace is missing or being deleted   | `EngineUnavailable` `namespace.missing`               |
| any other 403 that no admission rule gave               | `EngineUnavailable` `engine.failed`                   |
| 400, 413, 422; 403 by a webhook or an admission rule    | `EngineRefusal` `admission.refused`                   |
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from runyard.app.engine import EngineError, EngineFull, EngineRefusal, EngineUnavailable
from runyard.domain.reasons import Reason
from runyard.kube import ApiError, BadRequest, DeadlineExceeded, Forbidden, Invalid, KubeError, NotFound, TooLarge
from runyard.pods.creation_refusal import describe_quota

LONGEST_DENIAL = 2048
"""How many characters of a denial by an admission rule are passed on."""
_LACKS_RIGHT = re.compile(
    r"forbidden: User \"|is attempting to grant RBAC permissions|"
    r"is forbidden: cannot set (?:blockOwnerDeletion|an ownerRef on a resource you can't delete)"
)
"""Authorization, escalation of roles, and the admission plugin OwnerReferencesPermissionEnforcement."""
_QUOTA = re.compile(r"exceeded quota: ")
"""Not `failed quota: `: that one demands requests or limits that the run does not have. More room would not help."""
_NOT_READY = re.compile(
    r"is forbidden: (?:not yet ready to handle request|status unknown for quota: |"
    r"unable to \S+ \S+ at this time because there was an error enforcing limit ranges)|"
    r"denied request: failed to configure (?:policy|binding): "
)
"""Admission that cannot decide yet: the apiserver starts, a new quota is not counted, a policy has no parameters."""
_DENIED = re.compile(r"^\S+ \"[^\"]*\" is forbidden: |admission webhook \"[^\"]*\" denied the request")
"""How the apiserver words what an admission rule refuses: the object is named. A gateway's own 403 has other words."""
_NO_NAMESPACE = re.compile(r"^namespaces \"[^\"]*\" not found")
_FAILED_TEST = "the server rejected our request due to an error in our request"


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turn the errors of a block into those of the port. `doing` completes the sentence `cannot …`."""
    try:
        yield
    except KubeError as error:
        raise translate_error(error, doing=doing) from error


def is_failed_test(error: Invalid) -> bool:
    """Whether a test of a JSON patch failed: the object is not as it was read. The apiserver names no field then."""
    return not error.causes and _FAILED_TEST in error.server_message


def translate_error(error: KubeError, *, doing: str) -> EngineError:
    """What the Core does about an error of the cluster: retry the call, or end the run with the cluster's words."""
    message = f"cannot {doing}: {error}"
    if isinstance(error, DeadlineExceeded):
        return EngineUnavailable(Reason.ENGINE_TIMEOUT, message)
    if isinstance(error, ApiError) and not error.is_status:
        return EngineUnavailable(Reason.ENGINE_FAILED, f"{message}; the answer is not an apiserver's")
    if isinstance(error, Forbidden):
        return _translate_forbidden(error, doing=doing)
    if isinstance(error, NotFound) and _NO_NAMESPACE.search(error.server_message):
        return EngineUnavailable(Reason.NAMESPACE_MISSING, message)
    if isinstance(error, BadRequest | Invalid | TooLarge) and not _is_passing(error):
        return _refuse(error, doing=doing)
    return EngineUnavailable(Reason.ENGINE_FAILED, message)


def _translate_forbidden(error: Forbidden, *, doing: str) -> EngineError:
    said = error.server_message
    if _LACKS_RIGHT.search(said):
        return EngineUnavailable(
            Reason.KUBE_PERMISSIONS,
            f"cannot {doing}: the server lacks a right: {error}; `runyard server rbac` prints all that it needs",
        )
    if any(cause.reason == "NamespaceTerminating" for cause in error.causes):
        return EngineUnavailable(Reason.NAMESPACE_MISSING, f"cannot {doing}: the namespace is being deleted: {error}")
    if _QUOTA.search(said):
        words = describe_quota(said) or f"cannot {doing} yet: {error}"
        return EngineFull(Reason.QUOTA_EXCEEDED, f"{words}; the run goes on when there is room")
    if _DENIED.search(said) and not _is_passing(error):
        return _refuse(error, doing=doing)
    return EngineUnavailable(Reason.ENGINE_FAILED, f"cannot {doing}: {error}")


def _refuse(error: ApiError, *, doing: str) -> EngineRefusal:
    """With all that a rule says. Complaints about fields are cut as usual: they quote values."""
    words = error.server_message[:LONGEST_DENIAL] if _DENIED.search(error.server_message) else str(error)
    return EngineRefusal(Reason.ADMISSION_REFUSED, f"the cluster refuses to {doing}: {words}")


def _is_passing(error: ApiError) -> bool:
    """Whether the same request may succeed later, although the apiserver words it as a refusal."""
    is_test = isinstance(error, Invalid) and is_failed_test(error)
    return is_test or _NOT_READY.search(error.server_message) is not None
