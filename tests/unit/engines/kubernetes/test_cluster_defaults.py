"""What the cluster adds to a run: only to blanks, with the object that does it."""

from typing import Any

from runyard.app.engine import PlaceDefault
from runyard.domain.effective_spec import Disk, EffectiveSpec
from runyard.engines.kubernetes.cluster_defaults import (
    find_class_defaults,
    find_default_storage,
    find_range_defaults,
)
from runyard.engines.kubernetes.project_rules import ClusterDefaults
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.resources import Sides
from runyard.spec.volumes import Volume

CLASSES = ClusterDefaults(priority_class="normal", storage_class="fast")
RANGE = {
    "metadata": {"name": "defaults"},
    "spec": {
        "limits": [
            {"type": "Pod", "default": {"cpu": "9"}},
            {"type": "Container", "default": {"memory": "1Gi"}, "defaultRequest": {"memory": "512Mi", "cpu": "100m"}},
        ]
    },
}


def make_spec(**fields: Any) -> EffectiveSpec:
    return EffectiveSpec(kind="container", action="job", image="x", **fields)


def show(defaults: Any) -> dict[str, tuple[str, str]]:
    return {".".join(one.path): (one.value, one.source) for one in defaults}


def test_classes_are_the_clusters_when_a_run_names_none() -> None:
    volumes = (
        Volume(name="new", type="persistent_volume_claim", mount_path="/a"),
        Volume(name="old", type="persistent_volume_claim", mount_path="/b", claim_name="x"),
        Volume(name="own", type="ephemeral", mount_path="/c", storage_class="slow"),
    )
    spec = make_spec(volumes=volumes, disk=Disk(size=Quantity.parse("1Gi")))
    assert show(find_class_defaults(spec, CLASSES)) == {
        "priority_class": ("normal", "PriorityClass normal"),
        "resources.disk.storage_class": ("fast", "StorageClass fast"),
        "volumes.new.storage_class": ("fast", "StorageClass fast"),
    }


def test_nothing_is_added_when_the_run_says_all_or_the_cluster_has_no_defaults() -> None:
    disk = Disk(size=Quantity.parse("1Gi"), medium="empty_dir")
    assert show(find_class_defaults(make_spec(priority_class="low", disk=disk), CLASSES)) == {}
    assert show(find_class_defaults(make_spec(disk=Disk(size=Quantity.parse("1Gi"))), ClusterDefaults())) == {}


def test_limit_range_fills_only_blank_sides_when_a_container_has_some() -> None:
    spec = make_spec(resources={"mem": Sides(requests=Quantity.parse("2Gi"))})
    assert show(find_range_defaults(spec, [RANGE, {**RANGE, "metadata": {"name": "later"}}])) == {
        "resources.mem.limits": ("1Gi", "LimitRange defaults"),
        "resources.cpu.requests": ("100m", "LimitRange defaults"),
    }


def test_newest_default_counts_when_the_cluster_has_several() -> None:
    def make(name: str, created: str, *, is_default: bool = True) -> dict[str, Any]:
        notes = {"storageclass.kubernetes.io/is-default-class": "true" if is_default else "false"}
        return {"metadata": {"name": name, "creationTimestamp": created, "annotations": notes}}

    classes = [make("a", "2026-01-01"), make("b", "2026-02-01"), make("c", "2026-03-01", is_default=False)]
    assert find_default_storage(classes) == "b"


def test_path_is_that_of_the_effective_spec_when_it_is_listed() -> None:
    [default] = find_class_defaults(make_spec(), ClusterDefaults(priority_class="normal"))
    assert default == PlaceDefault(path=("priority_class",), value="normal", source="PriorityClass normal")
