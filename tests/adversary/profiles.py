"""Draws legal profiles: every field an admin may set, in both spellings, and DigitalHub's base objects beside them."""

from typing import Any

from tests.adversary import words
from tests.adversary.draws import Draws
from tests.adversary.placements import draw_affinity, draw_spread, draw_toleration, respell, spell_camel
from tests.adversary.raw import read_pairs
from tests.adversary.user_volumes import draw_secret, draw_volume
from tests.adversary.users import UserDraws, draw_apart

_ALIASES = ([{"ip": "10.1.2.3", "hostnames": ["store", "store.local"]}], [{"ip": "::1", "hostnames": ["a"]}])
_LABELS: dict[str, tuple[Any, ...]] = {
    "team": ("a", "b"),
    "cost-center": ("42", ""),
    "example.com/owner": ("x" * 63,),
}
_USER_FIELDS = (
    *(
        "runtime_class",
        "priority_class",
        "command",
        "args",
        "working_dir",
        "image_pull_policy",
        "replicas",
        "service_ports",
    ),
    *("service_type", "service_name", "readiness_path", "backoff_limit", "disruptions", "timeout"),
    *("pending_timeout", "ttl"),
    *("grace_period", "parameters", "python_version", "source", "requirements", "node_selector", "envs"),
)


def unset_twice(fields: dict[str, Any]) -> None:
    """Drop `envs` if it sets a variable that a secret sets too: reading refuses that."""
    variables = {use if isinstance(use, str) else use["name"] for use in fields.get("secrets", ())}
    if not variables.isdisjoint(read_pairs(fields.get("envs", {}))):
        del fields["envs"]


