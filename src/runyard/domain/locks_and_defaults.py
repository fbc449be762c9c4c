"""Applies the policy's locks and defaults, and derives the values that Kubernetes needs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runyard.domain.board import Board, Offer, format_value, show
from runyard.domain.environment_variables import is_secret_variable, list_variables
from runyard.domain.layer_merge import INAPPLICABLE_FIELDS, Setting, settle_contradiction
from runyard.domain.project_policy import Choice, ProjectPolicy, offer_of
from runyard.spec.kinds.function_kind import VersionedImages
from runyard.spec.kubernetes.placement import iter_node_keys
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.patterns import matches
from runyard.spec.policy import BUILT_IN
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem
from runyard.spec.resources import LIMITS, REQUESTS, SMALL_REQUESTS
from runyard.spec.rule_grammar import RULED, Rule
from runyard.spec.services import ServicePort
from runyard.spec.volumes import SCRATCH_PATH, SHARED_MEMORY_PATH, Volume

MAPS = ("node_selector", "envs")
SCALARS = tuple(name for name in RULED if "." not in name and name not in (*MAPS, "tolerations", "secrets", "profile"))
"""Fields with rules that are one leaf."""

KUBERNETES_GRACE_SECONDS = 30
"""The grace period that Kubernetes uses when none is set."""

_BLANK = offer_of(BUILT_IN, None)


def apply_locks(board: Board, policy: ProjectPolicy, setting: Setting) -> None:
    """Apply the locks: a locked field gets the policy's value; without one, values of users are refused."""
    skipped = {"profile", "resources.disk.storage_class", *INAPPLICABLE_FIELDS[setting.action]}
    for name, rule, _ in policy.iter_rules():
        if not rule.locked or name in skipped or name.startswith("volumes."):
            continue
        if name == "node_selector":
            _refuse_node_affinity(board, policy)
        if name == "image":
            _refuse_image_volumes(board, policy)
        choice = policy.find_default(name)
        if choice is None:
            _refuse_users(board, name, policy)
        elif name in MAPS:
            _lock_map(board, name, choice)
        elif name == "tolerations":
            _lock_tolerations(board, choice)
        else:
            _lock_leaf(board, name, choice)


def _refuse_users(board: Board, name: str, policy: ProjectPolicy) -> None:
    scope = policy.find_lock(name)
    owner = scope.name if scope else "policy"
    for path, offer in _iter_offers(board, name):
        if offer.is_users and path[0] == "secrets":
            message = f"the {owner} locks `{name}`; without a `mount_path` the secret `{path[1]}` would set a variable"
            allowed = "secrets with a `mount_path`"
            board.refusals.append(Problem(Code.POLICY_LOCKED, path, message, value=str(path[1]), allowed=allowed))
        elif offer.is_users:
            message = f"the {owner} locks `{name}`: only a profile may set it"
            board.refusals.append(Problem(Code.POLICY_LOCKED, path, message, value=show(offer.value)))


def _iter_offers(board: Board, name: str) -> list[tuple[Path, Offer]]:
    if name == "envs":
        return list_variables(board)
    path = tuple(name.split("."))
    exact = board.find(*path)
    return [*([(path, exact)] if exact is not None else []), *board.under(*path)]


def _refuse_node_affinity(board: Board, policy: ProjectPolicy) -> None:
    """If node labels are locked, a user's node affinity would bypass the lock."""
    scope, affinity = policy.find_lock("node_selector"), board.find("affinity")
    if affinity is None or not affinity.is_users or scope is None:
        return
    for path, key in iter_node_keys(affinity.value):
        message = f"the {scope.name} locks `node_selector`; a node affinity would bypass it"
        board.refusals.append(Problem(Code.POLICY_LOCKED, ("affinity", *path), message, value=key))


def _refuse_image_volumes(board: Board, policy: ProjectPolicy) -> None:
    """If the image is locked, a user's image volume would bypass the lock."""
    scope, choice = policy.find_lock("image"), policy.find_default("image")
    for path, offer in board.under("volumes"):
        image = offer.value.image
        if image is not None and offer.is_users and scope is not None and (choice is None or image != choice.value):
            message = f"the {scope.name} locks `image`; an image volume cannot use another one"
            board.refusals.append(Problem(Code.POLICY_LOCKED, (*path, "image"), message, value=image))


