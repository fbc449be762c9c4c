"""The secrets and kept volumes of a project, which runs refer to by name."""

from collections.abc import Mapping

from runyard.app.ports import Query, UnitOfWork

MOST_VOLUMES = 1000
"""Per project."""


async def list_secret_names(unit: UnitOfWork, project: str) -> frozenset[str]:
    """The names of a project's secrets."""
    return frozenset(await unit.entities.list_names("secret", project=project))


def make_claim_name(volume_id: str) -> str:
    """The name of a kept volume's PersistentVolumeClaim."""
    return f"vol-{volume_id}"


async def list_volume_claims(unit: UnitOfWork, project: str) -> Mapping[str, str]:
    """The claims of a project's kept volumes, by the names of the volumes."""
    page = await unit.entities.find_page(Query(type="volume", project=project, size=MOST_VOLUMES))
    return {volume.name: make_claim_name(volume.id) for volume in page.content}
