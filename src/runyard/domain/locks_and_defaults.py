"""What follows from what was set: locks, defaults where all left a blank, and figures that Kubernetes needs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runyard.domain.board import Board, Offer, show
from runyard.domain.layer_merge import LIMIT, POINTLESS, REQUEST, Setting, settle_contradiction
from runyard.domain.project_policy import Choice, Rulings, offer_of
from runyard.spec.kubernetes.placement import iter_node_keys
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.patterns import matches
from runyard.spec.policy import BUILT_IN
from runyard.spec.problems import Path, Problem
from runyard.spec.resources import SMALL_REQUESTS
from runyard.spec.rule_grammar import RULED, Rule
from runyard.spec.services import ServicePort
from runyard.spec.volumes import SCRATCH_PATH, SHARED_MEMORY_PATH, Volume

MAPS = ("node_selector", "envs")
SCALARS = tuple(name for name in RULED if "." not in name and name not in (*MAPS, "tolerations", "secrets", "profile"))
"""Ruled fields that are one leaf."""

KUBERNETES_GRACE_SECONDS = 30
"""What a blank grace period is to Kubernetes."""

_BLANK = offer_of(BUILT_IN, None)


def apply_locks(board: Board, rulings: Rulings, setting: Setting) -> None:
    """What the policy locks: its value holds; where it has none, users' values are refused."""
    skipped = {"profile", "resources.disk.storage_class", *POINTLESS[setting.action]}
    for name, rule, _ in rulings.iter_rules():
        if not rule.locked or name in skipped or name.startswith("volumes."):
            continue
        if name == "node_selector":
            _refuse_node_affinity(board, rulings)
        if name == "image":
            _refuse_image_volumes(board, rulings)
        choice = rulings.find_default(name)
        if choice is None:
            _refuse_users(board, name, rulings)
        elif name in MAPS:
            _lock_map(board, name, choice)
        elif name == "tolerations":
            _lock_tolerations(board, choice)
        else:
            _lock_leaf(board, name, choice)


def _refuse_users(board: Board, name: str, rulings: Rulings) -> None:
    scope = rulings.find_lock(name)
    for path, offer in _iter_offers(board, name):
        if offer.is_users:
            message = f"the {scope.name if scope else 'policy'} locks `{name}`: only a profile may set it"
            board.refusals.append(Problem("policy.locked", path, message, value=show(offer.value)))


def _iter_offers(board: Board, name: str) -> list[tuple[Path, Offer]]:
    path = tuple(name.split("."))
    exact = board.find(*path)
    return [*([(path, exact)] if exact is not None else []), *board.under(*path)]


def _refuse_node_affinity(board: Board, rulings: Rulings) -> None:
    """Where node labels are locked, a user's node affinity would be a way round."""
    scope, affinity = rulings.find_lock("node_selector"), board.find("affinity")
    if affinity is None or not affinity.is_users or scope is None:
        return
    for path, key in iter_node_keys(affinity.value):
        message = f"the {scope.name} locks `node_selector`, and a node affinity chooses nodes as well"
        board.refusals.append(Problem("policy.locked", ("affinity", *path), message, value=key))


def _refuse_image_volumes(board: Board, rulings: Rulings) -> None:
    """Where the image is locked, a user's image volume would bring another program along."""
    scope, choice = rulings.find_lock("image"), rulings.find_default("image")
    for path, offer in board.under("volumes"):
        image = offer.value.image
        if image is not None and offer.is_users and scope is not None and (choice is None or image != choice.value):
            message = f"the {scope.name} locks `image`, and a volume would bring another one"
            board.refusals.append(Problem("policy.locked", (*path, "image"), message, value=image))


def _lock_tolerations(board: Board, choice: Choice) -> None:
    for path, offer in board.under("tolerations"):
        message = f"the {choice.scope.name} locks `tolerations`; one from {offer.source} is not used"
        board.take(path, message=message if board.is_asked(path) and offer.value not in choice.value else None)
    for index, entry in enumerate(choice.value):
        board.put(("tolerations", index), replace(choice.offer("locked"), value=entry))


