"""Amounts: a container's requests and limits by our names, GPUs, and the sizes of scratch space and volumes."""

from collections.abc import Iterator

from runyard.domain.admission.admin_inputs import AdminInputs
from runyard.domain.admission.bundle import PLATFORM_VOLUMES, SCRATCH_VOLUME, Bundle, ObjectPart, Source
from runyard.domain.admission.values import Facts
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.policy import BUILT_IN
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem
from runyard.spec.resources import SMALL_REQUESTS

NAMES = {"cpu": "cpu", "mem": "memory", "ephemeral-storage": "ephemeral-storage"}
"""Kubernetes' resource names by our names."""
_USERS = ("cpu", "memory")
STORAGE = ("resources", "requests", "storage")


def collect_amounts(facts: Facts, bundle: Bundle, admin: AdminInputs) -> None:
    """Collect every amount that a rule can apply to."""
    if bundle.container is not None:
        for name in NAMES:
            _collect_sides(facts, bundle.container, admin, name)
        _collect_gpus(facts, bundle.container, admin)
        scratch = next((source for source in bundle.iter_sources() if source.name == SCRATCH_VOLUME), None)
        _collect_scratch(facts, scratch, bundle.container, admin)
    for claim in bundle.of("PersistentVolumeClaim"):
        _collect_claim(facts, claim.open("spec"), admin)
    for source in bundle.iter_sources():
        if source.name in PLATFORM_VOLUMES:
            continue
        if source.kind == "ephemeral":
            _collect_claim(facts, source.part.open("volumeClaimTemplate", "spec"), admin)
        elif source.kind == "emptyDir":
            size = find_amount(source.part, "sizeLimit")
            said = [*admin.iter_defaults("volumes.size_limit"), *admin.list_maxima("volumes.size_limit")]
            is_set_by_admin = size in said or bool(admin.find_volumes(size=size))
            facts.add("volumes.size_limit", (*source.part.path, "sizeLimit"), size, is_set_by_admin=is_set_by_admin)


def find_amount(part: ObjectPart, *keys: str) -> Quantity | None:
    """The amount under these keys, or None."""
    given = part.find(*keys)
    return None if given is None else Quantity.parse(given)


def check_resources(bundle: Bundle, admin: AdminInputs) -> Iterator[Problem]:
    """Check resources that only admins may set, limits below requests, and GPUs that are not whole or not equal."""
    if bundle.container is None:
        return
    gpus = list_gpu_names(admin)
    mine: tuple[str, ...] = admin.get_platform("gpu_resources")
    found: dict[str, dict[str, Quantity]] = {}
    for side in ("requests", "limits"):
        for name, given in (bundle.container.find("resources", side) or {}).items():
            amount = Quantity.parse(given)
            path = (*bundle.container.path, "resources", side, name)
            found.setdefault(name, {})[side] = amount
            said = [*admin.list_amounts(*_spell(name, gpus)), *admin.list_maxima(f"resources.{name}.limits")]
            said += [SMALL_REQUESTS[name]] if name in SMALL_REQUESTS else []
            if name not in (*_USERS, *mine) and amount not in said:
                message = f"only a profile or the policy may set `{name}`, and neither sets this amount"
                yield Problem(Code.ADMISSION_RESOURCE, path, message, value=given)
    path = (*bundle.container.path, "resources")
    for name, sides in found.items():
        request, limit = sides.get("requests"), sides.get("limits")
        if limit is not None and limit.is_zero and name in NAMES.values():
            yield Problem(Code.ADMISSION_RESOURCE, (*path, "limits", name), "a limit of 0 means no limit", value="0")
        if request is not None and limit is not None and limit < request:
            yield Problem(
                Code.ADMISSION_RESOURCE, (*path, "limits", name), "the limit is below the request", value=str(limit)
            )
        if name in gpus and (request != limit or not all(amount.is_whole for amount in sides.values())):
            message = f"`{name}` must be a whole number, equal in requests and limits"
            yield Problem(Code.ADMISSION_GPU, path, message)


def list_gpu_names(admin: AdminInputs) -> frozenset[str]:
    """Every resource that a scope of the policy names as a GPU, or the built-in one. GPU rules apply to all of them."""
    said = [scope.platform.gpu_resources for scope in admin.scopes if scope is not BUILT_IN]
    names = [names for names in said if names is not None] or [admin.get_platform("gpu_resources")]
    return frozenset(name for group in names for name in group)


