"""The secrets, kept volumes and config maps of a project, which runs refer to by name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from runyard.app.entities.volume_rows import get_claim
from runyard.app.errors import NotPossible
from runyard.app.list_query import Query
from runyard.app.locks import lock_of_count
from runyard.app.model import Entity
from runyard.app.ports import EntityLookup, UnitOfWork
from runyard.spec.config_maps import MOST_RUN_CONFIG_BYTES, ConfigMap, ConfigMapReference, count_bytes
from runyard.spec.entities import ConfigMapSpec
from runyard.spec.problem_codes import Code
from runyard.spec.run_fields import read_model

MOST_VOLUMES = 1000
"""Per project, with the claims that runs left."""
MOST_SECRETS = 2000
MOST_CONFIG_MAPS = 2000
"""Names per project, each with any number of versions. Every submit reads them all, and errors propose the nearest."""
MOST_TRIGGERS = 1000
"""Per project, all versions: the trigger loop looks at each of them in every pass."""


@dataclass(frozen=True, slots=True)
class CountLimit:
    """How many entities of a type a project may have. One that already has more keeps them."""

    most: int
    code: Code
    plural: str
    """How an error calls them."""
    counts_versions: bool = False
    """False: another version of a name is not a further one."""


COUNT_LIMITS: Mapping[str, CountLimit] = {
    "secret": CountLimit(MOST_SECRETS, Code.SECRET_TOO_MANY, "secrets"),
    "configmap": CountLimit(MOST_CONFIG_MAPS, Code.CONFIG_MAP_TOO_MANY, "config maps"),
    "trigger": CountLimit(MOST_TRIGGERS, Code.TRIGGER_TOO_MANY, "triggers", counts_versions=True),
}


async def list_secret_names(unit: UnitOfWork, project: str) -> frozenset[str]:
    """The names of a project's secrets."""
    return frozenset(await unit.entities.list_names("secret", project=project))


async def check_count(unit: UnitOfWork, entity: Entity) -> None:
    """Raises `NotPossible` if a new entity is one too many. What the project has already is left to other checks."""
    limit = COUNT_LIMITS.get(entity.type)
    if limit is None:
        return
    project = entity.project
    await unit.lock(lock_of_count(entity.type, project))
    query = Query(type=entity.type, project=project, size=1, is_without_documents=True)
    page = await unit.entities.find_page(replace(query, versions="all") if limit.counts_versions else query)
    if page.total < limit.most:
        return
    if limit.counts_versions:
        known = await unit.entities.find(entity.type, entity.id, project=project)
    else:
        known = await unit.entities.find_latest(entity.type, project=project, name=entity.name)
    if known is None:
        message = f"project {project} has {page.total} {limit.plural}; allowed: at most {limit.most}: delete some"
        raise NotPossible(limit.code, message)


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
