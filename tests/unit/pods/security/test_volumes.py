import pytest

from runyard.pods.security.known_fields import ALLOWED_VOLUMES, FORBIDDEN_VOLUMES
from tests.unit.pods.security.pods import judge, pod


@pytest.mark.parametrize("kind", sorted(ALLOWED_VOLUMES))
def test_volume_is_allowed_when_it_carries_no_rights(kind: str) -> None:
    assert judge(pod(volumes=[{"name": "v", kind: {}}])) == {}


@pytest.mark.parametrize("kind", FORBIDDEN_VOLUMES)
def test_volume_is_refused_by_restricted_when_its_kind_is_not_named(kind: str) -> None:
    given = pod(volumes=[{"name": "v", kind: {}}])
    assert judge(given) == {"restrictedVolumes": f'volume "v" uses restricted volume type "{kind}"'}
    assert judge(given, level="baseline") == ({"hostPathVolumes": 'volume "v"'} if kind == "hostPath" else {})


def test_volumes_and_kinds_are_named_when_several_are_refused() -> None:
    given = pod(volumes=[{"name": "b", "nfs": {}}, {"name": "a", "hostPath": {}}, {"name": "c", "hostPath": {}}])
    assert judge(given) == {"restrictedVolumes": 'volumes "b", "a", "c" use restricted volume types "hostPath", "nfs"'}
    assert judge(given, level="baseline") == {"hostPathVolumes": 'volumes "a", "c"'}


@pytest.mark.parametrize("volume", [{"name": "v"}, {"name": "v", "hostPath": None}])
def test_volume_is_an_empty_directory_when_it_names_no_source(volume: dict[str, object]) -> None:
    assert judge(pod(volumes=[volume])) == {}


def test_second_source_does_not_slip_through_when_the_first_is_allowed() -> None:
    given = pod(volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}])
    assert judge(given) == {"restrictedVolumes": 'volume "v" uses restricted volume type "hostPath"'}
