"""Planted bypasses: forms that we never send, each of which would be a way round."""

import math
from collections.abc import Callable

from tests.unit.domain.legal_objects import OWNER
from tests.unit.domain.planted_bypasses import (
    CONTAINER,
    CONTEXT,
    Objects,
    append_to,
    drop_from,
    main,
    mount,
    pod,
    set_at,
    set_in,
)


class OtherText(str):
    """A subclass of text, which could answer differently on each read."""

    __slots__ = ()


FORMS: dict[str, Callable[[Objects], None]] = {
    "a Pod": lambda objects: objects.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}}),
    "a DaemonSet": set_in("Job", "kind", value="DaemonSet"),
    "a CronJob": set_in("Job", "kind", value="CronJob"),
    "a RoleBinding": lambda objects: objects.append(
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding"}
    ),
    "a List of objects": lambda objects: objects.append({"apiVersion": "v1", "kind": "List", "items": []}),
    "another apiVersion": set_in("Job", "apiVersion", value="batch/v1beta1"),
    "a status": set_in("Job", "status", value={"succeeded": 1}),
    "finalizers": set_in("Job", "metadata", "finalizers", value=["x/y"]),
    "a generated name": set_in("Job", "metadata", "generateName", value="x-"),
    "managed fields": set_in("Job", "metadata", "managedFields", value=[]),
    "a deletion time": set_in("Job", "metadata", "deletionTimestamp", value="2024-01-01T00:00:00Z"),
    "an init container": set_at("initContainers", value=[{"name": "i", "image": "x"}]),
    "an ephemeral container": set_at("ephemeralContainers", value=[{"name": "e", "image": "x"}]),
    "a second container": append_to("containers", value={"name": "side", "image": "x"}),
    "no container": set_at("containers", value=[]),
    "a pod failure policy": set_in("Job", "spec", "podFailurePolicy", value={"rules": [{"action": "Ignore", "x": 1}]}),
    "a success policy": set_in("Job", "spec", "successPolicy", value={"rules": []}),
    "a managed job": set_in("Job", "spec", "managedBy", value="evil.example/controller"),
    "manual selectors": set_in("Job", "spec", "manualSelector", value=True),
    "a Job's selector": set_in("Job", "spec", "selector", value={"matchLabels": {"a": "b"}}),
    "more pods": set_in("Job", "spec", "parallelism", value=100),
    "more completions": set_in("Job", "spec", "completions", value=100),
    "indexed jobs": set_in("Job", "spec", "completionMode", value="Indexed"),
    "restarts in place": set_at("restartPolicy", value="OnFailure"),
    "the host's network": set_at("hostNetwork", value=True),
    "the host's network, in other letters": set_at("hostnetwork", value=True),
    "the host's network, in look-alikes": set_at("hоstNetwork", value=True),
    "the host's processes": set_at("hostPID", value=True),
    "the host's IPC": set_at("hostIPC", value=True),
    "the host's users": set_at("hostUsers", value=True),
    "a node by name": set_at("nodeName", value="control-plane"),
    "shared processes": set_at("shareProcessNamespace", value=True),
    "a token": set_at("automountServiceAccountToken", value=True),
    "a token by default": lambda objects: pod(objects).pop("automountServiceAccountToken"),
    "service links": set_at("enableServiceLinks", value=True),
    "a number for false": set_at("enableServiceLinks", value=0),
    "a priority": set_at("priority", value=2_000_000_000),
    "preemption": set_at("preemptionPolicy", value="PreemptLowerPriority"),
    "overhead": set_at("overhead", value={"cpu": "1"}),
    "pod resources": set_at("resources", value={"limits": {"cpu": "100"}}),
    "resource claims": set_at("resourceClaims", value=[{"name": "gpu"}]),
    "claims of the container": set_at(*CONTAINER, "resources", "claims", value=[{"name": "gpu"}]),
    "a host name": set_at("hostname", value="x"),
    "a DNS policy": set_at("dnsPolicy", value="Default"),
    "DNS servers": set_at("dnsConfig", value={"nameservers": ["6.6.6.6"]}),
    "scheduling gates": set_at("schedulingGates", value=[{"name": "x/y"}]),
    "windows": set_at("os", value={"name": "windows"}),
    "the old account field": set_at("serviceAccount", value="admin"),
    "root": set_at("securityContext", "runAsUser", value=0),
    "root's group": set_at("securityContext", "runAsGroup", value=0),
    "root's volumes": set_at("securityContext", "fsGroup", value=0),
    "true as a user": set_at("securityContext", "runAsUser", value=True),
    "text as a user": set_at("securityContext", "runAsUser", value="1000"),
    "a negative user": set_at("securityContext", "runAsUser", value=-1),
    "groups beside": set_at("securityContext", "supplementalGroups", value=[0]),
    "perhaps root": set_at("securityContext", "runAsNonRoot", value=False),
    "perhaps root by default": lambda objects: pod(objects)["securityContext"].pop("runAsNonRoot"),
    "no pod context": lambda objects: pod(objects).pop("securityContext"),
    "sysctls": set_at("securityContext", "sysctls", value=[{"name": "kernel.shm_rmid_forced", "value": "1"}]),
    "an unconfined pod": set_at("securityContext", "seccompProfile", value={"type": "Unconfined"}),
    "a local seccomp profile": set_at("securityContext", "seccompProfile", "localhostProfile", value="x"),
    "SELinux": set_at("securityContext", "seLinuxOptions", value={"type": "spc_t"}),
    "a container that is root": set_at(*CONTEXT, "runAsUser", value=0),
    "a container that may be root": set_at(*CONTEXT, "runAsNonRoot", value=False),
    "a container as another user": set_at(*CONTEXT, "runAsUser", value=5),
    "a privileged container": set_at(*CONTEXT, "privileged", value=True),
    "escalation": set_at(*CONTEXT, "allowPrivilegeEscalation", value=True),
    "an unconfined container": set_at(*CONTEXT, "seccompProfile", value={"type": "Unconfined"}),
    "an added capability": set_at(*CONTEXT, "capabilities", "add", value=["SYS_ADMIN"]),
    "another /proc": set_at(*CONTEXT, "procMount", value="Unmasked"),
    "no container context": lambda objects: main(objects).pop("securityContext"),
    "a host port": set_at(*CONTAINER, "ports", value=[{"containerPort": 80, "hostPort": 80}]),
    "a device": set_at(*CONTAINER, "volumeDevices", value=[{"name": "data", "devicePath": "/dev/x"}]),
    "a hook": set_at(*CONTAINER, "lifecycle", value={"postStart": {"exec": {"command": ["x"]}}}),
    "a probe of another host": set_at(
        *CONTAINER, "readinessProbe", value={"httpGet": {"host": "10.0.0.1", "path": "/", "port": 1}}
    ),
    "a command as probe": set_at(*CONTAINER, "livenessProbe", value={"exec": {"command": ["x"]}}),
    "a terminal": set_at(*CONTAINER, "stdin", value=True),
    "a message path": set_at(*CONTAINER, "terminationMessagePath", value="/etc/passwd"),
    "a whole secret as environment": set_at(
        *CONTAINER, "envFrom", value=[{"secretRef": {"name": "run-r1-bb82030dbc2bcab-secrets"}}]
    ),
    "a field as variable": append_to(
        *CONTAINER, "env", value={"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    ),
    "a resource as variable": append_to(
        *CONTAINER, "env", value={"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}
    ),
    "a config map as variable": append_to(
        *CONTAINER, "env", value={"name": "X", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}
    ),
    "an optional secret": append_to(
        *CONTAINER,
        "env",
        value={
            "name": "X",
            "valueFrom": {"secretKeyRef": {"name": "run-r1-bb82030dbc2bcab-secrets", "key": "X", "optional": True}},
        },
    ),
    "a value and a reference": append_to(
        *CONTAINER,
        "env",
        value={
            "name": "X",
            "value": "",
            "valueFrom": {"secretKeyRef": {"name": "run-r1-bb82030dbc2bcab-secrets", "key": "KAGGLE"}},
        },
    ),
    "a variable without a value": append_to(*CONTAINER, "env", value={"name": "X"}),
    "a host path": lambda objects: mount(objects, "/host", host={"hostPath": {"path": "/"}}),
    "a projected token": lambda objects: mount(
        objects, "/tokens", token={"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    ),
    "the downward API": lambda objects: mount(objects, "/down", down={"downwardAPI": {"items": []}}),
    "a CSI volume": lambda objects: mount(objects, "/csi", csi={"csi": {"driver": "secrets-store.csi.k8s.io"}}),
    "NFS": lambda objects: mount(objects, "/nfs", nfs={"nfs": {"server": "x", "path": "/"}}),
    "a volume of two kinds": lambda objects: mount(
        objects, "/two", two={"emptyDir": {}, "persistentVolumeClaim": {"claimName": "run-r1-bb82030dbc2bcab.data"}}
    ),
    "a volume of no kind": lambda objects: mount(objects, "/none", none={}),
    "an image volume pulled anew": set_at("volumes", 6, "image", "pullPolicy", value="Always"),
    "parts of a config map": set_at("volumes", 5, "configMap", "items", value=[{"key": "a", "path": "../b"}]),
    "executable secrets": set_at("volumes", 7, "secret", "defaultMode", value=0o777),
    "huge pages": set_at("volumes", 4, "emptyDir", "medium", value="HugePages"),
    "a shared claim": set_in("PersistentVolumeClaim", "spec", "accessModes", value=["ReadWriteMany"]),
    "a block device": set_in("PersistentVolumeClaim", "spec", "volumeMode", value="Block"),
    "a volume by name": set_in("PersistentVolumeClaim", "spec", "volumeName", value="pv-of-another"),
    "a volume by selector": set_in("PersistentVolumeClaim", "spec", "selector", value={"matchLabels": {"a": "b"}}),
    "a copy of another claim": set_in(
        "PersistentVolumeClaim", "spec", "dataSource", value={"kind": "PersistentVolumeClaim", "name": "other"}
    ),
    "a copy from another namespace": set_in(
        "PersistentVolumeClaim", "spec", "dataSourceRef", value={"kind": "X", "name": "y", "namespace": "other"}
    ),
    "a claim's limits": set_in("PersistentVolumeClaim", "spec", "resources", "limits", value={"storage": "1Ti"}),
    "a copy within the pod": set_at(
        "volumes", 2, "ephemeral", "volumeClaimTemplate", "spec", "dataSource", value={"kind": "X", "name": "y"}
    ),
    "a claim without a size": drop_from("PersistentVolumeClaim", "spec", "resources"),
    "a service-account token as Secret": set_in("Secret", "type", value="kubernetes.io/service-account-token"),
    "a Secret in clear": set_in("Secret", "stringData", value={"A": "b"}),
    "an unreadable amount": set_at(*CONTAINER, "resources", "limits", "memory", value="8GB"),
    "a negative amount": set_at(*CONTAINER, "resources", "limits", "memory", value="-8Gi"),
    "an endless amount": set_at(*CONTAINER, "resources", "limits", "memory", value="1e30"),
    "a number as amount": set_at(*CONTAINER, "resources", "limits", "memory", value=8),
    "a strange effect": set_at("tolerations", 0, "effect", value="NoEffect"),
    "an unknown key of a toleration": set_at("tolerations", 0, "keys", value=["*"]),
    "an unknown key of an affinity": set_at("affinity", "clusterAffinity", value={}),
    "an unknown key of a term": set_at(
        "affinity",
        "podAntiAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        value=[{"topologyKey": "x", "y": 1}],
    ),
    "an owner of another kind": set_in(
        "Secret", "metadata", "ownerReferences", value=[{**OWNER, "apiVersion": "v1", "kind": "Namespace"}]
    ),
    "an owner that controls": set_in("Secret", "metadata", "ownerReferences", value=[{**OWNER, "controller": True}]),
    "an owner that is held": set_in(
        "Secret", "metadata", "ownerReferences", value=[{**OWNER, "blockOwnerDeletion": True}]
    ),
    "two owners": set_in("Secret", "metadata", "ownerReferences", value=[OWNER, OWNER]),
    "an owner of the Job": set_in("Job", "metadata", "ownerReferences", value=[OWNER]),
    "a null": set_at("hostNetwork", value=None),
    "a null where text stands": set_at(*CONTAINER, "image", value=None),
    "a fraction": set_in("Job", "spec", "backoffLimit", value=1.0),
    "not a number": set_in("Job", "spec", "backoffLimit", value=math.nan),
    "infinity": set_in("Job", "spec", "activeDeadlineSeconds", value=math.inf),
    "true as a number": set_in("Job", "spec", "backoffLimit", value=True),
    "a number of 65 bits": set_in("Job", "spec", "activeDeadlineSeconds", value=2**64),
    "bytes": set_at(*CONTAINER, "image", value=b"x"),
    "text of another class": set_at(*CONTAINER, "args", value=[OtherText("x")]),
    "half a character": set_at(*CONTAINER, "args", value=["\ud800"]),
    "a number as key": set_at("nodeSelector", 5, value="x"),
    "a set": set_at(*CONTAINER, "args", value={"a"}),
    "a tuple": set_at(*CONTAINER, "args", value=("a",)),
    "a list for a mapping": set_at("nodeSelector", value=[]),
    "a mapping for a list": set_at("tolerations", value={}),
    "a text for a mapping": set_in("Job", "spec", value="all"),
    "a mapping for a text": set_at(*CONTAINER, "image", value={"a": "b"}),
    "an unknown kind of kind": set_in("Job", "kind", value=["Job"]),
    "no metadata": drop_from("Job", "metadata"),
    "no name": drop_from("Job", "metadata", "name"),
    "a name that is a path": set_in("Job", "metadata", "name", value="../../namespaces/kube-system"),
}
