"""Bypasses to plant: changes to rendered objects that the judge and admission must both catch."""

import base64
import copy
from collections.abc import Callable, Mapping
from typing import Any

from tests.adversary.victim import Victim

Change = Callable[[Victim], None]


def _set(where: str, key: str, value: Any) -> Change:
    def change(victim: Victim) -> None:
        part = getattr(victim, where)
        part[key] = value

    return change


def _drop(where: str, key: str) -> Change:
    return lambda victim: getattr(victim, where).pop(key)


def _add(where: str, key: str, value: Any) -> Change:
    return lambda victim: getattr(victim, where).setdefault(key, []).append(value)


def _context(where: str, key: str, value: Any) -> Change:
    return lambda victim: getattr(victim, where)["securityContext"].update({key: value})


_POD_SECURITY: Mapping[str, Change] = {
    "host network": _set("pod", "hostNetwork", True),
    "host pids": _set("pod", "hostPID", True),
    "shared process namespace": _set("pod", "shareProcessNamespace", True),
    "root": _context("pod", "runAsUser", 0),
    "root group": _context("pod", "runAsGroup", 0),
    "root in the container": _context("container", "runAsUser", 0),
    "may be root": _context("pod", "runAsNonRoot", False),
    "privileged": _context("container", "privileged", True),
    "privilege escalation": _context("container", "allowPrivilegeEscalation", True),
    "capabilities kept": lambda victim: victim.container["securityContext"].pop("capabilities"),
    "capabilities added": _context("container", "capabilities", {"drop": ["ALL"], "add": ["SYS_ADMIN"]}),
    "seccomp off": _context("pod", "seccompProfile", {"type": "Unconfined"}),
    "supplemental groups": _context("pod", "supplementalGroups", [0]),
    "sysctls": _context("pod", "sysctls", [{"name": "kernel.shm_rmid_forced", "value": "0"}]),
    "node path": lambda victim: victim.add_volume({"hostPath": {"path": "/"}}),
    "host port": lambda victim: victim.container.update(ports=[{"containerPort": 80, "hostPort": 80}]),
    "token mounted": _set("pod", "automountServiceAccountToken", True),
    "token projected": lambda victim: victim.add_volume(
        {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}
    ),
    "second container": _add("pod", "containers", {"name": "other", "image": "ghcr.io/acme/train:2"}),
    "init container": _add("pod", "initContainers", {"name": "other", "image": "ghcr.io/acme/train:2"}),
    "chosen node": _set("pod", "nodeName", "control-1"),
    "mount over etc": lambda victim: victim.container["volumeMounts"][0].update(mountPath="/etc"),
    "mount by dots": lambda victim: victim.container["volumeMounts"][0].update(mountPath="/data/../etc"),
    "sub path by dots": lambda victim: victim.container["volumeMounts"][0].update(subPath="../.."),
}
_REFERENCES: Mapping[str, Change] = {
    "service account changed": _set("pod", "serviceAccountName", "admin"),
    "pull secret changed": _set("pod", "imagePullSecrets", [{"name": "speech"}]),
    "gpu of another name": lambda victim: victim.set_gpus("1", name="amd.com/gpu"),
    "volume of another claim": lambda victim: victim.find_volume("models").update(
        persistentVolumeClaim={"claimName": "legacy"}
    ),
    "host alias": _set("pod", "hostAliases", [{"ip": "10.0.0.1", "hostnames": ["registry"]}]),
    "scheduler changed": _set("pod", "schedulerName", "default-scheduler"),
    "another's claim": lambda victim: victim.find_volume("data").update(
        persistentVolumeClaim={"claimName": "speech-claim"}
    ),
    "another's config map": lambda victim: victim.add_volume({"configMap": {"name": "kube-root-ca.crt"}}),
    "variable of another Secret": lambda victim: victim.find_env("TOKEN")["valueFrom"]["secretKeyRef"].update(
        name="speech"
    ),
    "all of a Secret": _set("container", "envFrom", [{"secretRef": {"name": "speech"}}]),
    "Secret as a volume": lambda victim: victim.add_volume({"secret": {"secretName": "speech"}}),
    "another namespace": lambda victim: victim.workload["metadata"].update(namespace="kube-system"),
    "claim in another namespace": lambda victim: victim.of("PersistentVolumeClaim")["metadata"].update(
        namespace="speech"
    ),
    "another kind": lambda victim: victim.objects.append(
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "x"}}
    ),
    "a second workload": lambda victim: victim.objects.append(copy.deepcopy(victim.workload)),
    "finalizer": lambda victim: victim.workload["metadata"].update(finalizers=["example.com/stay"]),
}
_FORMS: Mapping[str, Change] = {
    "several at once": lambda victim: victim.workload["spec"].update(parallelism=5),
    "variable twice": _add("container", "env", {"name": "EPOCHS", "value": "4"}),
    "memory that cannot be counted": lambda victim: victim.container["resources"]["limits"].update(memory="1000E"),
    "extended resource": lambda victim: victim.set_gpus("1", name="example.com/nic"),
    "many writers": lambda victim: victim.of("PersistentVolumeClaim")["spec"].update(accessModes=["ReadWriteMany"]),
}
_DENIALS: Mapping[str, Change] = {
    "toleration of everything": _add("pod", "tolerations", {"operator": "Exists"}),
    "toleration of the control plane": _add(
        "pod", "tolerations", {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}
    ),
    "toleration of critical add-ons' nodes": _add("pod", "tolerations", {"key": "CriticalAddonsOnly", "value": "true"}),
    "toleration of RKE's control plane": _add(
        "pod", "tolerations", {"key": "node-role.kubernetes.io/controlplane", "operator": "Exists"}
    ),
    "system priority class": _set("pod", "priorityClassName", "system-node-critical"),
    "platform's variable changed": lambda victim: victim.find_env("RUN_ID").update(value="other"),
    "platform's variable added": _add("container", "env", {"name": "DHCORE_ENDPOINT", "value": "http://evil"}),
    "unnamed existing claim": lambda victim: victim.add_volume({"persistentVolumeClaim": {"claimName": "legacy"}}),
    "namespaces by affinity": _set(
        "pod",
        "affinity",
        {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "zone", "namespaces": ["kube-system"]}
                ]
            }
        },
    ),
}
PROFILE_BYPASSES: Mapping[str, Change] = {
    "limit below request": lambda victim: victim.container["resources"]["limits"].update(memory="1Gi"),
    "retries changed": lambda victim: victim.workload["spec"].update(backoffLimit=3),
    "node selector gone": _drop("pod", "nodeSelector"),
    "node selector changed": lambda victim: victim.pod["nodeSelector"].update(pool="cpu"),
    "toleration gone": _drop("pod", "tolerations"),
    "runtime class gone": _drop("pod", "runtimeClassName"),
    "runtime class changed": _set("pod", "runtimeClassName", "runc"),
    "user changed": _context("pod", "runAsUser", 1001),
    "group of volumes changed": _context("pod", "fsGroup", 1),
    "variable changed": lambda victim: victim.find_env("HF_HOME").update(value="/tmp"),
    "working directory set": _set("container", "workingDir", "/etc"),
    "cpu raised": lambda victim: victim.container["resources"]["requests"].update(cpu="9"),
    "cpu limit gone": lambda victim: victim.container["resources"]["limits"].pop("cpu"),
    "gpus beside the profile's": lambda victim: victim.set_gpus("2"),
    "volume moved": lambda victim: next(
        mount for mount in victim.container["volumeMounts"] if mount["name"] == "models"
    ).update(mountPath="/elsewhere"),
    "shared memory grown": lambda victim: victim.find_volume("shm")["emptyDir"].update(sizeLimit="2Gi"),
    "label gone": lambda victim: victim.template["metadata"]["labels"].pop("team"),
}
_POLICY: Mapping[str, Change] = {
    "denied secret": lambda victim: _use_secret(victim, "db-password"),
    "gpus above max": lambda victim: victim.set_gpus("3"),
    "memory above max": lambda victim: victim.container["resources"]["limits"].update(memory="65Gi"),
    "disk above max": lambda victim: victim.find_volume("runyard-scratch")["ephemeral"]["volumeClaimTemplate"]["spec"][
        "resources"
    ]["requests"].update(storage="21Gi"),
    "claim above max": lambda victim: victim.of("PersistentVolumeClaim")["spec"]["resources"]["requests"].update(
        storage="11Gi"
    ),
    "claim of another class": lambda victim: victim.of("PersistentVolumeClaim")["spec"].update(storageClassName="gold"),
    "denied volume type": lambda victim: victim.add_volume(
        {"image": {"reference": "ghcr.io/acme/x:1", "pullPolicy": "IfNotPresent"}}
    ),
    "denied toleration": _add("pod", "tolerations", {"key": "spot", "operator": "Exists"}),
    "denied node label": lambda victim: victim.pod["nodeSelector"].update({"kubernetes.io/hostname": "node-1"}),
    "denied node label by affinity": _set(
        "pod",
        "affinity",
        {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]}
                    ]
                }
            }
        },
    ),
    "image not allowed": _set("container", "image", "ghcr.io/acme-evil/x:1"),
    "image of a look-alike registry": _set("container", "image", "ghcr.io:8443/acme/train:2"),
    "pull policy unlocked": _set("container", "imagePullPolicy", "Never"),
    "grace period unlocked": _set("pod", "terminationGracePeriodSeconds", 3600),
    "denied variable from a secret": lambda victim: _use_secret(victim, "LD_PRELOAD"),
    "secret under another variable's name": lambda victim: victim.find_env("TOKEN").update(name="EVIL"),
    "denied variable": _add("container", "env", {"name": "LD_PRELOAD", "value": "/data/x.so"}),
}
_OF_JOBS: Mapping[str, Change] = {
    "deadline above max": lambda victim: victim.workload["spec"].update(activeDeadlineSeconds=86401),
}
_OF_SERVICES: Mapping[str, Change] = {
    "load balancer": lambda victim: victim.of("Service")["spec"].update(type="LoadBalancer"),
    "external name": lambda victim: victim.of("Service")["spec"].update(type="ExternalName"),
    "external addresses": lambda victim: victim.of("Service")["spec"].update(externalIPs=["10.0.0.1"]),
    "another run's pods": lambda victim: victim.of("Service")["spec"]["selector"].update(
        {"runyard.io/run-uid": "other"}
    ),
    "replicas changed": lambda victim: victim.workload["spec"].update(replicas=1),
    "node port chosen": lambda victim: victim.of("Service")["spec"]["ports"][0].update(nodePort=30080),
    "no Pod Security": lambda victim: victim.container.pop("securityContext"),
}