def _lock_map(board: Board, name: str, choice: Choice) -> None:
    for path, offer in board.under(name):
        if path[1] not in choice.value:
            message = f"the {choice.scope.name} locks `{name}`; `{path[1]}` from {offer.source} is not used"
            board.take(path, message=message if board.is_asked(path) else None)
    for key, value in choice.value.items():
        board.put((name, key), replace(choice.offer("locked"), value=value))


def _lock_leaf(board: Board, name: str, choice: Choice) -> None:
    path = tuple(name.split("."))
    if path[0] == "resources" and path[1:] == ("gpu",):
        path = ("resources", "gpu", LIMIT)
    elif path[0] == "resources" and path[1:] == ("disk",):
        path = ("resources", "disk", "size")
    elif path[0] == "resources" and len(path) == 2:
        limit = board.find(*path, LIMIT)
        if limit is not None:
            message = f"the {choice.scope.name} locks `{name}`; the limit {limit.value} from {limit.source} is not used"
            board.take((*path, LIMIT), message=message if board.is_asked((*path, LIMIT)) else None)
        path = (*path, REQUEST)
    if choice.value == {}:
        message = f"the {choice.scope.name} locks `{name}` to nothing"
        board.take(path, message=message if board.is_asked(path) else None)
        return
    board.put(path, choice.offer("locked"))
    if path[0] == "resources" and path[-1] in (REQUEST, LIMIT):
        settle_contradiction(board, path[1], stronger_side=path[-1])


def fill_blanks(board: Board, rulings: Rulings, setting: Setting) -> None:
    """Defaults of policy and platform, and what follows from what was asked."""
    for name in SCALARS:
        choice = rulings.find_default(name)
        if name not in POINTLESS[setting.action] and choice is not None and choice.value != {}:
            board.fill((name,), choice.offer("default"))
    for name in MAPS:
        if (choice := rulings.find_default(name)) is not None:
            for key, value in choice.value.items():
                if name != "envs" or not _is_secret_variable(board, key):
                    board.fill((name, key), replace(choice.offer("default"), value=value))
    if (choice := rulings.find_default("tolerations")) is not None and not board.under("tolerations"):
        for index, entry in enumerate(choice.value):
            board.fill(("tolerations", index), replace(choice.offer("default"), value=entry))
    _fill_resources(board, rulings)
    _fill_workload(board, rulings, setting)
    _fill_bounds(board, rulings, setting)
    _fill_platform(board, rulings, setting)


def _is_secret_variable(board: Board, name: str) -> bool:
    secret = board.find("secrets", name)
    return secret is not None and secret.value.mount_path is None


def _fill_resources(board: Board, rulings: Rulings) -> None:
    names = dict.fromkeys(["cpu", "mem", "ephemeral-storage", *(str(path[1]) for path, _ in board.under("resources"))])
    for name in names:
        if name not in ("gpu", "disk"):
            _fill_sides(board, rulings, name)
    for field, leaf in (("resources.gpu", ("gpu", LIMIT)), ("resources.disk", ("disk", "size"))):
        choice = rulings.find_default(field)
        is_taken = field == "resources.disk" and SCRATCH_PATH in _list_mount_paths(board)
        if choice is not None and not is_taken:
            board.fill(("resources", *leaf), choice.offer("default"))


def _list_mount_paths(board: Board) -> set[str | None]:
    return {offer.value.mount_path for name in ("volumes", "secrets") for _, offer in board.under(name)}


def _fill_sides(board: Board, rulings: Rulings, name: str) -> None:
    request_path, limit_path = ("resources", name, REQUEST), ("resources", name, LIMIT)
    limit = board.find(*limit_path)
    if limit is not None:
        board.fill(request_path, replace(limit, rule="limits alone: request = limit"))
    for field in (f"resources.{name}.request", f"resources.{name}"):
        if (choice := rulings.find_default(field)) is not None:
            board.fill(request_path, choice.offer("default"))
    request = board.find(*request_path)
    if limit is None and (choice := rulings.find_default(f"resources.{name}.limit")) is not None:
        _fill_default_limit(board, name, choice, request)
    if name == "mem" and request is not None and limit_path not in board and not request.value.is_zero:
        board.fill(limit_path, _tolerate(request, rulings))


