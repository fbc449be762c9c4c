"""The secrets, kept volumes and config maps of a project, which runs refer to by name."""

from collections.abc import Iterable, Mapping

from runyard.app.entities.volume_rows import get_claim
from runyard.app.list_query import Query
from runyard.app.ports import EntityLookup, UnitOfWork
from runyard.spec.config_maps import MOST_RUN_CONFIG_BYTES, ConfigMap, ConfigMapReference, count_bytes
from runyard.spec.entities import ConfigMapSpec
from runyard.spec.run_fields import read_model

MOST_VOLUMES = 1000
"""Per project, with the claims that runs left."""


async def list_secret_names(unit: UnitOfWork, project: str) -> frozenset[str]:
    """The names of a project's secrets."""
    return frozenset(await unit.entities.list_names("secret", project=project))


async def list_volume_claims(unit: UnitOfWork, project: str) -> Mapping[str, str]:
    """The claims of a project's kept volumes, by the names of the volumes; without those that are being deleted."""
    page = await unit.entities.find_page(Query(type="volume", project=project, size=MOST_VOLUMES, is_summary=True))
    return {volume.name: get_claim(volume) for volume in page.content if volume.state != "DELETING"}


async def list_config_map_names(unit: UnitOfWork, project: str) -> frozenset[str]:
    """The names of a project's config maps."""
    return frozenset(await unit.entities.list_names("configmap", project=project))


async def load_config_maps(
    entities: EntityLookup, project: str, references: Iterable[ConfigMapReference]
) -> Mapping[str, ConfigMap]:
    """The versions that the references name, by `NAME` or `NAME:VERSION`; unknown ones are left out.

    Stops when there are more bytes than one run may have.
    """
    found: dict[str, ConfigMap] = {}
    for reference in references:
        if count_bytes(*(each.data for each in found.values())) > MOST_RUN_CONFIG_BYTES:
            break
        if reference.version is not None:
            entity = await entities.find("configmap", reference.version, project=project)
        else:
            entity = await entities.find_latest("configmap", project=project, name=reference.name)
        if entity is not None and entity.name == reference.name:
            data = read_model(ConfigMapSpec, entity.spec).data or {}
            found[str(reference)] = ConfigMap(name=entity.name, version=entity.id, data=data)
    return found