def _lock_tolerations(board: Board, choice: Choice) -> None:
    for path, offer in board.under("tolerations"):
        message = f"the {choice.scope.name} locks `tolerations`; one from {offer.source} is ignored"
        board.discard(path, message=message if board.is_asked(path) and offer.value not in choice.value else None)
    for index, entry in enumerate(choice.value):
        board.put(("tolerations", index), replace(choice.offer("locked"), value=entry))


def _lock_map(board: Board, name: str, choice: Choice) -> None:
    for path, offer in _iter_offers(board, name):
        if path[0] != name or path[1] not in choice.value:
            what = f"`{path[1]}`" if path[0] == name else f"the secret `{path[1]}`, which would set a variable,"
            message = f"the {choice.scope.name} locks `{name}`; {what} from {offer.source} is ignored"
            board.discard(path, message=message if board.is_asked(path) else None)
    for key, value in choice.value.items():
        board.put((name, key), replace(choice.offer("locked"), value=value))


def _lock_leaf(board: Board, name: str, choice: Choice) -> None:
    path = tuple(name.split("."))
    if path[0] == "resources" and path[1:] == ("gpu",):
        path = ("resources", "gpu", LIMITS)
    elif path[0] == "resources" and path[1:] == ("disk",):
        path = ("resources", "disk", "size")
    elif path[0] == "resources" and len(path) == 2:
        limit = board.find(*path, LIMITS)
        if limit is not None:
            shown = format_value(path, limit.value)
            message = f"the {choice.scope.name} locks `{name}`; the limit {shown} from {limit.source} is ignored"
            board.discard((*path, LIMITS), message=message if board.is_asked((*path, LIMITS)) else None)
        path = (*path, REQUESTS)
    if choice.value == {}:
        message = f"the {choice.scope.name} locks `{name}` to nothing"
        board.discard(path, message=message if board.is_asked(path) else None)
        return
    board.put(path, choice.offer("locked"))
    if path[0] == "resources" and path[-1] in (REQUESTS, LIMITS):
        settle_contradiction(board, path[1], stronger_side=path[-1])


def fill_blanks(board: Board, policy: ProjectPolicy, setting: Setting) -> None:
    """Fill blanks with the defaults of policy and platform, and with values that follow from the request."""
    for name in SCALARS:
        choice = policy.find_default(name)
        if name not in INAPPLICABLE_FIELDS[setting.action] and choice is not None and choice.value != {}:
            board.fill((name,), choice.offer("default"))
    for name in MAPS:
        if (choice := policy.find_default(name)) is not None:
            for key, value in choice.value.items():
                if name != "envs" or not is_secret_variable(board, key):
                    board.fill((name, key), replace(choice.offer("default"), value=value))
    if (choice := policy.find_default("tolerations")) is not None and not board.under("tolerations"):
        for index, entry in enumerate(choice.value):
            board.fill(("tolerations", index), replace(choice.offer("default"), value=entry))
    _fill_resources(board, policy)
    _fill_workload(board, policy, setting)
    _fill_bounds(board, policy, setting)
    _fill_platform(board, policy, setting)


def _fill_resources(board: Board, policy: ProjectPolicy) -> None:
    names = dict.fromkeys(["cpu", "mem", "ephemeral-storage", *(str(path[1]) for path, _ in board.under("resources"))])
    for name in names:
        if name not in ("gpu", "disk"):
            _fill_sides(board, policy, name)
    for field, leaf in (("resources.gpu", ("gpu", LIMITS)), ("resources.disk", ("disk", "size"))):
        choice = policy.find_default(field)
        is_taken = field == "resources.disk" and SCRATCH_PATH in _list_mount_paths(board)
        if choice is not None and not is_taken:
            board.fill(("resources", *leaf), choice.offer("default"))


def _list_mount_paths(board: Board) -> set[str | None]:
    return {offer.value.mount_path for name in ("volumes", "secrets") for _, offer in board.under(name)}


def _fill_sides(board: Board, policy: ProjectPolicy, name: str) -> None:
    request_path, limit_path = ("resources", name, REQUESTS), ("resources", name, LIMITS)
    limit = board.find(*limit_path)
    if limit is not None:
        board.fill(request_path, replace(limit, rule="limits alone: requests = limits"))
    for field in (f"resources.{name}.requests", f"resources.{name}"):
        if (choice := policy.find_default(field)) is not None:
            board.fill(request_path, choice.offer("default"))
    request = board.find(*request_path)
    if limit is None and (choice := policy.find_default(f"resources.{name}.limits")) is not None:
        _fill_default_limit(board, name, choice, request)
    if name == "mem" and request is not None and limit_path not in board and not request.value.is_zero:
        board.fill(limit_path, _tolerate(request, policy))


