"""The judge's own reading of what users asked, from the raw layers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from runyard.spec.kubernetes.quantity import Quantity
from tests.adversary.raw import snake
from tests.adversary.raw_profiles import read_field


@dataclass(frozen=True)
class RequestedFields:
    """What users asked for in function, task and run, weakest first; each by our field names, blanks left out."""

    layers: tuple[Mapping[str, Any], ...] = ()
    fields: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", frozenset(name for layer in self.layers for name in layer))

    def has_amount(self, name: str, side: str, amount: Quantity) -> bool:
        """Whether a user asked for this amount on this side. `limits` alone ask for the same request.

        A limit below the request of a stronger layer is not asked for anymore.
        """
        asked = [layer.get("resources", {}).get(name, {}) for layer in self.layers]
        if side == "requests" or name in ("gpu", "disk"):
            return any(each.get(which) == amount for each in asked for which in ("requests", "limits"))
        return any(
            each.get("limits") == amount
            and not any(later["requests"] > amount for later in asked[place + 1 :] if "requests" in later)
            for place, each in enumerate(asked)
        )

    def has_size(self, volume: str, size: Quantity) -> bool:
        """Whether a user asked for a volume of this name and size."""
        volumes = [entry for layer in self.layers for entry in layer.get("volumes", [])]
        return any(entry["name"] == volume and "size" in entry and read_size(entry) == size for entry in volumes)


def read_requested(layers: Iterable[Mapping[str, Any]]) -> RequestedFields:
    """Raises where a layer has a form that no reader takes."""
    return RequestedFields(tuple(map(_read_layer, layers)))


def read_size(volume: Mapping[str, Any]) -> Quantity:
    return Quantity.parse(volume["size"])


def _read_layer(layer: Mapping[str, Any]) -> dict[str, Any]:
    given = {snake(key): value for key, value in layer.items() if value is not None}
    return {name: read_field(name, value) for name, value in given.items()}
