"""Opening the engine."""

from collections.abc import Iterable
from typing import cast

import pytest

from runyard.app.engine import EngineUnavailable
from runyard.domain.reasons import Reason
from runyard.engines.kubernetes import kubernetes_engine
from runyard.engines.kubernetes.kubernetes_settings import KubernetesSettings
from runyard.kube import Client
from runyard.kube.permissions import Access
from runyard.kube.resources import JOBS

SETTINGS = KubernetesSettings(installation="i1", namespace="runs")


@pytest.mark.parametrize(("denials", "is_open"), [(0, True), (3, True), (1_000_000, False)])
async def test_rights_are_asked_for_again_when_the_apiserver_has_just_started(
    monkeypatch: pytest.MonkeyPatch, *, denials: int, is_open: bool
) -> None:
    left = denials

    async def find_missing(_client: Client, asked: Iterable[Access]) -> list[Access]:
        nonlocal left
        assert list(asked)
        left -= 1
        return [] if left < 0 else [Access("create", JOBS, namespace="runs")]

    monkeypatch.setattr(kubernetes_engine, "find_missing", find_missing)
    monkeypatch.setattr(kubernetes_engine, "RIGHTS_SECONDS", 0.2)
    monkeypatch.setattr(kubernetes_engine, "RIGHTS_RETRY_SECONDS", 0.001)
    client = cast("Client", object())
    if is_open:
        await kubernetes_engine._check_rights(client, SETTINGS)
        assert left == -1
    else:
        with pytest.raises(EngineUnavailable, match=r"lacks rights in namespace runs: create jobs.batch") as failure:
            await kubernetes_engine._check_rights(client, SETTINGS)
        assert failure.value.code == Reason.KUBE_PERMISSIONS
