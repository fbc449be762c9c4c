"""Amounts: a container's requests and limits by our names, GPUs, and the sizes of scratch space and volumes."""

from collections.abc import Iterator

from runyard.domain.admission.admins import Admins
from runyard.domain.admission.bundle import SCRATCH_VOLUME, Bundle, Placed, Source
from runyard.domain.admission.values import Facts
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.policy import BUILT_IN
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem
from runyard.spec.resources import SMALL_REQUESTS

NAMES = {"cpu": "cpu", "mem": "memory", "ephemeral-storage": "ephemeral-storage"}
"""Kubernetes' names by ours."""
_USERS = ("cpu", "memory")
STORAGE = ("resources", "requests", "storage")


def collect_amounts(facts: Facts, bundle: Bundle, admins: Admins) -> None:
    """Every amount that a rule may be about."""
    if bundle.container is not None:
        for name in NAMES:
            _collect_sides(facts, bundle.container, admins, name)
        _collect_gpus(facts, bundle.container, admins)
        scratch = next((source for source in bundle.iter_sources() if source.name == SCRATCH_VOLUME), None)
        _collect_scratch(facts, scratch, bundle.container, admins)
    for claim in bundle.of("PersistentVolumeClaim"):
        _collect_claim(facts, claim.open("spec"), admins)
    for source in bundle.iter_sources():
        if source.name == SCRATCH_VOLUME:
            continue
        if source.kind == "ephemeral":
            _collect_claim(facts, source.part.open("volumeClaimTemplate", "spec"), admins)
        elif source.kind == "emptyDir":
            size = find_amount(source.part, "sizeLimit")
            said = [*admins.iter_defaults("volumes.size_limit"), *admins.list_caps("volumes.size_limit")]
            is_admins = size in said or bool(admins.find_volumes(size=size))
            facts.add("volumes.size_limit", (*source.part.path, "sizeLimit"), size, is_admins=is_admins)


def find_amount(part: Placed, *keys: str) -> Quantity | None:
    """An amount, or None where none is said."""
    given = part.find(*keys)
    return None if given is None else Quantity.parse(given)


def check_resources(bundle: Bundle, admins: Admins) -> Iterator[Problem]:
    """Resources that only an admin may ask for, and GPUs that are not whole, or not the same on both sides."""
    if bundle.container is None:
        return
    gpus = list_gpu_names(admins)
    mine: tuple[str, ...] = admins.get_platform("gpu_resources")
    found: dict[str, dict[str, Quantity]] = {}
    for side in ("requests", "limits"):
        for name, given in (bundle.container.find("resources", side) or {}).items():
            amount = Quantity.parse(given)
            path = (*bundle.container.path, "resources", side, name)
            found.setdefault(name, {})[side] = amount
            said = [*admins.list_amounts(*_spell(name, gpus)), *admins.list_caps(f"resources.{name}.limit")]
            said += [SMALL_REQUESTS[name]] if name in SMALL_REQUESTS else []
            if name not in (*_USERS, *mine) and amount not in said:
                message = f"only a profile or the policy may ask for `{name}`, and none asks for so much"
                yield Problem(Code.ADMISSION_RESOURCE, path, message, value=given)
    path = (*bundle.container.path, "resources")
    for name, sides in found.items():
        request, limit = sides.get("requests"), sides.get("limits")
        if limit is not None and limit.is_zero and name in NAMES.values():
            yield Problem(
                Code.ADMISSION_RESOURCE, (*path, "limits", name), "a limit of 0 is no bound at all", value="0"
            )
        if request is not None and limit is not None and limit < request:
            yield Problem(Code.ADMISSION_RESOURCE, (*path, "limits", name), "is below the request", value=str(limit))
        if name in gpus and (request != limit or not all(amount.is_whole for amount in sides.values())):
            message = f"`{name}` must be whole, and the same in requests and limits"
            yield Problem(Code.ADMISSION_GPU, path, message)


def list_gpu_names(admins: Admins) -> frozenset[str]:
    """Every resource that any scope of the admin's calls a GPU, or else the built-in one; limits hold for all."""
    said = [scope.platform.gpu_resources for scope in admins.scopes if scope is not BUILT_IN]
    names = [names for names in said if names is not None] or [admins.get_platform("gpu_resources")]
    return frozenset(name for group in names for name in group)


