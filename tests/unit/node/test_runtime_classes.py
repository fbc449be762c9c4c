from typing import Any

from runyard.node.offer import Offer, Shape
from runyard.node.offer_file import load_offer
from runyard.node.runtime_classes import Plan, plan_runtime_classes, render_runtime_class

NODE = "k8s.gpu"
OFFER = load_offer("""
capacity: {cpu: 63, memory: 263567056Ki, nvidia.com/gpu: 8, pods: 8}
shapes:
  - {name: seeweb-nvidia-1xa6000, handler: nvidia, limits: {cpu: 8000m, memory: 32861620Ki, gpu: 1}}
  - {name: seeweb-nvidia-2xa6000, handler: nvidia, limits: {cpu: 16, memory: 64Gi, gpu: 2}}
""")
ONE, TWO = OFFER.shapes.values()


def existing(shape: Shape, node_name: str = NODE, **fields: Any) -> dict[str, Any]:
    made = render_runtime_class(shape, node_name)
    return made | {"metadata": made["metadata"] | {"uid": f"uid-{shape.name}"}} | fields


def test_annotations_are_those_of_the_seed_when_a_class_is_rendered() -> None:
    assert render_runtime_class(ONE, NODE) == {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {
            "name": "seeweb-nvidia-1xa6000",
            "labels": {"k8s.gpu": "k8s.gpu"},
            "annotations": {
                "limits.k8s.gpu/cpu": "8000m",
                "limits.k8s.gpu/default": "1",
                "limits.k8s.gpu/memory": "32861620Ki",
            },
        },
        "handler": "nvidia",
        "scheduling": {"nodeSelector": {"kubernetes.io/hostname": NODE}},
    }


def test_all_classes_are_created_when_there_are_none() -> None:
    assert plan_runtime_classes([], OFFER, NODE) == Plan(
        to_create=[render_runtime_class(ONE, NODE), render_runtime_class(TWO, NODE)]
    )


def test_nothing_is_done_when_all_classes_are_as_offered() -> None:
    seen = [existing(ONE), existing(TWO)]
    seen[0]["metadata"]["annotations"]["somebody.else/note"] = "kept"
    assert plan_runtime_classes(seen, OFFER, NODE) == Plan()


def test_only_differing_annotations_are_patched_when_the_offer_changes() -> None:
    seen = existing(ONE)
    seen["metadata"]["annotations"] = {"limits.k8s.gpu/cpu": "8", "limits.k8s.gpu/memory": "32861620Ki", "other": "x"}
    plan = plan_runtime_classes([seen, existing(TWO)], OFFER, NODE)
    patch = {"metadata": {"annotations": {"limits.k8s.gpu/cpu": "8000m", "limits.k8s.gpu/default": "1"}}}
    assert plan == Plan(to_patch=[(seen, patch)])


def test_class_is_deleted_when_it_is_no_longer_offered() -> None:
    seen = existing(ONE)
    assert plan_runtime_classes([seen], Offer({}, {}), NODE) == Plan(to_delete=[seen])


def test_class_is_created_again_when_its_handler_differs() -> None:
    seen = existing(ONE, handler="runc")
    plan = plan_runtime_classes([seen, existing(TWO)], OFFER, NODE)
    assert plan == Plan(to_replace=[(seen, render_runtime_class(ONE, NODE))])


def test_class_is_created_again_when_somebody_gave_it_an_overhead() -> None:
    seen = existing(ONE, overhead={"podFixed": {"cpu": "1"}})
    plan = plan_runtime_classes([seen, existing(TWO)], OFFER, NODE)
    assert plan == Plan(to_replace=[(seen, render_runtime_class(ONE, NODE))])


def test_classes_of_others_are_reported_and_kept_when_they_have_an_offered_name() -> None:
    unlabelled = existing(ONE)
    del unlabelled["metadata"]["labels"]
    seen = [unlabelled, existing(TWO, node_name="another"), {"metadata": {"name": "runc"}, "handler": "runc"}]
    assert plan_runtime_classes(seen, OFFER, NODE) == Plan(foreign=[ONE.name, TWO.name])
