"""Errors of a cluster: what is tried again, and what ends a run."""

import pytest

from runyard.app.engine import EngineError, EngineFull, EngineRefusal, EngineUnavailable
from runyard.domain.reasons import Reason
from runyard.engines.kubernetes.kube_errors import LONGEST_DENIAL, engine_errors, is_failed_test, translate_error
from runyard.kube import Cause, DeadlineExceeded, Disconnected, Invalid, KubeError, NotFound, Unreachable
from runyard.kube.errors import MESSAGE_CHARACTERS, error_from_status, error_from_status_object

DENIED = (
    'jobs.batch is forbidden: User "system:serviceaccount:a:b" cannot create resource "jobs" in API group "batch" '
    'in the namespace "runs"'
)
QUOTA = (
    'jobs.batch "run-1" is forbidden: exceeded quota: small, requested: count/jobs.batch=1, '
    "used: count/jobs.batch=5, limited: count/jobs.batch=5"
)
POLICY = "jobs.batch \"run-1\" is forbidden: ValidatingAdmissionPolicy 'wall' with binding 'wall' denied request: no"
WEBHOOK = 'admission webhook "guard.example.org" denied the request: not on a Friday'


NAMED = 'jobs.batch "run-1" is forbidden: '
LIMIT_RANGES_UNREADABLE = (
    "unable to CREATE batch/v1,Resource=jobs at this time because there was an error enforcing limit ranges"
)
FINALIZERS = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , "
ESCALATION = (
    'roles.rbac.authorization.k8s.io "r" is forbidden: user "u" (groups=["g"]) is attempting to grant RBAC permissions '
    "not currently held: x"
)
PAGE = b"<html><head><title>403 Forbidden</title></head><body>blocked by the firewall</body></html>"


def answer(code: int, message: str, reason: str = "", causes: tuple[Cause, ...] = ()) -> KubeError:
    """As the apiserver says it."""
    details = {"causes": [{"reason": cause.reason, "message": cause.message} for cause in causes]}
    return error_from_status_object({"code": code, "reason": reason, "message": message, "details": details})


@pytest.mark.parametrize(
    ("error", "kind", "code", "words"),
    [
        (Unreachable("connection refused"), EngineUnavailable, Reason.ENGINE_FAILED, "connection refused"),
        (Disconnected("cut"), EngineUnavailable, Reason.ENGINE_FAILED, "cut"),
        (DeadlineExceeded("20 s"), EngineUnavailable, Reason.ENGINE_TIMEOUT, "20 s"),
        (answer(401, "who", "Unauthorized"), EngineUnavailable, Reason.ENGINE_FAILED, "who"),
        (answer(404, 'jobs "x" not found', "NotFound"), EngineUnavailable, Reason.ENGINE_FAILED, "not found"),
        (answer(404, 'namespaces "a" not found', "NotFound"), EngineUnavailable, Reason.NAMESPACE_MISSING, "not found"),
        (answer(409, "changed", "Conflict"), EngineUnavailable, Reason.ENGINE_FAILED, "changed"),
        (answer(429, "slow", "TooManyRequests"), EngineUnavailable, Reason.ENGINE_FAILED, "slow"),
        (answer(500, "etcd", "InternalError"), EngineUnavailable, Reason.ENGINE_FAILED, "etcd"),
        (answer(403, DENIED, "Forbidden"), EngineUnavailable, Reason.KUBE_PERMISSIONS, "runyard server rbac"),
        (answer(403, QUOTA, "Forbidden"), EngineFull, Reason.QUOTA_EXCEEDED, "5 of 5 used"),
        (
            answer(403, "being terminated", "Forbidden", (Cause("", "NamespaceTerminating", ""),)),
            EngineUnavailable,
            Reason.NAMESPACE_MISSING,
            "being deleted",
        ),
        (answer(403, POLICY, "Forbidden"), EngineRefusal, Reason.ADMISSION_REFUSED, "denied request: no"),
        (answer(400, WEBHOOK, "BadRequest"), EngineRefusal, Reason.ADMISSION_REFUSED, "not on a Friday"),
        (answer(413, "large", "RequestEntityTooLarge"), EngineRefusal, Reason.ADMISSION_REFUSED, "large"),
        (answer(422, "field", "Invalid"), EngineRefusal, Reason.ADMISSION_REFUSED, "field"),
    ],
)
def test_error_says_whether_to_try_again_when_the_cluster_does_not_comply(
    error: KubeError, kind: type[EngineError], code: Reason, words: str
) -> None:
    translated = translate_error(error, doing="create the anchor run-1")
    assert type(translated) is kind
    assert translated.code == code
    assert words in str(translated)
    assert code is Reason.QUOTA_EXCEEDED or "create the anchor run-1" in str(translated)