def _fill_default_limit(board: Board, name: str, choice: Choice, request: Offer | None) -> None:
    path = ("resources", name, LIMIT)
    if request is None:
        board.fill(path, choice.offer("default"))
        board.fill(("resources", name, REQUEST), choice.offer("limits alone: request = limit"))
    elif choice.value >= request.value:
        board.fill(path, choice.offer("default"))
    else:
        message = (
            f"the {choice.scope.name}'s default limit {choice.value} is below the request {request.value}; "
            "the limit is the request"
        )
        board.warnings.append(Problem("policy.default_limit", path, message))
        board.fill(path, replace(request, rule="the default limit, raised to the request"))


def _tolerate(request: Offer, rulings: Rulings) -> Offer:
    tolerance, offer = rulings.mem_tolerance
    amount: Quantity = request.value.scale(tolerance)
    rule = f"request × {tolerance}"
    cap = rulings.find_cap("resources.mem", "resources.mem.limit")
    if cap is not None and request.value <= cap[0] < amount:
        return offer_of(cap[1], cap[0], f"{rule}, at most the {cap[1].name}'s max")
    return replace(offer, value=amount, rule=rule)


def _fill_workload(board: Board, rulings: Rulings, setting: Setting) -> None:
    """What a Job or Deployment cannot do without, where nobody said anything."""
    if setting.action == "job":
        _fill_count(board, rulings, "backoff_limit", 0)
    elif setting.action in ("serve", "deploy"):
        _fill_count(board, rulings, "replicas", 1)
    if setting.action == "serve":
        board.fill(("service_ports",), replace(_BLANK, value=(ServicePort(port=8080, target_port=8080),)))
        board.fill(("service_type",), replace(_BLANK, value=_choose_service_type(rulings)))


def _fill_bounds(board: Board, rulings: Rulings, setting: Setting) -> None:
    """Where a blank is without bound and the policy sets one, the bound holds."""
    for name in ("timeout", "pending_timeout", "ttl"):
        cap = rulings.find_cap(name)
        if cap is not None and name not in POINTLESS[setting.action]:
            board.fill((name,), offer_of(cap[1], cap[0], "blank: the most that the policy allows"))
    cap = rulings.find_cap("grace_period")
    if cap is not None and cap[0] < KUBERNETES_GRACE_SECONDS:
        board.fill(("grace_period",), offer_of(cap[1], cap[0], "blank: the most that the policy allows"))
    for name in ("cpu", "ephemeral-storage"):
        cap = rulings.find_cap(f"resources.{name}.limit")
        if cap is not None and ("resources", name, LIMIT) not in board:
            offer = offer_of(cap[1], cap[0], "blank: the most that the policy allows")
            _fill_capped_limit(board, rulings, name, offer)


def _fill_capped_limit(board: Board, rulings: Rulings, name: str, cap: Offer) -> None:
    request = board.find("resources", name, REQUEST)
    if request is not None and request.value > cap.value:
        # No limit can stand between the two: the request's own is, and the policy's max refuses it.
        board.fill(("resources", name, LIMIT), replace(request, rule="the request is above the policy's max"))
        return
    board.fill(("resources", name, LIMIT), cap)
    if rulings.find_lock(f"resources.{name}.request") is not None:
        return
    # Kubernetes would take the limit for the request, and a run that asked for nothing would fit nowhere.
    least = replace(cap, value=min(cap.value, SMALL_REQUESTS[name]), rule="blank: little, under the limit above")
    board.fill(("resources", name, REQUEST), least)


def _choose_service_type(rulings: Rulings) -> str:
    """The plainest that every rule lets through; where none does, or where nobody may choose, the plainest."""
    rules = [rule for rule, _ in rulings.find_rules("service_type")]
    named = rulings.platform_wide.rules.get("service_type", Rule())
    kinds = ["ClusterIP", "NodePort", *(["LoadBalancer"] if "LoadBalancer" in (named.options or ()) else [])]
    if rulings.find_lock("service_type") is not None:
        return kinds[0]
    return next((kind for kind in kinds if all(_lets_through(rule, kind) for rule in rules)), kinds[0])


