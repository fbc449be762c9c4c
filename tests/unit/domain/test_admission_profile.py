import json
from collections.abc import Callable
from typing import Any

import pytest

from runyard.spec.profile import Profile
from runyard.spec.run_fields import read_admin_fields
from tests.unit.domain.legal_objects import hold, make_job, make_profile, make_service
from tests.unit.domain.planted_bypasses import (
    CONTAINER,
    Objects,
    drop_from,
    find,
    judge,
    label_all,
    main,
    pod,
    set_at,
    set_in,
)

FIELDS: dict[str, Any] = {
    "resources": {"cpu": {"requests": "2", "limits": "4"}, "mem": {"requests": "4Gi"}, "gpu": 1, "disk": "10Gi"},
    "node_selector": {"disktype": "ssd"},
    "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
    "runtime_class": "nvidia",
    "priority_class": "batch",
    "run_as_user": 1000,
    "run_as_group": 1000,
    "fs_group": 2000,
    "image": "ghcr.io/acme/train:1",
    "image_pull_policy": "Always",
    "command": ["python"],
    "args": ["train.py"],
    "envs": {"EPOCHS": 3},
    "secrets": ["HF_TOKEN", {"name": "KAGGLE", "mount_path": "/secrets/k.json"}],
    "grace_period": "30s",
    "backoff_limit": 2,
    "disruptions": "ignore",
    "timeout": "2h",
    "ttl": "10m",
    "pending_timeout": "1h",
    "replicas": 2,
    "service_type": "NodePort",
    "service_ports": [{"port": 80, "target_port": 8080}],
    "readiness_path": "/healthz",
    "service_name": "api",
    "labels": {"team": "a"},
    "volumes": [
        {"volume_type": "empty_dir", "name": "shm", "mount_path": "/dev/shm", "spec": {"size_limit": "1Gi"}},
        {
            "volume_type": "persistent_volume_claim",
            "name": "data",
            "mount_path": "/data",
            "spec": {"size": "10Gi", "storage_class": "fast", "sub_path": "in"},
        },
        {"volume_type": "ephemeral", "name": "cache", "mount_path": "/cache", "spec": {"size": "10Gi"}},
        {"volume_type": "shared_volume", "name": "kept", "mount_path": "/kept"},
        {"volume_type": "config_map", "name": "config", "mount_path": "/config", "spec": {"name": "settings"}},
        {
            "volume_type": "image",
            "name": "weights",
            "mount_path": "/weights",
            "spec": {"image": "ghcr.io/acme/weights:1"},
        },
    ],
}


def _mount_another_config_map(objects: Objects) -> None:
    """A ConfigMap of the run, but of another volume."""
    (item,) = [item for item in objects if item["kind"] == "ConfigMap"]
    other = json.loads(json.dumps(item))
    other["metadata"]["name"] = "run-r1-bb82030dbc2bcab.other"
    objects.append(other)
    pod(objects)["volumes"][5]["configMap"]["name"] = "run-r1-bb82030dbc2bcab.other"


