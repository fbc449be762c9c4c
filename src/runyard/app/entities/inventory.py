"""What a project has that runs can refer to by name: its secrets and the volumes it keeps."""

from collections.abc import Mapping

from runyard.app.ports import Query, UnitOfWork

MOST_VOLUMES = 1000
"""Per project."""


async def list_secret_names(unit: UnitOfWork, project: str) -> frozenset[str]:
    """The names of a project's secrets."""
    return frozenset(await unit.entities.list_names("secret", project=project))


def make_claim_name(volume_id: str) -> str:
    """The claim behind a kept volume."""
    return f"vol-{volume_id}"


async def list_volume_claims(unit: UnitOfWork, project: str) -> Mapping[str, str]:
    """The claims behind a project's kept volumes, by the names that users gave them."""
    page = await unit.entities.find_page(Query(type="volume", project=project, size=MOST_VOLUMES))
    return {volume.name: make_claim_name(volume.id) for volume in page.content}