def _lets_through(rule: Rule, kind: str) -> bool:
    is_offered = rule.options is None or kind in rule.options
    is_allowed = rule.allowed is None or any(matches(pattern, kind) for pattern in rule.allowed)
    return is_offered and is_allowed and not any(matches(pattern, kind) for pattern in rule.denied)


def _fill_count(board: Board, rulings: Rulings, name: str, value: int) -> None:
    """The built-in figure, or the policy's min where that is more and the field is not locked."""
    offer = replace(_BLANK, value=value)
    for rule, scope in [] if rulings.find_lock(name) else rulings.find_rules(name):
        if rule.min is not None and rule.min > offer.value:
            offer = offer_of(scope, rule.min, "the least that the policy allows")
    offered = [rule.options for rule, _ in rulings.find_rules(name) if rule.options is not None]
    if offer.owner == "policy" and offered:
        common = set(offered[0]).intersection(*offered[1:])
        offer = replace(offer, value=min((it for it in common if it >= offer.value), default=offer.value))
    board.fill((name,), offer)


def _fill_platform(board: Board, rulings: Rulings, setting: Setting) -> None:
    board.put(("pod_security",), rulings.pod_security)
    secrets = rulings.get_platform("image_pull_secrets")
    if secrets.value:
        board.fill(("image_pull_secrets",), secrets)
    gpus = board.value("resources", "gpu", LIMIT)
    if gpus is not None and not gpus.is_zero:
        names = rulings.get_platform("gpu_resources")
        board.fill(("resources", "gpu", "resource"), replace(names, value=names.value[0]))
    elif board.find("resources", "gpu", "resource") is not None:
        board.take(("resources", "gpu", "resource"), message=None)
    if board.find("resources", "disk", "size") is not None:
        medium = rulings.get_platform("disk_medium")
        board.put(("resources", "disk", "medium"), medium)
        choice = rulings.find_default("resources.disk.storage_class") or rulings.find_default("volumes.storage_class")
        if choice is not None and medium.value == "ephemeral":
            board.put(("resources", "disk", "storage_class"), choice.offer("default"))
    version = board.value("python_version")
    if setting.kind == "python" and version is not None and version in rulings.python_images:
        images = rulings.get_platform("python_images")
        board.fill(("image",), replace(images, value=rulings.python_images[version], rule=f"the image for {version}"))


def complete_volume(volume: Volume, rulings: Rulings) -> tuple[Volume, Mapping[str, Offer]]:
    """The volume without blanks, and who filled each."""
    filled: dict[str, Offer] = {}
    is_new_claim = volume.type == "persistent_volume_claim" and volume.claim_name is None
    if is_new_claim or volume.type == "ephemeral":
        _choose(filled, "size", volume.size, _cap_default(rulings))
        _choose(filled, "storage_class", volume.storage_class, rulings.find_default("volumes.storage_class"))
    if is_new_claim and volume.lifetime is None:
        filled["lifetime"] = replace(_BLANK, value="run")
    if volume.type == "empty_dir":
        _choose(filled, "size", volume.size, rulings.find_default("volumes.size_limit") or _cap_blank(rulings))
        if volume.medium is None and volume.mount_path == SHARED_MEMORY_PATH:
            filled["medium"] = replace(_BLANK, value="Memory", rule="shared memory is memory")
    values: dict[str, Any] = {name: offer.value for name, offer in filled.items()}
    return replace(volume, **values), filled


def _cap_blank(rulings: Rulings) -> Choice | None:
    """An empty_dir without a limit would be as large as the node: the policy's max is its limit."""
    cap = rulings.find_cap("volumes.size_limit")
    return None if cap is None else Choice(cap[0], cap[1], is_locked=False)


def _cap_default(rulings: Rulings) -> Choice | None:
    """The default size; the built-in one gives way where the policy's max is smaller."""
    choice, cap = rulings.find_default("volumes.size"), rulings.find_cap("volumes.size")
    if choice is not None and choice.scope is BUILT_IN and cap is not None and cap[0] < choice.value:
        return Choice(cap[0], cap[1], is_locked=False)
    return choice


def _choose(filled: dict[str, Offer], name: str, asked: Any, choice: Choice | None) -> None:
    if choice is not None and (asked is None or (choice.is_locked and asked != choice.value)):
        filled[name] = choice.offer("locked" if choice.is_locked else "default")
