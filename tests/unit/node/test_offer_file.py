import json

import pytest

from runyard.node.offer import Offer, Shape
from runyard.node.offer_file import MOST_SHAPES, load_offer, offer_from_runtime_classes
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.problems import Refused

GOOD = """
capacity: {cpu: 63, memory: 263567056Ki, nvidia.com/gpu: 8, pods: 8}
shapes:
  - name: seeweb-nvidia-1xa6000
    handler: nvidia
    limits: {cpu: 8000m, memory: 32861620Ki, gpu: 1}
  - name: seeweb-nvidia-2xa6000
    handler: nvidia
    limits: {cpu: 1.50, memory: 64Gi, nvidia.com/gpu: 2}
    largest_machine: {gpu: 4}
    remote_class: nvidia
"""


def problems(text: str) -> list[str]:
    with pytest.raises(Refused) as refused:
        load_offer(text)
    return [str(problem) for problem in refused.value.problems]


def change(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


def test_offer_has_shapes_and_capacity_when_the_file_is_right() -> None:
    offer = load_offer(GOOD)
    assert {name: amount.text for name, amount in offer.capacity.items()} == {
        "cpu": "63",
        "memory": "263567056Ki",
        "nvidia.com/gpu": "8",
        "pods": "8",
    }
    one, two = offer.shapes.values()
    assert one == Shape(
        "seeweb-nvidia-1xa6000",
        "nvidia",
        {"cpu": Quantity.parse("8"), "memory": Quantity.parse("32861620Ki"), "nvidia.com/gpu": Quantity.parse("1")},
        limit_texts={"cpu": "8000m", "memory": "32861620Ki", "nvidia.com/gpu": "1"},
    )
    assert two.limit_texts == {"cpu": "1.50", "memory": "64Gi", "nvidia.com/gpu": "2"}
    assert two.largest_machine == {"nvidia.com/gpu": Quantity.parse("4")}
    assert two.remote_class == "nvidia"


def test_json_is_read_when_the_offer_is_json() -> None:
    given = {"capacity": {"cpu": 1.5, "memory": "1Gi", "gpu": 0, "pods": 1, "ephemeral-storage": "1Gi"}, "shapes": []}
    assert load_offer(json.dumps(given)).capacity["cpu"] == Quantity.parse("1500m")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("handler", "handlr", ["shapes[0].handlr", "unknown field", "did you mean: handler"]),
        ("handler: nvidia", "", ["shapes[0].handler", "needs `handler`"]),
        ("name: seeweb-nvidia-1xa6000", "name: Seeweb_A6000", ["shapes[0].name", "did you mean: seeweb-a6000"]),
        ("name: seeweb-nvidia-1xa6000", "name: seeweb-nvidia-2xa6000", ["shapes[1].name", "same name"]),
        ("8000m", "8cores", ["shapes[0].limits.cpu", "8cores", "not a valid quantity", "did you mean: 8"]),
        ("8000m", "-1", ["shapes[0].limits.cpu", "negative"]),
        ("8000m", "0.0001", ["shapes[0].limits.cpu", "whole number of millicores"]),
        ("32861620Ki", "2Pi", ["shapes[0].limits.memory", "at most 1Pi"]),
        ("gpu: 1}", "gpu: 1.5}", ["shapes[0].limits.gpu", "whole number of pieces"]),
        ("gpu: 1}", "gpus: 1}", ["shapes[0].limits.gpus", "unknown resource", "did you mean: gpu"]),
        (", gpu: 1}", "}", ["shapes[0].limits.gpu", "missing"]),
        (", gpu: 1}", ", gpu: 1, nvidia.com/gpu: 1}", ["shapes[0].limits", "both `nvidia.com/gpu`"]),
        ("pods: 8", "pod: 8", ["capacity.pod", "unknown resource", "did you mean: pods"]),
        ("{gpu: 4}", "4", ["shapes[1].largest_machine", "must be a mapping"]),
        ("remote_class: nvidia", "remote_class: [nvidia]", ["shapes[1].remote_class", "must be text"]),
    ],
)
def test_mistake_is_named_when_a_field_is_wrong(old: str, new: str, words: list[str]) -> None:
    shown = "\n".join(problems(change(old, new)))
    assert [word for word in words if word not in shown] == []


def test_all_problems_are_reported_when_there_are_several() -> None:
    found = problems("capcity: {}\nshapes: [{name: a/b, handler: x, limits: {cpu: x, memory: 1Gi, gpu: 1}}]")
    assert [line.split(":")[0] for line in found] == ["capcity", "capacity", "shapes[0].name", "shapes[0].limits.cpu"]


def test_file_is_refused_when_it_has_too_many_shapes_or_bytes() -> None:
    shape = {"handler": "x", "limits": {"cpu": 1, "memory": "1Gi", "gpu": 1}}
    capacity = {"cpu": 1, "memory": "1Gi", "gpu": 1, "pods": 1}
    most = [{"name": f"s{number}", **shape} for number in range(MOST_SHAPES)]
    assert len(load_offer(json.dumps({"capacity": capacity, "shapes": most})).shapes) == MOST_SHAPES
    many = json.dumps({"capacity": capacity, "shapes": [*most, {"name": "more", **shape}]})
    assert problems(many) == [f"shapes: has {MOST_SHAPES + 1} shapes; allowed: at most {MOST_SHAPES}"]
    assert "bytes" in problems("#" + "x" * 300_000)[0]


def test_file_is_refused_when_it_is_no_mapping() -> None:
    assert "must be a mapping" in problems("[]")[0]
    assert "empty" in problems("")[0]


def runtime_class(name: str, **annotations: str) -> dict[str, object]:
    return {
        "metadata": {
            "name": name,
            "annotations": {f"limits.k8s.gpu/{key}": value for key, value in annotations.items()},
        },
        "handler": "nvidia",
    }


def test_shapes_are_the_annotated_classes_when_the_provider_has_its_own() -> None:
    capacity = {"cpu": Quantity.parse("63")}
    offer, found = offer_from_runtime_classes(
        [
            runtime_class("one", cpu="8000m", memory="32861620Ki", default="1"),
            {"metadata": {"name": "runc"}, "handler": "runc"},
            runtime_class("half", cpu="8000m"),
            runtime_class("odd", cpu="many", memory="1Gi", default="1"),
        ],
        capacity,
    )
    limits = {"cpu": "8000m", "memory": "32861620Ki", "nvidia.com/gpu": "1"}
    assert offer == Offer(
        {
            "one": Shape(
                "one",
                "nvidia",
                {name: Quantity.parse(text) for name, text in limits.items()},
                remote_class="one",
                limit_texts=limits,
            )
        },
        capacity,
    )
    assert [problem.path[1] for problem in found] == ["half", "half", "odd"]