def _spell(name: str, gpus: frozenset[str]) -> tuple[str, ...]:
    return (name, "gpu") if name in gpus else (name,)


def _collect_sides(facts: Facts, container: ObjectPart, admin: AdminInputs, name: str) -> None:
    said = admin.list_amounts(name)
    caps = admin.list_maxima(f"resources.{name}.limits") if name in SMALL_REQUESTS else []
    small = [*caps, SMALL_REQUESTS.get(name)]
    place = (*container.path, "resources")
    request = find_amount(container, "resources", "requests", NAMES[name])
    limit = find_amount(container, "resources", "limits", NAMES[name])
    sides = (
        (
            "requests",
            (*place, "requests", NAMES[name]),
            request,
            request in said or (limit in caps and request in small),
        ),
        (
            "limits",
            (*place, "limits", NAMES[name]),
            limit,
            limit in said or limit in caps or _is_derived(limit, request, admin, name),
        ),
    )
    for side, path, value, is_set_by_admin in sides:
        facts.add(f"resources.{name}.{side}", path, value, is_set_by_admin=is_set_by_admin)
        if value is not None:
            facts.add(f"resources.{name}", path, value, is_set_by_admin=is_set_by_admin)
    if request is None and limit is None:
        facts.add(f"resources.{name}", place, None)


def _is_derived(limit: Quantity | None, request: Quantity | None, admin: AdminInputs, name: str) -> bool:
    return limit is not None and request is not None and limit in list_derived_limits(request, admin, name)


def list_derived_limits(request: Quantity, admin: AdminInputs, name: str) -> list[Quantity]:
    """The limits that can result from a request where nobody sets a limit."""
    defaults = list(admin.iter_defaults(f"resources.{name}.limits"))
    derived = [*defaults, *([request] if defaults else []), *admin.list_maxima(f"resources.{name}.limits")]
    if name == "mem":
        derived += [request.scale(admin.mem_tolerance), *admin.list_maxima("resources.mem", "resources.mem.limits")]
    return derived


def _collect_gpus(facts: Facts, container: ObjectPart, admin: AdminInputs) -> None:
    names = sorted(list_gpu_names(admin))
    said = admin.list_amounts("gpu", *names)
    place = (*container.path, "resources", "limits")
    amounts = {name: amount for name in names if (amount := find_amount(container, "resources", "limits", name))}
    for name, amount in amounts.items():
        facts.add("resources.gpu", (*place, name), amount, is_set_by_admin=amount in said)
    if not amounts:
        facts.add("resources.gpu", place, None)
    elif len(amounts) > 1:
        # A profile may set GPUs of two kinds; the rule bounds their sum.
        first, *others = amounts.values()
        facts.add("resources.gpu", place, sum(others, start=first), is_set_by_admin=True)


def _collect_scratch(facts: Facts, scratch: Source | None, container: ObjectPart, admin: AdminInputs) -> None:
    if scratch is None:
        facts.add("resources.disk", (*container.path, "volumeMounts"), None)
        return
    claim = scratch.part.open("volumeClaimTemplate", "spec") if scratch.kind == "ephemeral" else None
    size = find_amount(claim, *STORAGE) if claim else find_amount(scratch.part, "sizeLimit")
    facts.add("resources.disk", scratch.part.path, size, is_set_by_admin=size in admin.list_amounts("disk"))
    if claim is not None:
        storage_class = claim.find("storageClassName")
        facts.add(
            "resources.disk.storage_class", (*claim.path, "storageClassName"), storage_class, is_set_by_admin=True
        )


def _collect_claim(facts: Facts, claim: ObjectPart, admin: AdminInputs) -> None:
    size = find_amount(claim, *STORAGE)
    said = [*admin.iter_defaults("volumes.size"), *admin.list_maxima("volumes.size")]
    facts.add(
        "volumes.size",
        (*claim.path, *STORAGE),
        size,
        is_set_by_admin=size in said or bool(admin.find_volumes(size=size)),
    )
    storage_class = claim.find("storageClassName")
    defaults = admin.iter_defaults("volumes.storage_class")
    is_set_by_admin = storage_class in defaults or bool(admin.find_volumes(storage_class=storage_class))
    facts.add(
        "volumes.storage_class", (*claim.path, "storageClassName"), storage_class, is_set_by_admin=is_set_by_admin
    )