JOB: dict[str, Callable[[Objects], None]] = {
    "cpu request": set_at(*CONTAINER, "resources", "requests", "cpu", value="1"),
    "cpu limit": set_at(*CONTAINER, "resources", "limits", "cpu", value="3"),
    "no cpu limit": lambda objects: main(objects)["resources"]["limits"].pop("cpu"),
    "memory request": set_at(*CONTAINER, "resources", "requests", "memory", value="3Gi"),
    "no resources": lambda objects: main(objects).pop("resources"),
    "more GPUs": set_at(
        *CONTAINER, "resources", value={"requests": {"nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}}
    ),
    "scratch space": set_at(
        "volumes", 0, "ephemeral", "volumeClaimTemplate", "spec", "resources", "requests", "storage", value="9Gi"
    ),
    "node selector": set_at("nodeSelector", value={"disktype": "hdd"}),
    "no node selector": lambda objects: pod(objects).pop("nodeSelector"),
    "toleration": set_at("tolerations", value=[]),
    "runtime class": set_at("runtimeClassName", value="kata"),
    "no runtime class": lambda objects: pod(objects).pop("runtimeClassName"),
    "priority class": set_at("priorityClassName", value="high"),
    "user": set_at("securityContext", "runAsUser", value=1001),
    "no group": lambda objects: pod(objects)["securityContext"].pop("runAsGroup"),
    "group of volumes": set_at("securityContext", "fsGroup", value=2001),
    "image": set_at(*CONTAINER, "image", value="ghcr.io/acme/train:2"),
    "pull policy": set_at(*CONTAINER, "imagePullPolicy", value="Never"),
    "command": set_at(*CONTAINER, "command", value=["sh"]),
    "args": lambda objects: main(objects).pop("args"),
    "variable": set_at(*CONTAINER, "env", 3, "value", value="4"),
    "secret's variable": lambda objects: main(objects)["env"].pop(2),
    "secret's file": lambda objects: main(objects)["volumeMounts"].pop(7),
    "grace period": set_at("terminationGracePeriodSeconds", value=31),
    "retries": set_in("Job", "spec", "backoffLimit", value=3),
    "deadline": set_in("Job", "spec", "activeDeadlineSeconds", value=1),
    "no deadline": drop_from("Job", "spec", "activeDeadlineSeconds"),
    "disruptions": drop_from("Job", "spec", "podFailurePolicy"),
    "time to live": set_in("Job", "spec", "ttlSecondsAfterFinished", value=1),
    "time to wait": set_in("Job", "metadata", "annotations", "runyard.io/pending-timeout", value="1"),
    "label": set_in("Secret", "metadata", "labels", "team", value="b"),
    "no label in the template": drop_from("Job", "spec", "template", "metadata", "labels", "team"),
    "size limit": set_at("volumes", 4, "emptyDir", "sizeLimit", value="2Gi"),
    "no size limit": lambda objects: pod(objects)["volumes"][4]["emptyDir"].pop("sizeLimit"),
    "size": set_in("PersistentVolumeClaim", "spec", "resources", "requests", "storage", value="9Gi"),
    "storage class": set_in("PersistentVolumeClaim", "spec", "storageClassName", value="slow"),
    "size of the pod's own": set_at(
        "volumes", 2, "ephemeral", "volumeClaimTemplate", "spec", "resources", "requests", "storage", value="9Gi"
    ),
    "config map": set_at("volumes", 5, "configMap", "name", value="settings"),
    "config map of another volume": _mount_another_config_map,
    "image volume": set_at("volumes", 6, "image", "reference", value="ghcr.io/acme/weights:2"),
    "kind of a volume": set_at(
        "volumes", 4, value={"name": "shm", "configMap": {"name": "run-r1-bb82030dbc2bcab.config"}}
    ),
    "mount path": set_at(*CONTAINER, "volumeMounts", 3, "mountPath", value="/elsewhere"),
    "sub path": set_at(*CONTAINER, "volumeMounts", 1, "subPath", value="out"),
    "no mount": lambda objects: main(objects)["volumeMounts"].pop(4),
}
SERVICE: dict[str, Callable[[Objects], None]] = {
    "replicas": set_in("Deployment", "spec", "replicas", value=1),
    "service type": set_in("Service", "spec", "type", value="ClusterIP"),
    "service port": set_in("Service", "spec", "ports", 0, "port", value=81),
    "readiness path": set_at(*CONTAINER, "readinessProbe", "httpGet", "path", value="/"),
    "no service name": lambda objects: objects.__delitem__(-1),
}


def _judge(objects: Objects, **more: Any) -> list[str]:
    label_all("team", "a")(objects)
    return [problem.code for problem in judge(objects, profile=make_profile(**FIELDS), **more)]


@pytest.mark.parametrize("make", [make_job, make_service])
def test_nothing_is_found_when_everything_is_as_the_profile_says(make: Callable[[], Objects]) -> None:
    assert _judge(make()) == []


@pytest.mark.parametrize("name", JOB)
def test_it_is_refused_when_a_job_is_not_as_the_profile_says(name: str) -> None:
    objects = make_job()
    label_all("team", "a")(objects)
    JOB[name](objects)

    codes = {problem.code for problem in judge(objects, profile=make_profile(**FIELDS))}

    assert "admission.profile" in codes


@pytest.mark.parametrize("name", SERVICE)
def test_it_is_refused_when_a_service_is_not_as_the_profile_says(name: str) -> None:
    objects = make_service()
    SERVICE[name](objects)

    assert "admission.profile" in _judge(objects)


@pytest.mark.parametrize(
    ("policy", "mutate"),
    [
        ({"runtime_class": {"default": "kata", "locked": True}}, set_at("runtimeClassName", value="kata")),
        ({"run_as_user": {"default": 5, "locked": True}}, set_at("securityContext", "runAsUser", value=5)),
        ({"node_selector": {"default": {"a": "b"}, "locked": True}}, set_at("nodeSelector", value={"a": "b"})),
        ({"tolerations": {"default": [], "locked": True}}, set_at("tolerations", value=[])),
        ({"image": {"default": "x:1", "locked": True}}, set_at(*CONTAINER, "image", value="x:1")),
        (
            {"resources.cpu.limits": {"default": "3", "locked": True}},
            set_at(*CONTAINER, "resources", "limits", "cpu", value="3"),
        ),
        (
            {"volumes.size_limit": {"default": "2Gi", "locked": True}},
            set_at("volumes", 4, "emptyDir", "sizeLimit", value="2Gi"),
        ),
    ],
)
def test_the_policys_value_passes_when_it_locks_what_the_profile_says(
    policy: dict[str, Any], mutate: Callable[[Objects], None]
) -> None:
    objects = make_job()
    pod(objects)["affinity"].pop("nodeAffinity")
    mutate(objects)

    assert _judge(objects, policy=policy) == []


def test_the_profile_holds_when_a_lock_has_no_value() -> None:
    objects = make_job()
    pod(objects)["runtimeClassName"] = "kata"

    assert "admission.profile" in _judge(objects, policy={"runtime_class": {"locked": True}})


def test_no_gpus_are_sent_as_nothing_when_the_profile_says_none() -> None:
    objects = make_job()
    profile = make_profile(resources={"gpu": 0})

    assert [problem.code for problem in judge(objects, profile=profile)] == ["admission.profile"]
    for side in ("requests", "limits"):
        del main(objects)["resources"][side]["nvidia.com/gpu"]
    assert judge(objects, profile=profile) == []


def test_a_base_object_need_not_hold_when_someone_says_otherwise() -> None:
    base = read_admin_fields({"runtime_class": "kata", "envs": {"A": "1"}})

    assert judge(make_job(), profile=Profile(id="big", base={"Job": base})) == []


def test_an_anchor_passes_when_it_states_what_the_profile_says() -> None:
    objects = make_job()
    hold(find(objects, "Job"))

    assert _judge(objects, is_anchor=True) == []


AFFINITY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "namespaces": ["a"]}]
    }
}