_OF_ANCHORS: Mapping[str, Change] = {
    "not suspended": lambda victim: victim.workload["spec"].update(suspend=False),
    "no word on suspension": lambda victim: victim.workload["spec"].pop("suspend"),
    "a plain token": lambda victim: victim.container["env"].append({"name": "A", "value": "the-run's-own-token"}),
    "no token in the Secret": lambda victim: victim.of("Secret")["data"].pop("RUNYARD_TOKEN"),
    "another server": lambda victim: victim.container["env"].append(
        {"name": "DHCORE_PROXY", "value": "https://evil.example"}
    ),
    "no wish": lambda victim: victim.workload["metadata"]["annotations"].pop("runyard.io/wish"),
    "the wish to run": lambda victim: victim.workload["metadata"]["annotations"].update({"runyard.io/wish": "run"}),
    "no generation": lambda victim: victim.workload["metadata"]["annotations"].pop("runyard.io/generation"),
    "an odd generation": lambda victim: victim.workload["metadata"]["annotations"].update(
        {"runyard.io/generation": "-1"}
    ),
    "a deadline without timeout": lambda victim: victim.workload["spec"].update(activeDeadlineSeconds=60),
    "a timeout without deadline": lambda victim: victim.workload["metadata"]["annotations"].update(
        {"runyard.io/timeout": "60"}
    ),
    "a TTL": lambda victim: victim.workload["spec"].update(ttlSecondsAfterFinished=60),
    "another run's anchor": lambda victim: victim.of("Secret")["metadata"]["ownerReferences"][0].update(name="run-r9"),
    "a blocking owner": lambda victim: victim.of("Secret")["metadata"]["ownerReferences"][0].update(
        blockOwnerDeletion=True
    ),
    "two owners": lambda victim: victim.of("Secret")["metadata"]["ownerReferences"].append(
        {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1"}
    ),
    "an owned anchor": lambda victim: victim.workload["metadata"].update(
        ownerReferences=victim.of("Secret")["metadata"]["ownerReferences"]
    ),
}
_OF_SERVED_ANCHORS: Mapping[str, Change] = {
    "replicas": lambda victim: victim.workload["spec"].update(replicas=1),
    "more replicas at the release": lambda victim: victim.workload["metadata"]["annotations"].update(
        {"runyard.io/replicas": "1000"}
    ),
    "no word on replicas": lambda victim: victim.workload["metadata"]["annotations"].pop("runyard.io/replicas"),
}

JOB_BYPASSES: Mapping[str, Change] = {**_POD_SECURITY, **_REFERENCES, **_FORMS, **_DENIALS}
"""Bypasses of a job that break no rule of a policy: they must be caught with a policy and without."""
SERVICE_BYPASSES: Mapping[str, Change] = _OF_SERVICES
"""The same for a service."""
ANCHOR_BYPASSES: Mapping[str, Change] = {**JOB_BYPASSES, **_OF_ANCHORS}
SERVED_ANCHOR_BYPASSES: Mapping[str, Change] = _OF_SERVED_ANCHORS
POLICY_BYPASSES: Mapping[str, Change] = {**_POLICY, **_OF_JOBS}
"""Bypasses of the rules in the victim's world."""
SERVICE_POLICY_BYPASSES: Mapping[str, Change] = {
    "replicas above max": lambda victim: victim.workload["spec"].update(replicas=4),
}
POD_SECURITY_BYPASSES = _POD_SECURITY

SPEC_BYPASSES: Mapping[str, Mapping[str, Any]] = {
    "gpus raised": {"gpu": 3},
    "tolerations added": {"tolerations": ({"operator": "Exists"},)},
    "another image": {"image": "docker.io/evil/x:1"},
    "another user": {"run_as_user": 999},
    "baseline": {"pod_security": "baseline"},
    "another priority": {"priority_class": "high"},
    "a longer grace period": {"grace_period_seconds": 31},
    "no pull policy": {"image_pull_policy": None},
}
"""Fields of the effective spec that a faulty resolver would set against the policy."""
PROFILE_SPEC_BYPASSES: Mapping[str, Mapping[str, Any]] = {
    "node selector dropped": {"node_selector": {}},
    "no runtime class": {"runtime_class": None},
    "no scheduler": {"scheduler_name": None},
    "envs replaced": {"envs": {"HF_HOME": "/tmp", "EPOCHS": "3"}},
    "secrets dropped": {"secrets": ()},
    "volumes dropped": {"volumes": ()},
    "tolerations dropped": {"tolerations": ()},
    "labels dropped": {"labels": {}},
    "gpus dropped": {"gpu": None},
}
"""The same, against the profile."""


def _use_secret(victim: Victim, name: str) -> None:
    secret = victim.of("Secret")
    secret["data"][name] = base64.b64encode(b"hidden").decode()
    reference = {"secretKeyRef": {"name": secret["metadata"]["name"], "key": name}}
    victim.container["env"].append({"name": name, "valueFrom": reference})
