"""A legal run in a world with a profile and a policy, and access to its objects for planting bypasses."""

import copy
from dataclasses import replace
from typing import Any

from tests.adversary.cases import Case, World

Object = dict[str, Any]

NAME = "1xa100"
WORLD = World(
    policy={
        "resources.gpu": {"max": 2},
        "resources.mem": {"max": "64Gi"},
        "resources.disk": {"max": "20Gi"},
        "tolerations": {"denied": [{"key": "spot"}]},
        "image": {"allowed": ["ghcr.io/acme/*"]},
        "priority_class": {"options": ["low"]},
        "run_as_user": {"min": 1000},
        "volumes.size": {"max": "10Gi"},
        "volumes.storage_class": {"default": "fast", "locked": True},
        "volumes.type": {"denied": ["image"]},
        "timeout": {"max": "1d"},
        "replicas": {"max": 3},
        "backoff_limit": {"max": 4},
        "node_selector": {"denied": ["kubernetes.io/hostname"]},
        "envs": {"denied": ["LD_*"]},
        "secrets": {"denied": ["db-password"]},
        "image_pull_policy": {"default": "Always", "locked": True},
        "grace_period": {"default": "30s", "locked": True},
    },
    profiles=[
        [
            {
                "id": NAME,
                "resources": {"requests": {"cpu": 8, "nvidia.com/gpu": 1}, "limits": {"cpu": 12, "nvidia.com/gpu": 1}},
                "node_selector": {"pool": "gpu"},
                "tolerations": [{"key": "gpu", "operator": "Exists"}],
                "envs": {"HF_HOME": "/data/hf"},
                "secrets": [{"name": "kaggle", "mount_path": "/secrets/kaggle"}],
                "volumes": [
                    {"volume_type": "shared_volume", "name": "models", "mount_path": "/models"},
                    {
                        "volume_type": "empty_dir",
                        "name": "shm",
                        "mount_path": "/dev/shm",
                        "spec": {"size_limit": "1Gi"},
                    },
                ],
                "runtime_class": "nvidia",
                "working_dir": "/work",
                "run_as_user": 1000,
                "fs_group": 2000,
                "scheduler_name": "runyard-gpu",
                "service_account": "trainer",
                "image_pull_secrets": ["registry-a"],
                "labels": {"team": "a"},
                "backoff_limit": 2,
                "replicas": 2,
                "service_type": "NodePort",
            }
        ]
    ],
    secrets={"TOKEN": "t0ken", "kaggle": "key", "db-password": "hidden", "LD_PRELOAD": "hidden"},
    volumes={"models": "run-old.models"},
    claims=["legacy"],
    config_maps={"settings": {"train.toml": "epochs = 3\n"}},
)
NO_POLICY = replace(WORLD, policy={})
"""The same world without any policy."""
_RUN = {
    "profile": NAME,
    "image": "ghcr.io/acme/train:2",
    "command": ["python", "train.py"],
    "resources": {"mem": "4Gi", "disk": "10Gi"},
    "envs": {"EPOCHS": 3},
    "secrets": ["TOKEN"],
    "volumes": [
        {"volume_type": "persistent_volume_claim", "name": "data", "mount_path": "/data", "spec": {"size": "5Gi"}}
    ],
    "priority_class": "low",
}
JOB = Case(run={**_RUN, "timeout": "2h"})
SERVICE = Case(action="serve", run={**_RUN, "service_name": "main"})
ANCHOR = replace(JOB, is_anchor=True)
SERVED_ANCHOR = replace(SERVICE, is_anchor=True)


class Victim:
    """The objects of a run, to be changed."""

    def __init__(self, objects: list[Object]) -> None:
        self.objects = copy.deepcopy(objects)

    def of(self, kind: str) -> Object:
        return next(item for item in self.objects if item["kind"] == kind)

    @property
    def workload(self) -> Object:
        return next(item for item in self.objects if item["kind"] in ("Job", "Deployment"))

    @property
    def template(self) -> Object:
        template: Object = self.workload["spec"]["template"]
        return template

    @property
    def pod(self) -> Object:
        pod: Object = self.template["spec"]
        return pod

    @property
    def container(self) -> Object:
        container: Object = self.pod["containers"][0]
        return container

    def find_volume(self, name: str) -> Object:
        return next(volume for volume in self.pod["volumes"] if volume["name"] == name)

    def find_env(self, name: str) -> Object:
        return next(entry for entry in self.container["env"] if entry["name"] == name)

    def add_volume(self, source: Object, *, path: str = "/stolen") -> None:
        self.pod["volumes"].append({"name": "stolen", **source})
        self.container["volumeMounts"].append({"name": "stolen", "mountPath": path})

    def set_gpus(self, count: str, *, name: str = "nvidia.com/gpu") -> None:
        for side in ("requests", "limits"):
            self.container["resources"][side][name] = count
