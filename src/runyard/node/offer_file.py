"""Offers from a YAML file, or from the RuntimeClasses that a provider has.

```yaml
capacity: {cpu: 63, memory: 263567056Ki, nvidia.com/gpu: 8, pods: 8}
shapes:
  - name: seeweb-nvidia-1xa6000
    handler: nvidia
    limits: {cpu: 8000m, memory: 32861620Ki, gpu: 1}
    largest_machine: {gpu: 4}     # optional: a pod above it fits on no machine
    remote_class: nvidia          # optional: the RuntimeClass at the provider
```

`gpu` is short for `nvidia.com/gpu`. `Refused` has all problems of a file.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from runyard.node.amounts import count_down, count_up
from runyard.node.offer import CPU, GPU, LIMIT_ANNOTATIONS, MEMORY, PODS, Amounts, Offer, Shape
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.names import check_dns_label, check_dns_subdomain, check_qualified_name, suggest_dns_label
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem, Refused, find_nearest, list_words
from runyard.spec.readers import Findings, expect_keys, expect_list, expect_mapping, expect_text, refuse
from runyard.spec.resources import read_quantity
from runyard.spec.yaml.loader import Document, load_document

MOST_BYTES = 256 * 1024
MOST_SHAPES = 100
MOST_RESOURCES = 32
LARGEST_CPU = Quantity.parse("1000k")
LARGEST_MEMORY = Quantity.parse("1Pi")
LARGEST_COUNT = Quantity.parse("1M")

_OFFER_FIELDS = ("capacity", "shapes")
_SHAPE_FIELDS = ("name", "handler", "limits", "largest_machine", "remote_class")
_SHAPE_RESOURCES = (CPU, MEMORY, GPU)
_CAPACITY_RESOURCES = (CPU, MEMORY, GPU, PODS)
_BYTES = ("memory", "ephemeral-storage")
_SHORT_NAMES = {"gpu": GPU}
_Texts = Callable[[Path], str | None]


def load_offer(content: str | bytes, *, source: str = "offer") -> Offer:
    """Read an offer from YAML or JSON; raises `Refused` with every problem."""
    document = load_document(content, source=source, most_bytes=MOST_BYTES)
    return _read_offer(document)


def offer_from_runtime_classes(classes: Iterable[Mapping[str, Any]], capacity: Amounts) -> tuple[Offer, list[Problem]]:
    """The shapes of those RuntimeClasses that have the annotations `limits.k8s.gpu/*`, and the problems of the others.

    A class with mistakes is left out; classes without any of these annotations are none of ours.
    """
    shapes: dict[str, Shape] = {}
    problems: list[Problem] = []
    for given in classes:
        texts = _find_limit_texts(given)
        if not texts:
            continue
        name = given["metadata"].get("name")
        if len(shapes) == MOST_SHAPES:
            message = f"more than {MOST_SHAPES} RuntimeClasses have limits; the others are left out"
            problems.append(Problem(Code.SIZE_ENTRIES, (), message))
            break
        try:
            shapes[str(name)] = _read_runtime_class(given, texts)
        except Refused as refused:
            problems += [problem.under("runtimeclasses", str(name)) for problem in refused.problems]
    return Offer(shapes, capacity), problems


def _find_limit_texts(given: Mapping[str, Any]) -> dict[str, str]:
    metadata = given.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    if not isinstance(annotations, Mapping):
        return {}
    return {resource: str(annotations[key]) for resource, key in LIMIT_ANNOTATIONS.items() if key in annotations}


def _read_runtime_class(given: Mapping[str, Any], texts: Mapping[str, str]) -> Shape:
    findings = Findings()
    limits = {
        resource: findings.read(
            partial(_read_amount, resource), texts[resource], "annotations", LIMIT_ANNOTATIONS[resource]
        )
        for resource in texts
    }
    for resource in _SHAPE_RESOURCES:
        if resource not in texts:
            message = f"a class with limits needs the annotation `{LIMIT_ANNOTATIONS[resource]}`"
            findings.add(Code.FIELD_MISSING, ("annotations", LIMIT_ANNOTATIONS[resource]), message)
    name = findings.read(_read_name, given["metadata"].get("name"), "metadata", "name")
    handler = findings.read(_read_handler, given.get("handler"), "handler")
    findings.finish()
    read = {resource: amount for resource, amount in limits.items() if amount is not None}
    return Shape(str(name), str(handler), read, remote_class=name, limit_texts=dict(texts))


def _read_offer(document: Document) -> Offer:
    findings = Findings()
    given = expect_mapping(document.data, of="`capacity` and `shapes`")
    expect_keys(given, _OFFER_FIELDS, findings)
    for field in _OFFER_FIELDS:
        if given.get(field) is None:
            findings.add(Code.FIELD_MISSING, (field,), f"an offer needs `{field}`")
    capacity: Amounts = {}
    if given.get("capacity") is not None:
        read = findings.read(_read_capacity, given["capacity"], "capacity")
        capacity = read or {}
    shapes: dict[str, Shape] = {}
    if given.get("shapes") is not None:
        shapes = findings.read(partial(_read_shapes, document.find_text), given["shapes"], "shapes") or {}
    findings.finish()
    return Offer(shapes, capacity)


def _read_shapes(find_text: _Texts, given: Any) -> dict[str, Shape]:
    entries = expect_list(given, of="shapes")
    if len(entries) > MOST_SHAPES:
        raise refuse(Code.SIZE_ENTRIES, f"has {len(entries)} shapes", allowed=f"at most {MOST_SHAPES}")
    findings = Findings()
    shapes: dict[str, Shape] = {}
    for index, entry in enumerate(entries):
        shape = findings.read(partial(_read_shape, partial(_find_limit_text, find_text, index)), entry, index)
        if shape is None:
            continue
        if shape.name in shapes:
            findings.add(Code.NAME_TWICE, (index, "name"), "two shapes have the same name", value=shape.name)
        shapes[shape.name] = shape
    findings.finish()
    return shapes


def _find_limit_text(find_text: _Texts, index: int, path: Path) -> str | None:
    return find_text(("shapes", index, "limits", *path))


def _read_shape(find_text: _Texts, given: Any) -> Shape:
    findings = Findings()
    fields = expect_mapping(given, of="a shape's fields")
    expect_keys(fields, _SHAPE_FIELDS, findings)
    for field in ("name", "handler", "limits"):
        if fields.get(field) is None:
            findings.add(Code.FIELD_MISSING, (field,), f"a shape needs `{field}`")
    readers: dict[str, Callable[[Any], Any]] = {
        "name": _read_name,
        "handler": _read_handler,
        "limits": partial(_read_amounts, known=_SHAPE_RESOURCES, required=_SHAPE_RESOURCES),
        "largest_machine": partial(_read_amounts, known=_SHAPE_RESOURCES, required=()),
        "remote_class": _read_name,
    }
    values: dict[str, Any] = {
        name: findings.read(read, fields[name], name) for name, read in readers.items() if fields.get(name) is not None
    }
    findings.finish()
    texts = {_SHORT_NAMES.get(key, key): _write(value, find_text((key,))) for key, value in fields["limits"].items()}
    return Shape(
        name=values["name"],
        handler=values["handler"],
        limits=values["limits"],
        largest_machine=values.get("largest_machine") or {},
        remote_class=values.get("remote_class"),
        limit_texts=texts,
    )


def _write(value: Any, text: str | None) -> str:
    return value if isinstance(value, str) else text or str(value)


def _read_capacity(given: Any) -> Amounts:
    return _read_amounts(given, known=None, required=_CAPACITY_RESOURCES)


def _read_amounts(given: Any, *, known: tuple[str, ...] | None, required: tuple[str, ...]) -> dict[str, Quantity]:
    """Amounts by the resource; `known=None` allows other resources besides the required ones."""
    findings = Findings()
    fields = expect_mapping(given, of="resources to amounts")
    if len(fields) > MOST_RESOURCES:
        raise refuse(Code.SIZE_ENTRIES, f"has {len(fields)} entries", allowed=f"at most {MOST_RESOURCES}")
    amounts: dict[str, Quantity] = {}
    for key, value in fields.items():
        name = _SHORT_NAMES.get(key, key)
        _check_resource(key, name, known or required, findings, is_open=known is None)
        if name in amounts:
            findings.add(Code.FIELD_TWICE, (key,), f"`{key}` and another entry are both `{name}`")
        amount = findings.read(partial(_read_amount, name), value, key)
        if amount is not None:
            amounts[name] = amount
    for name in required:
        if name not in amounts and not {name, *(key for key in fields if _SHORT_NAMES.get(key) == name)} & {*fields}:
            shown = "gpu" if name == GPU and known else name
            findings.add(Code.FIELD_MISSING, (shown,), f"the amount of `{shown}` is missing; 0 is allowed")
    findings.finish()
    return amounts


def _check_resource(key: str, name: str, known: tuple[str, ...], findings: Findings, *, is_open: bool) -> None:
    if name in known or (is_open and (name in _BYTES or "/" in name) and not check_qualified_name(name)):
        return
    allowed = list_words([*known, "ephemeral-storage", "VENDOR/RESOURCE"] if is_open else known)
    nearest = find_nearest(key, [*known, *_SHORT_NAMES])
    findings.add(Code.RESOURCES_UNKNOWN, (key,), "unknown resource", allowed=allowed, suggestion=nearest)


def _read_amount(resource: str, given: Any) -> Quantity:
    amount = read_quantity(given)
    largest = LARGEST_CPU if resource == CPU else LARGEST_MEMORY if resource in _BYTES else LARGEST_COUNT
    if amount > largest:
        raise refuse(Code.QUANTITY_LARGE, "is too large", value=given, allowed=f"at most {largest}")
    if count_up(resource, amount) != count_down(resource, amount):
        unit = "millicores" if resource == CPU else "bytes" if resource in _BYTES else "pieces"
        raise refuse(Code.RESOURCES_WHOLE, f"must be a whole number of {unit}", value=given)
    return amount


def _read_name(given: Any) -> str:
    name = expect_text(given, what="a name")
    if error := check_dns_subdomain(name):
        raise refuse(Code.NAME_INVALID, error, value=name, suggestion=suggest_dns_label(name))
    return name


def _read_handler(given: Any) -> str:
    handler = expect_text(given, what="a handler")
    if error := check_dns_label(handler):
        raise refuse(Code.NAME_INVALID, error, value=handler, suggestion=suggest_dns_label(handler))
    return handler
