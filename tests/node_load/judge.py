"""What the node's figures should be, from the pods alone: shares no code with the agent."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "": 1}
_ENDED = ("Succeeded", "Failed")


def parse(resource: str, text: str) -> int:
    """Millicores of cpu, bytes of memory, pieces of everything else."""
    if resource == "cpu":
        return int(text[:-1]) if text.endswith("m") else 1000 * int(text)
    unit = text.lstrip("0123456789")
    return int(text.removesuffix(unit)) * _UNITS[unit]


def sum_bound(pods: Iterable[Mapping[str, Any]], node: str) -> Counter[str]:
    """What the pods hold that are bound to the node and have not ended. Every pod of the load has one container."""
    held: Counter[str] = Counter()
    for pod in pods:
        if pod["spec"].get("nodeName") != node or pod["status"].get("phase") in _ENDED:
            continue
        held["pods"] += 1
        for resource, text in pod["spec"]["containers"][0]["resources"]["limits"].items():
            held[resource] += parse(resource, text)
    return held


def find_overcommit(held: Mapping[str, int], capacity: Mapping[str, str]) -> list[str]:
    """Resources of which more is held than there is."""
    return [
        f"{resource}: {held[resource]} of {parse(resource, text)}"
        for resource, text in capacity.items()
        if held[resource] > parse(resource, text)
    ]


def find_differences(held: Mapping[str, int], node: Mapping[str, Any]) -> list[str]:
    """Where `allocatable` is not capacity minus what is held."""
    capacity, allocatable = node["status"]["capacity"], node["status"]["allocatable"]
    return [
        f"{resource}: allocatable {allocatable[resource]}, held {held[resource]} of {capacity[resource]}"
        for resource in capacity
        if parse(resource, allocatable[resource]) != parse(resource, capacity[resource]) - held[resource]
    ]
