"""Runs that go well or badly in one particular way, as plain manifests, and how to tell that they did."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
BUSYBOX = "docker.io/library/busybox:1.36"
PYTHON = "docker.io/library/python:3.11"
REGISTRY_PORT = 5999
REGISTRY = f"""
import http.server, json

class Registry(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        is_private = "/private/" in self.path
        code = "UNAUTHORIZED" if is_private else "MANIFEST_UNKNOWN"
        message = "authentication required" if is_private else "manifest unknown"
        self.send_response(401 if is_private else 404)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps({{"errors": [{{"code": code, "message": message}}]}}).encode())
    do_HEAD = do_GET

http.server.ThreadingHTTPServer(("127.0.0.1", {REGISTRY_PORT}), Registry).serve_forever()
"""
FILL_MEMORY = "x = []\nwhile True: x.append(bytearray(1 << 20))"


@dataclass(frozen=True)
class Recorded:
    """The objects of one run at one time."""

    anchor: Object
    pods: list[Object] = field(default_factory=list)
    events: list[Object] = field(default_factory=list)
    claims: list[Object] = field(default_factory=list)
    services: list[Object] = field(default_factory=list)


Check = Callable[[Recorded], bool]


@dataclass(frozen=True)
class Scenario:
    """One way in which a run goes; recorded once `until` holds."""

    anchor: Object
    until: Check
    others: tuple[Object, ...] = ()
    """Created before the anchor, in the same namespace."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the namespace."""
    act: str | None = None
    """What is done to its pod once that runs: `evict`, `end`, `delete`, `preempt`."""


def make_container(script: str = "sleep 3600", **fields: Any) -> Object:
    """The main container; it runs a line of shell, or the `command` of the fields."""
    return {
        "name": "main",
        "image": BUSYBOX,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "command": ["sh", "-c", script],
        **fields,
    }


def make_template(container: Object, *, restart: str, pod: Mapping[str, Any]) -> Object:
    """The pod template."""
    spec = {
        "restartPolicy": restart,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "containers": [container],
        **pod,
    }
    return {"metadata": {"labels": {"runyard.io/run-uid": "r-uid"}}, "spec": spec}


def make_anchor(kind: str, spec: Object, *, wish: str = "run") -> Object:
    """A Job or Deployment as Runyard marks them."""
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {
            "name": "run",
            "labels": {"runyard.io/run-uid": "r-uid", "runyard.io/run": "r1", "runyard.io/project": "p"},
            "annotations": {
                "runyard.io/wish": wish,
                "runyard.io/generation": "2",
                "runyard.io/replicas": str(spec.get("replicas", "")),
            },
        },
        "spec": spec,
    }


def make_job(container: Object | None = None, *, pod: Mapping[str, Any] | None = None, **spec: Any) -> Object:
    """A released Job."""
    policy = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}
    return make_anchor(
        "Job",
        {
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": policy,
            "template": make_template(container or make_container(), restart="Never", pod=pod or {}),
            **spec,
        },
    )


def make_deployment(container: Object | None = None, *, pod: Mapping[str, Any] | None = None, **spec: Any) -> Object:
    """A released Deployment."""
    return make_anchor(
        "Deployment",
        {
            "replicas": 1,
            "selector": {"matchLabels": {"runyard.io/run-uid": "r-uid"}},
            "template": make_template(container or make_container(), restart="Always", pod=pod or {}),
            **spec,
        },
    )


def make_claim(storage_class: str | None) -> Object:
    """A claim of the run."""
    spec: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    if storage_class:
        spec["storageClassName"] = storage_class
    return _make("v1", "PersistentVolumeClaim", "data", spec=spec)


def _make(api_version: str, kind: str, name: str, **fields: Any) -> Object:
    labels = {"runyard.io/run-uid": "r-uid"}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": labels}, **fields}


def _ask(**amounts: str) -> Object:
    named = {name.replace("gpu", "nvidia.com/gpu").replace("_", "-"): amount for name, amount in amounts.items()}
    return {"requests": named, "limits": named}


def _mount(volume: Object) -> Object:
    return {"volumes": [{"name": "data", **volume}]}


def _with_mount(**fields: Any) -> Object:
    return make_container(volumeMounts=[{"name": "data", "mountPath": "/data"}], **fields)


def waits(reason: str) -> Check:
    """A container waits for this reason, and the kubelet said more than the reason."""
    return lambda seen: any(
        (status.get("state", {}).get("waiting") or {}).get("reason") == reason
        for pod in seen.pods
        for key in ("initContainerStatuses", "containerStatuses")
        for status in pod["status"].get(key, [])
    )


def in_phase(phase: str) -> Check:
    """A pod is in this phase."""
    return lambda seen: any(pod["status"].get("phase") == phase for pod in seen.pods)


def warned(reason: str, *, words: str = "") -> Check:
    """There is an event for this reason, with these words."""
    return lambda seen: any(
        event.get("reason") == reason and words in (event.get("message") or "") for event in seen.events
    )