def _fill_default_limit(board: Board, name: str, choice: Choice, request: Offer | None) -> None:
    path = ("resources", name, LIMITS)
    if request is None:
        board.fill(path, choice.offer("default"))
        board.fill(("resources", name, REQUESTS), choice.offer("limits alone: requests = limits"))
    elif choice.value >= request.value:
        board.fill(path, choice.offer("default"))
    else:
        lower, upper = (format_value(path, value) for value in (choice.value, request.value))
        message = (
            f"the {choice.scope.name}'s default limit {lower} is below the request {upper}; "
            "the limit is raised to the request"
        )
        board.warnings.append(Problem(Code.POLICY_DEFAULT_LIMIT, path, message))
        board.fill(path, replace(request, rule="the default limit, raised to the request"))


def _tolerate(request: Offer, policy: ProjectPolicy) -> Offer:
    tolerance, offer = policy.mem_tolerance
    amount: Quantity = request.value.scale(tolerance)
    rule = f"requests × {tolerance}"
    cap = policy.max_for("resources.mem", "resources.mem.limits")
    if cap is not None and request.value <= cap[0] < amount:
        return offer_of(cap[1], cap[0], f"{rule}, at most the {cap[1].name}'s max")
    return replace(offer, value=amount, rule=rule)


def _fill_workload(board: Board, policy: ProjectPolicy, setting: Setting) -> None:
    """Fill what a Job or Deployment requires and nobody set."""
    if setting.action == "job":
        _fill_count(board, policy, "backoff_limit", 0)
    elif setting.action in ("serve", "deploy"):
        _fill_count(board, policy, "replicas", 1)
    if setting.action == "serve":
        board.fill(("service_ports",), replace(_BLANK, value=(ServicePort(port=8080, target_port=8080),)))
        board.fill(("service_type",), replace(_BLANK, value=_choose_service_type(policy)))


def _fill_bounds(board: Board, policy: ProjectPolicy, setting: Setting) -> None:
    """Fill a blank that would be unbounded with the policy's `max`."""
    for name in ("timeout", "pending_timeout", "ttl"):
        cap = policy.max_for(name)
        if cap is not None and name not in INAPPLICABLE_FIELDS[setting.action]:
            board.fill((name,), offer_of(cap[1], cap[0], "blank: the policy's max"))
    cap = policy.max_for("grace_period")
    if cap is not None and cap[0] < KUBERNETES_GRACE_SECONDS:
        board.fill(("grace_period",), offer_of(cap[1], cap[0], "blank: the policy's max"))
    for name in ("cpu", "ephemeral-storage"):
        cap = policy.max_for(f"resources.{name}.limits")
        if cap is not None and ("resources", name, LIMITS) not in board:
            offer = offer_of(cap[1], cap[0], "blank: the policy's max")
            _fill_capped_limit(board, policy, name, offer)


def _fill_capped_limit(board: Board, policy: ProjectPolicy, name: str, cap: Offer) -> None:
    request = board.find("resources", name, REQUESTS)
    if request is not None and request.value > cap.value:
        # No limit fits between the two: use the request, which the policy's max then refuses.
        board.fill(("resources", name, LIMITS), replace(request, rule="the request is above the policy's max"))
        return
    board.fill(("resources", name, LIMITS), cap)
    if policy.find_lock(f"resources.{name}.requests") is not None:
        return
    # Kubernetes would use the limit as the request, and a run that requested nothing would fit nowhere.
    least = replace(
        cap, value=min(cap.value, SMALL_REQUESTS[name]), rule="blank: a small request below the policy's limit"
    )
    board.fill(("resources", name, REQUESTS), least)


def _choose_service_type(policy: ProjectPolicy) -> str:
    """The simplest type that every rule allows; the simplest of all if none does, or if the field is locked."""
    rules = [rule for rule, _ in policy.find_rules("service_type")]
    named = policy.platform_wide.rules.get("service_type", Rule())
    kinds = ["ClusterIP", "NodePort", *(["LoadBalancer"] if "LoadBalancer" in (named.options or ()) else [])]
    if policy.find_lock("service_type") is not None:
        return kinds[0]
    return next((kind for kind in kinds if all(_lets_through(rule, kind) for rule in rules)), kinds[0])


