"""The scheduler's message of an unschedulable pod, taken apart: how many nodes there are, and what each one lacks.

`0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector. preemption: …`
"""

import re
from dataclasses import dataclass
from enum import StrEnum

LONGEST_SCHEDULER_MESSAGE = 8192
"""How many characters of the scheduler's message are read."""
MOST_OBSTACLES = 20
"""How many different obstacles of nodes a message lists; the others are counted."""

_BEGINNING = re.compile(r"0/(\d{1,9}) nodes are available: ")
_OBSTACLE = re.compile(r"(\d{1,9}) (.+)", re.DOTALL)
_INSUFFICIENT = re.compile(r"Insufficient (\S{1,253})")
_NO_CLAIM = re.compile(r'persistentvolumeclaim "([^"]{1,253})" not found')
_TAINT = re.compile(r"node\(s\) had untolerated taint(?:\(s\))?(?: \{(?P<key>[^:}]*): ?(?P<value>[^}]*)\})?")
_ENDINGS = (". not found", " preemption: ", ". no new claims to deallocate", ". Preemption is not helpful")
_NAMES = {"cpu": "CPU", "memory": "memory", "ephemeral-storage": "disk (ephemeral-storage)"}


class ObstacleKind(StrEnum):
    """What keeps a pod from a node: what is free may change, what a node is does not."""

    RESOURCES = "resources"
    PLACEMENT = "placement"
    VOLUMES = "volumes"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why some nodes do not take a pod."""

    nodes: int
    """How many; 0: all of them."""
    kind: ObstacleKind
    text: str
    """In words that follow «a node that …»: `has too little CPU free`."""


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """Why no node takes a pod."""

    nodes: int
    obstacles: tuple[Obstacle, ...]

    @property
    def kind(self) -> ObstacleKind:
        """What has to change first. Free resources only help where a node fits otherwise."""
        kinds = {obstacle.kind for obstacle in self.obstacles}
        order = (ObstacleKind.VOLUMES, ObstacleKind.RESOURCES, ObstacleKind.PLACEMENT)
        return next((kind for kind in order if kind in kinds), ObstacleKind.OTHER)

    @property
    def text(self) -> str:
        """`no node fits (3 nodes): 1 has too little CPU free; 2 do not match node_selector or affinity`."""
        told = [_count(obstacle) for obstacle in self.obstacles[:MOST_OBSTACLES]]
        more = len(self.obstacles) - len(told)
        if more > 0:
            told.append(f"{more} more reasons")
        plural = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        return f"no node fits ({plural}): {'; '.join(told)}" if told else f"no node fits ({plural})"


_KNOWN: tuple[tuple[str, ObstacleKind, str], ...] = (
    ("Too many pods", ObstacleKind.RESOURCES, "has as many pods as it may"),
    (
        "node(s) didn't match Pod's node affinity/selector",
        ObstacleKind.PLACEMENT,
        "does not match node_selector or affinity",
    ),
    ("node(s) didn't match pod affinity rules", ObstacleKind.PLACEMENT, "does not match the pod affinity"),
    ("node(s) didn't match pod anti-affinity rules", ObstacleKind.PLACEMENT, "does not match the pod anti-affinity"),
    (
        "node(s) didn't satisfy existing pods anti-affinity rules",
        ObstacleKind.PLACEMENT,
        "has pods whose anti-affinity excludes the run",
    ),
    (
        "node(s) didn't match pod topology spread constraints",
        ObstacleKind.PLACEMENT,
        "does not match topology_spread",
    ),
    ("node(s) were unschedulable", ObstacleKind.PLACEMENT, "is cordoned (takes no new pods)"),
    ("node(s) didn't match the requested node name", ObstacleKind.PLACEMENT, "is not the node that was named"),
    ("node(s) didn't have free ports", ObstacleKind.RESOURCES, "has a host port taken"),
    (
        "node(s) had volume node affinity conflict",
        ObstacleKind.VOLUMES,
        "cannot reach a volume of the run, which is in another zone or on another node",
    ),
    (
        "node(s) didn't find available persistent volumes to bind",
        ObstacleKind.VOLUMES,
        "has no persistent volume that fits a claim of the run",
    ),
    ("node(s) had no available volume zone", ObstacleKind.VOLUMES, "is in another zone than a volume of the run"),
    ("node(s) exceed max volume count", ObstacleKind.RESOURCES, "has as many volumes as it may"),
    ("node(s) did not have enough free storage", ObstacleKind.RESOURCES, "has too little storage free for a claim"),
    ("pod has unbound immediate PersistentVolumeClaims", ObstacleKind.VOLUMES, "a claim of the run is not bound"),
)


def read_scheduler_message(message: str) -> Unschedulable | None:
    """What the scheduler said, or None if it is not such a message."""
    message = message[:LONGEST_SCHEDULER_MESSAGE]
    beginning = _BEGINNING.match(message)
    if beginning is None:
        return None
    rest = message[beginning.end() :]
    ends = [at for at in (rest.find(ending) for ending in _ENDINGS) if at >= 0]
    rest = rest[: min(ends)] if ends else rest
    parts = re.split(r", (?=\d{1,9} )", rest.strip().rstrip("."))
    obstacles = tuple(_read_obstacle(part) for part in parts if part)
    return Unschedulable(int(beginning[1]), obstacles)


def _read_obstacle(part: str) -> Obstacle:
    counted = _OBSTACLE.fullmatch(part)
    nodes, said = (int(counted[1]), counted[2]) if counted else (0, part)
    if found := _INSUFFICIENT.fullmatch(said):
        return Obstacle(nodes, ObstacleKind.RESOURCES, f"has too little {_NAMES.get(found[1], found[1])} free")
    if found := _TAINT.match(said):
        value = f"={found['value']}" if found["value"] else ""
        taint = f"the taint {found['key']}{value}" if found["key"] else "a taint"
        return Obstacle(nodes, ObstacleKind.PLACEMENT, f"has {taint}, which the run does not tolerate")
    for known, kind, text in _KNOWN:
        if said.startswith(known):
            return Obstacle(nodes, kind, text)
    if found := _NO_CLAIM.match(said):
        return Obstacle(nodes, ObstacleKind.VOLUMES, f"the claim {found[1]} does not exist")
    return Obstacle(nodes, ObstacleKind.OTHER, said)


_PLURALS = (("has ", "have "), ("does ", "do "), ("is ", "are "))


def _count(obstacle: Obstacle) -> str:
    if obstacle.nodes == 0:
        return obstacle.text
    text = obstacle.text
    if obstacle.nodes > 1:
        for one, many in _PLURALS:
            if text.startswith(one):
                text = many + text.removeprefix(one)
                break
    return f"{obstacle.nodes} {text}"