def _spell(name: str, gpus: frozenset[str]) -> tuple[str, ...]:
    return (name, "gpu") if name in gpus else (name,)


def _collect_sides(facts: Facts, container: Placed, admins: Admins, name: str) -> None:
    said = admins.list_amounts(name)
    caps = admins.list_caps(f"resources.{name}.limit") if name in SMALL_REQUESTS else []
    small = [*caps, SMALL_REQUESTS.get(name)]
    place = (*container.path, "resources")
    request = find_amount(container, "resources", "requests", NAMES[name])
    limit = find_amount(container, "resources", "limits", NAMES[name])
    sides = (
        (
            "request",
            (*place, "requests", NAMES[name]),
            request,
            request in said or (limit in caps and request in small),
        ),
        ("limit", (*place, "limits", NAMES[name]), limit, limit in said or _is_derived(limit, request, admins, name)),
    )
    for side, path, value, is_admins in sides:
        facts.add(f"resources.{name}.{side}", path, value, is_admins=is_admins)
        if value is not None:
            facts.add(f"resources.{name}", path, value, is_admins=is_admins)
    if request is None and limit is None:
        facts.add(f"resources.{name}", place, None)


def _is_derived(limit: Quantity | None, request: Quantity | None, admins: Admins, name: str) -> bool:
    return limit is not None and request is not None and limit in list_derived_limits(request, admins, name)


def list_derived_limits(request: Quantity, admins: Admins, name: str) -> list[Quantity]:
    """The limits that follow from a request where nobody asks for one."""
    defaults = list(admins.iter_defaults(f"resources.{name}.limit"))
    derived = [*defaults, *([request] if defaults else []), *admins.list_caps(f"resources.{name}.limit")]
    if name == "mem":
        derived += [request.scale(admins.mem_tolerance), *admins.list_caps("resources.mem", "resources.mem.limit")]
    return derived


def _collect_gpus(facts: Facts, container: Placed, admins: Admins) -> None:
    names = sorted(list_gpu_names(admins))
    said = admins.list_amounts("gpu", *names)
    place = (*container.path, "resources", "limits")
    amounts = {name: amount for name in names if (amount := find_amount(container, "resources", "limits", name))}
    for name, amount in amounts.items():
        facts.add("resources.gpu", (*place, name), amount, is_admins=amount in said)
    if not amounts:
        facts.add("resources.gpu", place, None)
    elif len(amounts) > 1:
        # A profile may ask for GPUs of two kinds; together they are no more than a limit says.
        first, *others = amounts.values()
        facts.add("resources.gpu", place, sum(others, start=first), is_admins=True)


def _collect_scratch(facts: Facts, scratch: Source | None, container: Placed, admins: Admins) -> None:
    if scratch is None:
        facts.add("resources.disk", (*container.path, "volumeMounts"), None)
        return
    claim = scratch.part.open("volumeClaimTemplate", "spec") if scratch.kind == "ephemeral" else None
    size = find_amount(claim, *STORAGE) if claim else find_amount(scratch.part, "sizeLimit")
    facts.add("resources.disk", scratch.part.path, size, is_admins=size in admins.list_amounts("disk"))
    if claim is not None:
        storage_class = claim.find("storageClassName")
        facts.add("resources.disk.storage_class", (*claim.path, "storageClassName"), storage_class, is_admins=True)


def _collect_claim(facts: Facts, claim: Placed, admins: Admins) -> None:
    size = find_amount(claim, *STORAGE)
    said = [*admins.iter_defaults("volumes.size"), *admins.list_caps("volumes.size")]
    facts.add(
        "volumes.size", (*claim.path, *STORAGE), size, is_admins=size in said or bool(admins.find_volumes(size=size))
    )
    storage_class = claim.find("storageClassName")
    defaults = admins.iter_defaults("volumes.storage_class")
    is_admins = storage_class in defaults or bool(admins.find_volumes(storage_class=storage_class))
    facts.add("volumes.storage_class", (*claim.path, "storageClassName"), storage_class, is_admins=is_admins)