def _lets_through(rule: Rule, kind: str) -> bool:
    is_offered = rule.options is None or kind in rule.options
    is_allowed = rule.allowed is None or any(matches(pattern, kind) for pattern in rule.allowed)
    return is_offered and is_allowed and not any(matches(pattern, kind) for pattern in rule.denied)


def _fill_count(board: Board, policy: ProjectPolicy, name: str, value: int) -> None:
    """The built-in figure, or the policy's min where that is more and the field is not locked."""
    offer = replace(_BLANK, value=value)
    for rule, scope in [] if policy.find_lock(name) else policy.find_rules(name):
        if rule.min is not None and rule.min > offer.value:
            offer = offer_of(scope, rule.min, "the least that the policy allows")
    offered = [rule.options for rule, _ in policy.find_rules(name) if rule.options is not None]
    if offer.owner == "policy" and offered:
        common = set(offered[0]).intersection(*offered[1:])
        offer = replace(offer, value=min((it for it in common if it >= offer.value), default=offer.value))
    board.fill((name,), offer)


def _fill_platform(board: Board, policy: ProjectPolicy, setting: Setting) -> None:
    board.put(("pod_security",), policy.pod_security)
    secrets = policy.get_platform("image_pull_secrets")
    if secrets.value:
        board.fill(("image_pull_secrets",), secrets)
    gpus = board.value("resources", "gpu", LIMITS)
    if gpus is not None and not gpus.is_zero:
        names = policy.get_platform("gpu_resources")
        board.fill(("resources", "gpu", "resource"), replace(names, value=names.value[0]))
    elif board.find("resources", "gpu", "resource") is not None:
        board.discard(("resources", "gpu", "resource"), message=None)
    if board.find("resources", "disk", "size") is not None:
        medium = policy.get_platform("disk_medium")
        board.put(("resources", "disk", "medium"), medium)
        choice = policy.find_default("resources.disk.storage_class") or policy.find_default("volumes.storage_class")
        if choice is not None and medium.value == "ephemeral":
            board.put(("resources", "disk", "storage_class"), choice.offer("default"))
    if setting.kind.default_images is not None:
        _fill_image(board, policy, setting.kind.default_images)


def _fill_image(board: Board, policy: ProjectPolicy, images: VersionedImages) -> None:
    """The image of the function's language version."""
    version = board.value(images.version_field)
    known = policy.get_images(images.platform_choice)
    if version is not None and version in known:
        offer = policy.get_platform(images.platform_choice)
        board.fill(("image",), replace(offer, value=known[version], rule=f"the image for {version}"))


def complete_volume(volume: Volume, policy: ProjectPolicy) -> tuple[Volume, Mapping[str, Offer]]:
    """The volume with its blanks filled, and who filled each."""
    filled: dict[str, Offer] = {}
    is_new_claim = volume.type == "persistent_volume_claim" and volume.claim_name is None
    if is_new_claim or volume.type == "ephemeral":
        _choose(filled, "size", volume.size, _cap_default(policy))
        _choose(filled, "storage_class", volume.storage_class, policy.find_default("volumes.storage_class"))
    if is_new_claim and volume.lifetime is None:
        filled["lifetime"] = replace(_BLANK, value="run")
    if volume.type == "empty_dir":
        _choose(filled, "size", volume.size, policy.find_default("volumes.size_limit") or _cap_blank(policy))
        if volume.medium is None and volume.mount_path == SHARED_MEMORY_PATH:
            filled["medium"] = replace(_BLANK, value="Memory", rule="shared memory is memory")
    values: dict[str, Any] = {name: offer.value for name, offer in filled.items()}
    return replace(volume, **values), filled


def _cap_blank(policy: ProjectPolicy) -> Choice | None:
    """An empty_dir without a limit could fill the node: the policy's max becomes its limit."""
    cap = policy.max_for("volumes.size_limit")
    return None if cap is None else Choice(cap[0], cap[1], is_locked=False)


def _cap_default(policy: ProjectPolicy) -> Choice | None:
    """The default size; the policy's max replaces the built-in default if it is smaller."""
    choice, cap = policy.find_default("volumes.size"), policy.max_for("volumes.size")
    if choice is not None and choice.scope is BUILT_IN and cap is not None and cap[0] < choice.value:
        return Choice(cap[0], cap[1], is_locked=False)
    return choice


def _choose(filled: dict[str, Offer], name: str, asked: Any, choice: Choice | None) -> None:
    if choice is not None and (asked is None or (choice.is_locked and asked != choice.value)):
        filled[name] = choice.offer("locked" if choice.is_locked else "default")
