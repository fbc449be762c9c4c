import json

import pytest

from runyard.kube.errors import Disconnected, KubeError, error_from_status
from runyard.node.providers.kubernetes.refusals import translate_error
from runyard.node.providers.provider import ProviderError, ProviderFull, ProviderRefused, ProviderUnavailable


def _answer(code: int, message: str, reason: str = "") -> KubeError:
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return error_from_status(code, json.dumps(status).encode(), headers={})


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Disconnected("cut"), ProviderUnavailable),
        (_answer(401, "who?"), ProviderUnavailable),
        (_answer(404, 'namespaces "x" not found', "NotFound"), ProviderUnavailable),
        (_answer(409, "changed", "Conflict"), ProviderUnavailable),
        (_answer(500, "panic"), ProviderUnavailable),
        (_answer(403, 'pods is forbidden: User "a" cannot create resource "pods"'), ProviderUnavailable),
        (_answer(403, 'pods "p" is forbidden: User "a" cannot delete resource "pods"'), ProviderUnavailable),
        (_answer(403, 'pods "p" is forbidden: not yet ready to handle request'), ProviderUnavailable),
        (_answer(403, 'pods "p" is forbidden: unable to create: because it is being terminated'), ProviderUnavailable),
        (error_from_status(403, b"<html>gateway</html>", headers={}), ProviderUnavailable),
        (_answer(403, 'pods "p" is forbidden: violates PodSecurity "baseline:latest": privileged'), ProviderRefused),
        (_answer(403, 'admission webhook "w" denied the request: no'), ProviderRefused),
        (_answer(400, "unknown field"), ProviderRefused),
        (_answer(422, 'Pod "p" is invalid: spec.x: Required value', "Invalid"), ProviderRefused),
    ],
)
def test_pod_is_refused_only_when_the_provider_decided(error: KubeError, kind: type[ProviderError]) -> None:
    assert type(translate_error(error, doing="start the pod")) is kind


def test_provider_is_full_when_a_quota_has_no_room() -> None:
    said = 'pods "p" is forbidden: exceeded quota: team, requested: cpu=2, used: cpu=1, limited: cpu=2'
    error = translate_error(_answer(403, said), doing="start the pod")
    assert isinstance(error, ProviderFull)
    assert error.reason == "QuotaExceeded"
    assert "the resource quota team has no room (cpu: 2 requested, 1 of 2 used)" in str(error)


def test_words_are_the_servers_without_its_name_when_it_refuses() -> None:
    said = 'pods "pod-1" is forbidden: violates PodSecurity "baseline:latest": privileged'
    words = str(translate_error(_answer(403, said), doing="start the pod"))
    assert words == 'the provider refuses to start the pod: violates PodSecurity "baseline:latest": privileged'