def has_condition(name: str) -> Check:
    """The anchor has this condition."""
    return lambda seen: any(
        condition["type"] == name and condition["status"] == "True"
        for condition in seen.anchor.get("status", {}).get("conditions", [])
    )


def is_unschedulable(seen: Recorded) -> bool:
    """The scheduler found no node for a pod."""
    return any(
        condition.get("reason") == "Unschedulable"
        for pod in seen.pods
        for condition in pod["status"].get("conditions", [])
    )


def is_ready(seen: Recorded) -> bool:
    """A pod is ready."""
    return any(map(is_pod_ready, seen.pods))


def is_pod_ready(pod: Object) -> bool:
    """The pod's condition `Ready`."""
    conditions = pod.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def both(one: Check, other: Check) -> Check:
    """Both hold."""
    return lambda seen: one(seen) and other(seen)


QUOTA = _make("v1", "ResourceQuota", "team", spec={"hard": {"requests.cpu": "1", "pods": "5"}})
LIMIT_RANGE = _make(
    "v1", "LimitRange", "sizes", spec={"limits": [{"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "1"}}]}
)
LAUNCHER_LINE = '{"runyard": 1, "message": "ValueError: no such column: age", "peak_bytes": 52428800}'
UNREADY: Object = {
    "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
    "ports": [{"containerPort": 8080}],
}
LISTENS: Object = {"image": PYTHON, "command": ["python3", "-m", "http.server", "8080"]}
NODE_PORT = _make(
    "v1",
    "Service",
    "run",
    spec={
        "type": "NodePort",
        "selector": {"runyard.io/run-uid": "r-uid"},
        "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
    },
)

SCENARIOS: dict[str, Scenario] = {
    "job-running": Scenario(make_job(), in_phase("Running")),
    "job-succeeded": Scenario(make_job(make_container("echo done")), in_phase("Succeeded")),
    "job-exit-code": Scenario(make_job(make_container("echo bad input >&2; exit 3")), in_phase("Failed")),
    "job-launcher-line": Scenario(
        make_job(make_container(f"echo '{LAUNCHER_LINE}' > /dev/termination-log; exit 1")), in_phase("Failed")
    ),
    "job-killed": Scenario(make_job(make_container("sleep 60 & kill -9 $!; wait $!; exit $?")), in_phase("Failed")),
    "job-out-of-memory": Scenario(
        make_job(make_container(image=PYTHON, command=["python3", "-c", FILL_MEMORY], resources=_ask(memory="48Mi"))),
        in_phase("Failed"),
    ),
    "job-retry": Scenario(
        make_job(make_container("exit 3"), backoffLimit=3), both(in_phase("Failed"), lambda seen: len(seen.pods) == 1)
    ),
    "job-retries-used-up": Scenario(make_job(make_container("exit 3"), backoffLimit=1), has_condition("Failed")),
    "job-deadline": Scenario(make_job(activeDeadlineSeconds=3), has_condition("Failed")),
    "job-ended-in-place": Scenario(make_job(), in_phase("Failed"), act="end"),
    "job-evicted": Scenario(make_job(), in_phase("Failed"), act="evict"),
    "job-pod-deleted": Scenario(make_job(), has_condition("Failed"), act="delete"),
    "job-preempted": Scenario(
        make_job(make_container(resources=_ask(gpu="3", cpu="10m", memory="16Mi"))), in_phase("Failed"), act="preempt"
    ),
    "job-suspended": Scenario(make_job(suspend=True), has_condition("Suspended")),
    "job-init": Scenario(
        make_job(pod={"initContainers": [make_container("sleep 600") | {"name": "setup"}]}),
        lambda seen: any(
            status.get("state", {}).get("running")
            for pod in seen.pods
            for status in pod["status"].get("initContainerStatuses", [])
        ),
    ),
    "job-init-failed": Scenario(
        make_job(pod={"initContainers": [make_container("echo no space >&2; exit 7") | {"name": "setup"}]}),
        in_phase("Failed"),
    ),
    "image-missing": Scenario(
        make_job(make_container(image=f"localhost:{REGISTRY_PORT}/team/train:1")), waits("ErrImagePull")
    ),
    "image-back-off": Scenario(
        make_job(make_container(image=f"localhost:{REGISTRY_PORT}/team/train:1")), waits("ImagePullBackOff")
    ),
    "image-refused": Scenario(
        make_job(make_container(image=f"localhost:{REGISTRY_PORT}/private/train:1")), waits("ErrImagePull")
    ),
    "image-unreachable": Scenario(
        make_job(make_container(image="registry.invalid/team/train:1")), waits("ErrImagePull")
    ),
    "image-never-pulled": Scenario(
        make_job(make_container(image="localhost/nowhere:1", imagePullPolicy="Never")), waits("ErrImageNeverPull")
    ),
    "image-invalid": Scenario(make_job(make_container(image="Team/Train:latest!")), waits("InvalidImageName")),
    "image-root": Scenario(
        make_job(pod={"securityContext": {"runAsNonRoot": True}}), waits("CreateContainerConfigError")
    ),
    "unschedulable-cpu": Scenario(make_job(make_container(resources=_ask(cpu="100"))), is_unschedulable),
    "unschedulable-memory": Scenario(make_job(make_container(resources=_ask(memory="9Ti", gpu="8"))), is_unschedulable),
    "unschedulable-selector": Scenario(make_job(pod={"nodeSelector": {"disk": "fast"}}), is_unschedulable),
    "unschedulable-gated": Scenario(
        make_job(pod={"schedulingGates": [{"name": "example.com/gate"}]}),
        lambda seen: any(
            condition.get("reason") == "SchedulingGated"
            for pod in seen.pods
            for condition in pod["status"].get("conditions", [])
        ),
    ),
    "claim-class-missing": Scenario(
        make_job(_with_mount(), pod=_mount({"persistentVolumeClaim": {"claimName": "data"}})),
        both(is_unschedulable, warned("ProvisioningFailed")),
        others=(make_claim("fast-ssd"),),
    ),
    "claim-missing": Scenario(
        make_job(_with_mount(), pod=_mount({"persistentVolumeClaim": {"claimName": "data"}})), is_unschedulable
    ),
    "runtime-class-missing": Scenario(make_job(pod={"runtimeClassName": "gvisor"}), warned("FailedCreate")),
    "runtime-handler-missing": Scenario(make_job(pod={"runtimeClassName": "ghost"}), warned("FailedCreatePodSandBox")),
    "priority-class-missing": Scenario(make_job(pod={"priorityClassName": "urgent"}), warned("FailedCreate")),
    "service-account-missing": Scenario(make_job(pod={"serviceAccountName": "nobody"}), warned("FailedCreate")),
    "pod-security-refused": Scenario(
        make_job(),
        warned("FailedCreate", words="violates PodSecurity"),
        labels={"pod-security.kubernetes.io/enforce": "restricted"},
    ),
    "limit-range-refused": Scenario(
        make_job(make_container(resources=_ask(cpu="2"))), warned("FailedCreate"), others=(LIMIT_RANGE,)
    ),
    "quota-job": Scenario(
        make_job(make_container(resources=_ask(cpu="2"))), warned("FailedCreate", words="quota"), others=(QUOTA,)
    ),
    "quota-service": Scenario(
        make_deployment(make_container(resources=_ask(cpu="2"))), has_condition("ReplicaFailure"), others=(QUOTA,)
    ),
    "runtime-class-missing-service": Scenario(
        make_deployment(pod={"runtimeClassName": "gvisor"}), has_condition("ReplicaFailure")
    ),
    "start-not-found": Scenario(make_job(make_container(command=["/app/train"])), in_phase("Failed")),
    "start-permission": Scenario(make_job(make_container(command=["/etc/passwd"])), in_phase("Failed")),
    "secret-missing": Scenario(
        make_job(
            make_container(
                env=[{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "no-such-secret", "key": "token"}}}]
            )
        ),
        waits("CreateContainerConfigError"),
    ),
    "config-map-missing": Scenario(
        make_job(make_container(envFrom=[{"configMapRef": {"name": "no-such-map"}}])),
        waits("CreateContainerConfigError"),
    ),
    "mount-failed": Scenario(
        make_job(_with_mount(), pod=_mount({"secret": {"secretName": "no-such-secret"}})), warned("FailedMount")
    ),
    "disk-exceeded": Scenario(
        make_job(
            _with_mount() | {"command": ["sh", "-c", "dd if=/dev/zero of=/data/big bs=1M count=20; sleep 3600"]},
            pod=_mount({"emptyDir": {"sizeLimit": "1Mi"}}),
        ),
        in_phase("Failed"),
    ),
    "service-ready": Scenario(make_deployment(make_container(**LISTENS, **UNREADY)), is_ready, others=(NODE_PORT,)),
    "service-unready": Scenario(make_deployment(make_container(**UNREADY)), warned("Unhealthy")),
    "service-crash-loop": Scenario(
        make_deployment(make_container("echo cannot open model.bin >&2; exit 4")), waits("CrashLoopBackOff")
    ),
    "service-out-of-memory": Scenario(
        make_deployment(
            make_container(image=PYTHON, command=["python3", "-c", FILL_MEMORY], resources=_ask(memory="48Mi"))
        ),
        waits("CrashLoopBackOff"),
    ),
    "service-start-not-found": Scenario(
        make_deployment(make_container(command=["/app/serve"])), waits("CrashLoopBackOff")
    ),
    "service-start-error": Scenario(
        make_deployment(make_container(command=["/app/serve"])), waits("RunContainerError")
    ),
}