class ProfileDraws:
    """Draws the files of profiles."""

    def __init__(self, draws: Draws) -> None:
        self.draws = draws
        self.users = UserDraws(draws)

    def draw_file(self, name: str) -> list[dict[str, Any]]:
        """A profile and, at times, its base objects."""
        documents = [self.draw_profile(name)]
        if self.draws.chance(0.35):
            documents += [
                draw()
                for draw in (self._draw_base_job, self._draw_base_deployment, self._draw_base_service)
                if self.draws.chance(0.7)
            ]
        return documents

    def draw_profile(self, name: str) -> dict[str, Any]:
        draws = self.draws
        share = draws.pick(0.05, 0.15, 0.35)
        fields = {field: self.draw_field(field) for field in FIELDS if draws.chance(share)}
        if draws.chance(0.6):
            fields["resources"] = self._draw_resources()
        context = {
            key: draws.pick_of(words.IDS) for key in ("runAsUser", "runAsGroup", "fsGroup") if draws.chance(share)
        }
        if context and draws.chance():
            fields["securityContext"] = context
        else:
            ids = {"runAsUser": "run_as_user", "runAsGroup": "run_as_group", "fsGroup": "fs_group"}
            fields |= {ids[key]: value for key, value in context.items()}
        unset_twice(fields)
        if draws.chance(0.3):
            fields = {spell_camel(key): value for key, value in fields.items()}
        return {"id": name, "name": f"The {name}", "description": "for tests", **fields}

    def draw_field(self, name: str) -> Any:
        """A legal value of a field that an admin may set."""
        draws = self.draws
        match name:
            case "tolerations":
                return respell(draws, draws.some(lambda: draw_toleration(draws, is_sly=True), least=1, most=2))
            case "affinity":
                return respell(draws, draw_affinity(draws, is_sly=draws.chance()))
            case "volumes":
                return draw_apart(draws, draw_volume, most=2)
            case "secrets":
                return [draw_secret(draws)]
            case "topology_spread":
                return respell(draws, draw_spread(draws))
            case "labels":
                pairs = draws.pairs(_LABELS, most=2)
                return [{"name": key, "value": value} for key, value in pairs.items()] if draws.chance() else pairs
            case "image":
                return draws.pick_of(words.SLY_IMAGES)
            case "envs" if draws.chance(0.2):
                return {draws.pick_of(words.PLATFORM_ENVS): "admin"}
            case "resources":
                return self._draw_resources()
        if name in _OWN:
            return draws.pick_of(_OWN[name])
        return self.users.draw_field(name, "plain")

    def _draw_resources(self) -> dict[str, Any]:
        draws = self.draws
        resources = self.users.draw_resources() if draws.chance(0.6) else {}
        amounts: dict[str, Any] = {}
        if "cpu" not in resources and draws.chance(0.4):
            amounts["cpu"] = draws.pick_of(words.CPUS)
        if "mem" not in resources and draws.chance(0.4):
            amounts["memory"] = draws.pick_of(words.MEMORIES)
        if "gpu" not in resources and draws.chance(0.4):
            amounts[draws.pick("nvidia.com/gpu", "amd.com/gpu")] = draws.pick(1, "2", 4)
        if draws.chance(0.1):
            amounts[draws.pick("example.com/nic", "ephemeral-storage")] = draws.pick(1, "2")
        if amounts:
            sides = draws.pick(("requests",), ("limits",), ("requests", "limits"))
            resources |= {side: dict(amounts) for side in sides}
        return resources

    def _draw_base_pod(self) -> dict[str, Any]:
        draws = self.draws
        container: dict[str, Any] = {"name": "c", "image": "ignored"}
        if draws.chance():
            container["resources"] = {"requests": {"cpu": "100m", "memory": "64Mi"}}
        if draws.chance():
            container["env"] = [{"name": "HF_HOME", "value": "/base"}, {"name": "BASE"}]
        pod: dict[str, Any] = {"containers": [container], "restartPolicy": "Never"}
        table: dict[str, tuple[Any, ...]] = {
            "terminationGracePeriodSeconds": (5, 60),
            "serviceAccountName": ("trainer",),
            "schedulerName": ("other",),
            "nodeSelector": ({"pool": "base"}, {"disktype": "ssd"}),
            "tolerations": ([{"key": "base", "operator": "Exists"}], [{"operator": "Exists"}]),
            "runtimeClassName": words.RUNTIME_CLASSES,
            "priorityClassName": words.PRIORITY_CLASSES,
            "imagePullSecrets": ([{"name": "base-registry"}],),
            "hostAliases": _ALIASES,
            "securityContext": ({"runAsUser": 4242, "runAsNonRoot": True}, {"fsGroup": 77}),
        }
        return pod | draws.pairs(table, least=0, most=4)

    def _draw_base_job(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"template": {"spec": self._draw_base_pod()}}
        table = {"backoffLimit": (0, 4), "activeDeadlineSeconds": (600, 3600), "ttlSecondsAfterFinished": (60, 600)}
        return {"apiVersion": "batch/v1", "kind": "Job", "spec": spec | self.draws.pairs(table, least=0)}

    def _draw_base_deployment(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"template": {"spec": self._draw_base_pod()}}
        spec |= {"replicas": 2} if self.draws.chance() else {}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}

    def _draw_base_service(self) -> dict[str, Any]:
        spec = self.draws.pairs(
            {"type": words.SERVICE_TYPES[:3], "ports": ([{"port": 80, "targetPort": 8000}],)}, least=1
        )
        return {"apiVersion": "v1", "kind": "Service", "spec": spec}


_OWN: dict[str, tuple[Any, ...]] = {
    "image_pull_secrets": (["registry-a"], [{"name": "registry-b"}, "registry-a"]),
    "scheduler_name": ("runyard-gpu", "default-scheduler"),
    "service_account": ("trainer", "robot.x"),
    "host_aliases": _ALIASES,
}
_OWN_FIELDS = (*_OWN, "tolerations", "affinity", "volumes", "secrets", "topology_spread", "labels", "image")
FIELDS = (*_USER_FIELDS, *_OWN_FIELDS)