def test_the_affinity_is_the_profiles_when_it_has_one() -> None:
    objects, profile = make_job(), make_profile(affinity=AFFINITY)

    assert "admission.profile" in {problem.code for problem in judge(objects, profile=profile)}
    pod(objects)["affinity"] = AFFINITY
    assert judge(objects, profile=profile) == []
    lock = {"affinity": {"default": {}, "locked": True}}
    assert judge(objects, profile=profile, policy=lock)
    del pod(objects)["affinity"]
    assert judge(objects, profile=profile, policy=lock) == []


def test_the_pull_secrets_are_the_profiles_when_the_policy_has_others() -> None:
    objects, profile = make_job(), make_profile(image_pull_secrets=["registry"])
    policy = {"platform": {"image_pull_secrets": ["other"]}}
    pod(objects)["imagePullSecrets"] = [{"name": "other"}]

    assert [problem.code for problem in judge(objects, policy=policy, profile=profile)] == ["admission.profile"]
    pod(objects)["imagePullSecrets"] = [{"name": "registry"}]
    assert judge(objects, policy=policy, profile=profile) == []


def test_one_service_is_enough_when_the_profile_names_none() -> None:
    objects = make_service()[:-1]

    assert judge(objects, profile=make_profile(runtime_class="nvidia")) == []


def test_nothing_is_missed_when_only_what_the_anchor_owns_is_sent() -> None:
    objects = [item for item in make_job() if item["kind"] != "Job"]

    assert _judge(objects) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"service_account": "trainer"},
        {"scheduler_name": "gpu"},
        {"host_aliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}]},
        {"topology_spread": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]},
        {"image_pull_secrets": ["registry"]},
        {"resources": {"limits": {"example.com/nic": "1"}}},
        {"resources": {"limits": {"nvidia.com/gpu": "2"}}},
    ],
)
def test_it_is_refused_when_what_only_the_profile_says_is_gone(fields: dict[str, Any]) -> None:
    assert [problem.code for problem in judge(make_job(), profile=make_profile(**fields))] == ["admission.profile"]


def test_a_secret_gives_way_when_the_policy_locks_its_variable() -> None:
    objects = make_job()
    main(objects)["env"] = [*main(objects)["env"][:2], {"name": "HF_TOKEN", "value": "none"}]
    policy = {"envs": {"default": {"HF_TOKEN": "none"}, "locked": True}}

    assert judge(objects, policy=policy, profile=make_profile(secrets=["HF_TOKEN"])) == []
    assert judge(objects, profile=make_profile(secrets=["HF_TOKEN"]))


@pytest.mark.parametrize(("content", "codes"), [("a: 1", []), ("a: 2", ["admission.profile"])])
def test_files_are_the_profiles_when_it_gives_them(content: str, codes: list[str]) -> None:
    volume = {
        "volume_type": "config_map",
        "name": "config",
        "mount_path": "/config",
        "spec": {"data": {"config.yaml": "a: 1"}},
    }
    objects = make_job()
    find(objects, "ConfigMap")["data"] = {"config.yaml": content}

    assert [problem.code for problem in judge(objects, profile=make_profile(volumes=[volume]))] == codes