@pytest.mark.parametrize("body", [PAGE, b"", b'{"message": "denied", "status": 403}', b'"no"'])
@pytest.mark.parametrize("code", [400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 429, 500, 502])
def test_run_goes_on_when_a_proxy_answers_instead_of_the_apiserver(code: int, body: bytes) -> None:
    translated = translate_error(error_from_status(code, body, headers={}), doing="create the anchor run-1")
    assert type(translated) is EngineUnavailable
    assert translated.code == Reason.ENGINE_FAILED
    assert str(code) in str(translated)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (f"{NAMED}not yet ready to handle request", Reason.ENGINE_FAILED),
        (f"{NAMED}status unknown for quota: team, resources: count/jobs.batch", Reason.ENGINE_FAILED),
        (f"{NAMED}{LIMIT_RANGES_UNREADABLE}", Reason.ENGINE_FAILED),
        ("policy 'wall' with binding 'wall' denied request: failed to configure binding: x", Reason.ENGINE_FAILED),
        ("access denied by the gateway", Reason.ENGINE_FAILED),
        ("", Reason.ENGINE_FAILED),
        (f'{NAMED}User "{"u" * 500}" cannot patch resource "jobs" in API group "batch"', Reason.KUBE_PERMISSIONS),
        ('forbidden: User "system:anonymous" cannot get path "/version"', Reason.KUBE_PERMISSIONS),
        (f"{NAMED}{FINALIZERS}", Reason.KUBE_PERMISSIONS),
        (f"{NAMED}cannot set an ownerRef on a resource you can't delete: , <nil>", Reason.KUBE_PERMISSIONS),
        (ESCALATION, Reason.KUBE_PERMISSIONS),
    ],
)
def test_run_goes_on_when_a_403_is_no_denial_by_admission(message: str, code: Reason) -> None:
    translated = translate_error(answer(403, message, "Forbidden"), doing="create the anchor run-1")
    assert type(translated) is EngineUnavailable
    assert translated.code == code


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (403, f"{NAMED}maximum cpu usage per Container is 1, but limit is 2"),
        (403, f'{NAMED}violates PodSecurity "restricted:latest": runAsNonRoot != true'),
        (403, WEBHOOK),
        (422, POLICY),
        (400, 'Job in version "v1" cannot be handled as a Job: strict decoding error: unknown field "spec.x"'),
    ],
)
def test_run_is_refused_when_admission_denies_it_or_it_is_invalid(code: int, message: str) -> None:
    causes = (Cause("", "", message),)
    assert isinstance(translate_error(answer(code, message, causes=causes), doing="create"), EngineRefusal)


def test_reason_of_a_denial_is_passed_on_when_the_names_before_it_are_long() -> None:
    denied = f"{NAMED}ValidatingAdmissionPolicy '{'p' * 200}' with binding '{'b' * 200}' denied request: "
    assert "not on a Friday" in str(translate_error(answer(403, f"{denied}not on a Friday"), doing="create"))
    endless = str(translate_error(answer(403, denied + "x" * 100_000), doing="create"))
    assert len(endless) < LONGEST_DENIAL + 100


def test_run_goes_on_when_the_test_of_a_patch_failed_or_a_policy_lacks_its_parameters() -> None:
    failed = "the server rejected our request due to an error in our request"
    assert isinstance(translate_error(answer(422, failed, "Invalid"), doing="release"), EngineUnavailable)
    incomplete = f"{NAMED}ValidatingAdmissionPolicy 'w' denied request: failed to configure policy: no params"
    causes = (Cause("", "", incomplete),)
    assert isinstance(translate_error(answer(422, incomplete, "Invalid", causes), doing="release"), EngineUnavailable)


def test_every_figure_of_a_quota_is_told_when_the_apiserver_s_sentence_is_long() -> None:
    names = [f"requests.example.org/accelerator-{number}" for number in range(9)]
    amounts = [",".join(f"{name}={amount}" for name in names) for amount in (1, 2, 3)]
    message = f"{NAMED}exceeded quota: team, requested: {amounts[0]}, used: {amounts[1]}, limited: {amounts[2]}"
    assert len(message) > MESSAGE_CHARACTERS
    told = str(translate_error(answer(403, message, "Forbidden"), doing="create the anchor run-1"))
    assert all(f"{name}: 1 requested, 2 of 3 used" in told for name in names)


def test_quota_that_demands_amounts_ends_the_run_when_more_room_would_not_help() -> None:
    message = 'pods "run-1" is forbidden: failed quota: small: must specify limits.memory'
    assert isinstance(translate_error(answer(403, message, "Forbidden"), doing="start"), EngineRefusal)


def test_errors_of_others_pass_when_they_are_no_errors_of_the_cluster() -> None:
    with pytest.raises(EngineUnavailable) as caught, engine_errors("look"):
        raise NotFound("gone", status=404)
    assert isinstance(caught.value.__cause__, NotFound)
    with pytest.raises(EngineRefusal, match="mine"), engine_errors("look"):
        raise EngineRefusal(Reason.ANCHOR_TAKEN, "mine")


def test_failed_test_of_a_patch_is_told_from_an_invalid_object_when_fields_are_named() -> None:
    assert is_failed_test(Invalid("the server rejected our request due to an error in our request", status=422))
    assert not is_failed_test(Invalid("<html>no</html>", status=422))
    causes = {"causes": [{"field": "spec.backoffLimit", "reason": "FieldValueInvalid", "message": "no"}]}
    assert not is_failed_test(Invalid("spec.backoffLimit: no", status=422, details=causes))
