"""Lints: warnings, each with a proposal, for values that are valid but probably not intended."""

import re
from collections.abc import Iterator

from runyard.spec.images import is_latest
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem
from runyard.spec.readers import to_snake_case
from runyard.spec.run_fields import RunFields

SMALLEST_MEMORY = Quantity.parse("1Mi")
MOST_CORES = Quantity.parse("256")
_CREDENTIALS = re.compile(
    r"(?i)passw(or)?d|passphrase|._pwd$"
    r"|(^|[^a-z])(pass|secret|token|api_?key|credentials?|private_?key|access_?key)([^a-z]|$)"
)


def lint_fields(fields: RunFields) -> Iterator[Problem]:
    """All lints of one layer's fields."""
    yield from lint_notes(fields)
    yield from _lint_resources(fields)
    yield from _lint_volumes(fields)
    for name in fields.envs or {}:
        if _CREDENTIALS.search(to_snake_case(name)):
            message = f"`{name}` looks like a credential; everyone who can see the run can read its envs"
            yield Problem(Code.LINT_CREDENTIAL, ("envs", name), message, suggestion=f"secrets: [{name}]")
    if fields.image and is_latest(fields.image):
        message = f"`{fields.image}` uses the tag `latest`, which can change with every pull"
        yield Problem(Code.LINT_LATEST, ("image",), message, value=fields.image, suggestion="a version or a digest")
    if fields.command and len(fields.command) == 1 and re.search(r"\s", fields.command[0].strip()):
        words = fields.command[0].split()
        message = "a command given as one text is the name of one program, spaces included"
        yield Problem(
            Code.LINT_COMMAND, ("command",), message, value=fields.command[0], suggestion=f"[{', '.join(words)}]"
        )


def lint_notes(fields: RunFields) -> Iterator[Problem]:
    """The warnings of the reader of `resources`: other spellings, empty objects."""
    if fields.resources is not None:
        yield from (note.under("resources") for note in fields.resources.notes)


def _lint_resources(fields: RunFields) -> Iterator[Problem]:
    for name, sides in (fields.resources or {}).items():
        for side, amount in (("requests", sides.requests), ("limits", sides.limits)):
            if amount is None:
                continue
            path = ("resources", name) if name in ("gpu", "disk") else ("resources", name, side)
            if name in ("mem", "disk") and not amount.is_zero and amount < SMALLEST_MEMORY:
                meant = f"{amount.value}Mi" if amount.is_whole else f"{amount.milli_value}Mi"
                message = f"{amount} is {amount.value} bytes"
                yield Problem(Code.LINT_BYTES, path, message, value=str(amount), suggestion=meant)
            elif name in ("mem", "disk"):
                yield from _lint_decimal(amount, path)
            if name == "cpu" and amount >= MOST_CORES and amount.is_whole:
                message = f"{amount} is {amount.value} cores"
                yield Problem(Code.LINT_CORES, path, message, value=str(amount), suggestion=f"{amount.value}m")
            if name == "gpu" and amount.is_zero:
                message = "0 GPUs means that no GPU is requested"
                yield Problem(Code.LINT_NO_GPU, path, message, value="0", suggestion="leave `gpu` out")


def _lint_decimal(amount: Quantity, path: Path) -> Iterator[Problem]:
    if binary := _find_binary(amount):
        message = f"{amount} is a decimal unit; {binary} is binary and {_gap(amount, binary)} % more"
        yield Problem(Code.LINT_DECIMAL, path, message, value=str(amount), suggestion=binary)


def _find_binary(amount: Quantity) -> str | None:
    match = re.fullmatch(r"([0-9.]+)([kMGTPE])", amount.text) if amount.format == "DecimalSI" else None
    if match is None:
        return None
    number, unit = match.groups()
    return f"{number}{unit.upper() if unit == 'k' else unit}i"


def _gap(amount: Quantity, meant: str) -> int:
    return round((Quantity.parse(meant).value / amount.value - 1) * 100)


def _lint_volumes(fields: RunFields) -> Iterator[Problem]:
    for volume in fields.volumes or ():
        path = ("volumes", volume.name)
        if volume.type == "shared_volume" and volume.size is not None:
            message = "`size` has no effect on a shared volume, which exists already; ignored"
            yield Problem(Code.LINT_SIZE, (*path, "size"), message)
        elif volume.size is not None and volume.size < SMALLEST_MEMORY:
            meant = f"{volume.size.value}Gi"
            message = f"{volume.size} is {volume.size.value} bytes"
            yield Problem(Code.LINT_BYTES, (*path, "size"), message, value=str(volume.size), suggestion=meant)
        elif volume.size is not None:
            yield from _lint_decimal(volume.size, (*path, "size"))
        if volume.type == "image" and volume.image and is_latest(volume.image):
            message = f"`{volume.image}` uses the tag `latest`, which can change with every pull"
            yield Problem(Code.LINT_LATEST, (*path, "image"), message, suggestion="a version or a digest")
