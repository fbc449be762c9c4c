"""Planted bypasses: objects of legal form that reach for what is not the run's own."""

import copy
from collections.abc import Callable
from typing import Any

from tests.unit.domain.legal_objects import CLAIM, OWNER, make_service
from tests.unit.domain.planted_bypasses import (
    CONTAINER,
    CONTEXT,
    TEMPLATE,
    Objects,
    append_to,
    drop_from,
    find,
    label_all,
    main,
    mount,
    own_all,
    pod,
    rename,
    set_at,
    set_in,
)

MARKS: dict[str, Callable[[Objects], None]] = {
    "another namespace": set_in("Secret", "metadata", "namespace", value="kube-system"),
    "no namespace for one of them": drop_from("Secret", "metadata", "namespace"),
    "another project": set_in("Job", "metadata", "labels", "runyard.io/project", value="other"),
    "another project to DigitalHub": set_in("Job", "metadata", "labels", "dhcore/project", value="other"),
    "another project as the application": set_in(
        "Job", "metadata", "labels", "app.kubernetes.io/part-of", value="other"
    ),
    "no project": drop_from("Job", "metadata", "labels", "runyard.io/project"),
    "another project in the template": set_in(
        "Job", *TEMPLATE, "metadata", "labels", "runyard.io/project", value="other"
    ),
    "another project in a claim of the pod": set_at(
        "volumes", 2, "ephemeral", "volumeClaimTemplate", "metadata", "labels", "runyard.io/project", value="other"
    ),
    "another run": set_in("PersistentVolumeClaim", "metadata", "labels", "runyard.io/run", value="r2"),
    "another run in the template": set_in("Job", *TEMPLATE, "metadata", "labels", "runyard.io/run", value="r2"),
    "another run of that id": set_in("PersistentVolumeClaim", "metadata", "labels", "runyard.io/run-uid", value="u2"),
    "another run of that id in the template": set_in(
        "Job", *TEMPLATE, "metadata", "labels", "runyard.io/run-uid", value="u2"
    ),
    "no uid": drop_from("Job", "metadata", "labels", "runyard.io/run-uid"),
    "another run to DigitalHub": set_in("Job", "metadata", "labels", "dhcore/run", value="r2"),
    "another installation": set_in("Secret", "metadata", "labels", "runyard.io/installation", value="other"),
    "another manager": set_in("Job", "metadata", "labels", "app.kubernetes.io/managed-by", value="Helm"),
    "a label of a queue": set_in("Job", "metadata", "labels", "kueue.x-k8s.io/queue-name", value="vip"),
    "a label in the template": set_in("Job", *TEMPLATE, "metadata", "labels", "app", value="ingress"),
    "an AppArmor annotation": set_in(
        "Job",
        *TEMPLATE,
        "metadata",
        "annotations",
        value={"container.apparmor.security.beta.kubernetes.io/main": "unconfined"},
    ),
    "a seccomp annotation": set_in(
        "Job", *TEMPLATE, "metadata", "annotations", value={"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}
    ),
    "a foreign annotation": set_in("Job", "metadata", "annotations", "example.com/x", value="y"),
    "a mesh's annotation": set_in(
        "Job", *TEMPLATE, "metadata", "annotations", value={"sidecar.istio.io/inject": "true"}
    ),
    "a lifetime on a Job": set_in("Job", "metadata", "annotations", "runyard.io/lifetime", value="keep"),
    "a strange lifetime": set_in(
        "PersistentVolumeClaim", "metadata", "annotations", "runyard.io/lifetime", value="for ever"
    ),
    "a waiting time that is none": set_in("Job", "metadata", "annotations", "runyard.io/pending-timeout", value="1h"),
    "the owner by another name": set_in("Secret", "metadata", "ownerReferences", value=[{**OWNER, "name": "run-r2"}]),
    "the owner by another UID": set_in("Secret", "metadata", "ownerReferences", value=[{**OWNER, "uid": "1"}]),
    "the owner by another version": set_in(
        "Secret", "metadata", "ownerReferences", value=[{**OWNER, "apiVersion": "apps/v1"}]
    ),
    "the owner as Deployment": set_in(
        "Secret", "metadata", "ownerReferences", value=[{**OWNER, "apiVersion": "apps/v1", "kind": "Deployment"}]
    ),
    "a Secret's name that is another's": lambda objects: rename(
        objects, "run-r1-bb82030dbc2bcab-secrets", "proj-secrets-other"
    ),
    "a claim's name that is another run's": lambda objects: rename(
        objects, "run-r1-bb82030dbc2bcab.data", "run-r2.data"
    ),
    "a claim's name like another run's": lambda objects: rename(
        objects, "run-r1-bb82030dbc2bcab.data", "run-r1-bb82030dbc2bcab-b.data"
    ),
    "a claim that exists": lambda objects: rename(objects, "run-r1-bb82030dbc2bcab.data", "datasets"),
    "a config map that exists": lambda objects: rename(objects, "run-r1-bb82030dbc2bcab.config", "settings"),
    "a Job with a Service's name": lambda objects: rename(objects, "run-r1-bb82030dbc2bcab", "svcx-api"),
    "owners of another version": own_all(apiVersion="apps/v1"),
    "owners of another name": own_all(name="run-r2"),
    "owners that are Deployments": own_all(apiVersion="apps/v1", kind="Deployment"),
    "owners that control": own_all(controller=True),
    "owners that are held": own_all(blockOwnerDeletion=True),
    "owners with a strange UID": own_all(uid="../x"),
    "owners of another kind": own_all(apiVersion="v1", kind="Namespace"),
    "a Job's name that is another run's": lambda objects: rename(objects, "run-r1-bb82030dbc2bcab", "run-r2"),
    "another project's name in an annotation": set_in(
        "Job", "metadata", "annotations", "runyard.io/project", value="other"
    ),
    "a foreign annotation like a lifetime": set_in(
        "PersistentVolumeClaim", "metadata", "annotations", "example.com/x", value="keep"
    ),
    "a foreign annotation like a waiting time": set_in("Job", "metadata", "annotations", "example.com/x", value="60"),
    "a waiting time of a Secret": set_in(
        "Secret", "metadata", "annotations", value={"runyard.io/pending-timeout": "60"}
    ),
    "no instance anywhere": label_all("app.kubernetes.io/instance", None),
    "no installation anywhere": label_all("runyard.io/installation", None),
    "a second Job": lambda objects: objects.append(
        {**find(objects, "Job"), "metadata": {**find(objects, "Job")["metadata"], "name": "run-r1-bb82030dbc2bcab-b"}}
    ),
    "the same twice": lambda objects: objects.append(copy.deepcopy(find(objects, "ConfigMap"))),
    "a second Secret": lambda objects: objects.append(
        {**find(objects, "Secret"), "metadata": {**find(objects, "Secret")["metadata"], "name": "proj-secrets-other"}}
    ),
    "a Job with a Service": lambda objects: objects.append(make_service()[-1]),
    "a Deployment beside the Job": lambda objects: objects.append(find(make_service(), "Deployment")),
}


REFERENCES: dict[str, Callable[[Objects], None]] = {
    "another Secret as variable": set_at(
        *CONTAINER, "env", 2, "valueFrom", "secretKeyRef", "name", value="proj-secrets"
    ),
    "a secret under another's name": set_at(*CONTAINER, "env", 2, "name", value="LD_PRELOAD"),
    "a key that is not there": set_at(*CONTAINER, "env", 2, "valueFrom", "secretKeyRef", "key", value="OTHER"),
    "another Secret as files": set_at("volumes", 7, "secret", "secretName", value="default-token"),
    "a whole Secret as files": lambda objects: pod(objects)["volumes"][7]["secret"].pop("items"),
    "a Secret's file elsewhere": set_at("volumes", 7, "secret", "items", value=[{"key": "KAGGLE", "path": "other"}]),
    "a Secret under a user's name": lambda objects: mount(
        objects,
        "/mine",
        mine={
            "secret": {"secretName": "run-r1-bb82030dbc2bcab-secrets", "items": [{"key": "KAGGLE", "path": "KAGGLE"}]}
        },
    ),
    "a Secret under a user's name, for reading": lambda objects: mount(
        objects,
        "/mine",
        is_read_only=True,
        mine={
            "secret": {"secretName": "run-r1-bb82030dbc2bcab-secrets", "items": [{"key": "KAGGLE", "path": "KAGGLE"}]}
        },
    ),
    "a Secret that can be written": set_at(*CONTAINER, "volumeMounts", 7, "readOnly", value=False),
    "a Secret that can be written by default": lambda objects: main(objects)["volumeMounts"][7].pop("readOnly"),
    "a foreign config map": set_at("volumes", 5, "configMap", "name", value="kube-root-ca.crt"),
    "a foreign claim": set_at("volumes", 1, "persistentVolumeClaim", "claimName", value="run-r9.data"),
    "an existing claim without leave": set_at("volumes", 1, "persistentVolumeClaim", "claimName", value="datasets"),
    "a variable twice": append_to(*CONTAINER, "env", value={"name": "EPOCHS", "value": "4"}),
    "the platform's variable twice": append_to(*CONTAINER, "env", value={"name": "RUN_ID", "value": "r1"}),
    "another run's id": set_at(*CONTAINER, "env", 1, "value", value="r2"),
    "another project's name": set_at(*CONTAINER, "env", 0, "value", value="other"),
    "the platform's token": append_to(*CONTAINER, "env", value={"name": "DHCORE_ACCESS_TOKEN", "value": "x"}),
    "the platform's endpoint": append_to(*CONTAINER, "env", value={"name": "RUNYARD_ENDPOINT", "value": "x"}),
    "a secret as the platform's id": set_at(
        *CONTAINER,
        "env",
        1,
        value={
            "name": "RUN_ID",
            "valueFrom": {"secretKeyRef": {"name": "run-r1-bb82030dbc2bcab-secrets", "key": "HF_TOKEN"}},
        },
    ),
    "a volume name twice": append_to("volumes", value={"name": "shm", "emptyDir": {}}),
    "a volume of a platform's name": lambda objects: mount(
        objects, "/x", **dict[str, Any]({"runyard-cache": {"emptyDir": {}}})
    ),
    "scratch space elsewhere": set_at(*CONTAINER, "volumeMounts", 0, "mountPath", value="/scratch"),
    "scratch space in parts": set_at(*CONTAINER, "volumeMounts", 0, "subPath", value="a"),
    "scratch space twice": append_to(*CONTAINER, "volumeMounts", value={"name": "runyard-scratch", "mountPath": "/b"}),
    "scratch space of another medium": set_at(
        "volumes", 0, value={"name": "runyard-scratch", "emptyDir": {"sizeLimit": "1Gi"}}
    ),
    "scratch space that is a claim": set_at(
        "volumes",
        0,
        value={"name": "runyard-scratch", "persistentVolumeClaim": {"claimName": "run-r1-bb82030dbc2bcab.data"}},
    ),
    "scratch space of another class": set_at(
        "volumes", 0, "ephemeral", "volumeClaimTemplate", "spec", "storageClassName", value="gold"
    ),
    "a mount of nothing": append_to(*CONTAINER, "volumeMounts", value={"name": "ghost", "mountPath": "/g"}),
    "a mount over /etc": set_at(*CONTAINER, "volumeMounts", 1, "mountPath", value="/etc"),
    "a mount over the token": set_at(
        *CONTAINER, "volumeMounts", 1, "mountPath", value="/var/run/secrets/kubernetes.io/serviceaccount"
    ),
    "a mount by detour": set_at(*CONTAINER, "volumeMounts", 1, "mountPath", value="/data/../etc"),
    "a mount with double slashes": set_at(*CONTAINER, "volumeMounts", 1, "mountPath", value="//proc"),
    "a relative mount": set_at(*CONTAINER, "volumeMounts", 1, "mountPath", value="data"),
    "two mounts at one path": set_at(*CONTAINER, "volumeMounts", 1, "mountPath", value="/cache"),
    "a sub path out of the volume": set_at(*CONTAINER, "volumeMounts", 1, "subPath", value="../../etc"),
    "a sub path with a backslash": set_at(*CONTAINER, "volumeMounts", 1, "subPath", value="a\\b"),
    "an empty sub path": set_at(*CONTAINER, "volumeMounts", 1, "subPath", value=""),
    "an absolute sub path": set_at(*CONTAINER, "volumeMounts", 1, "subPath", value="/etc"),
    "an image in look-alikes": set_at(*CONTAINER, "image", value="ghcr.io/аcme/train:1"),
    "an image with a space": set_at(*CONTAINER, "image", value="a b"),
    "an image volume in look-alikes": set_at("volumes", 6, "image", "reference", value="ghcr.io/аcme/w:1"),
    "an account": set_at("serviceAccountName", value="admin"),
    "a scheduler": set_at("schedulerName", value="mine"),
    "lines of /etc/hosts": set_at("hostAliases", value=[{"ip": "10.0.0.1", "hostnames": ["github.com"]}]),
    "spread constraints": set_at("topologySpreadConstraints", value=[{"maxSkew": 1}]),
    "a pull secret": set_at("imagePullSecrets", value=[{"name": "others-registry"}]),
    "a resource nobody offers": set_at(*CONTAINER, "resources", "limits", "example.com/nic", value="1"),
    "GPUs of another name": set_at(*CONTAINER, "resources", "limits", "amd.com/gpu", value="8"),
    "ephemeral storage": set_at(*CONTAINER, "resources", "limits", "ephemeral-storage", value="1Ti"),
    "huge pages of memory": set_at(*CONTAINER, "resources", "limits", "hugepages-2Mi", value="1Gi"),
    "half a GPU": set_at(
        *CONTAINER, "resources", value={"requests": {"nvidia.com/gpu": "500m"}, "limits": {"nvidia.com/gpu": "500m"}}
    ),
    "a limit below the request": set_at(*CONTAINER, "resources", "limits", "memory", value="1Gi"),
    **{
        f"a limit of 0 for {name}": set_at(*CONTAINER, "resources", value={"limits": {name: "0"}})
        for name in ("cpu", "memory")
    },
    "GPUs on one side": set_at(*CONTAINER, "resources", "limits", "nvidia.com/gpu", value="2"),
    "no dropped capabilities": set_at(*CONTEXT, "capabilities", value={"drop": []}),
    "only some dropped capabilities": set_at(*CONTEXT, "capabilities", value={"drop": ["NET_RAW"]}),
    "escalation by default": lambda objects: main(objects)["securityContext"].pop("allowPrivilegeEscalation"),
    "a keyless toleration": append_to("tolerations", value={"operator": "Exists"}),
    "a keyless toleration of one effect": append_to("tolerations", value={"operator": "Exists", "effect": "NoExecute"}),
    "the control plane's taint": append_to(
        "tolerations", value={"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}
    ),
    "the old control plane's taint": append_to(
        "tolerations", value={"key": "node-role.kubernetes.io/master", "value": "", "operator": "Equal"}
    ),
    "the taint of etcd": append_to("tolerations", value={"key": "node-role.kubernetes.io/etcd", "operator": "Exists"}),
    "another namespace's pods": set_at(
        "affinity",
        "podAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        value=[{"topologyKey": "zone", "namespaces": ["kube-system"]}],
    ),
    "all namespaces' pods": set_at(
        "affinity",
        "podAntiAffinity",
        "preferredDuringSchedulingIgnoredDuringExecution",
        0,
        "podAffinityTerm",
        "namespaceSelector",
        value={},
    ),
}


SERVICES: dict[str, Callable[[Objects], None]] = {
    "a load balancer": set_in("Service", "spec", "type", value="LoadBalancer"),
    "a name elsewhere": set_in("Service", "spec", "type", value="ExternalName"),
    "an external name": set_in("Service", "spec", "externalName", value="metadata.google.internal"),
    "external addresses": set_in("Service", "spec", "externalIPs", value=["10.0.0.1"]),
    "a fixed address": set_in("Service", "spec", "clusterIP", value="10.96.0.1"),
    "a fixed node port": set_in("Service", "spec", "ports", 0, "nodePort", value=30000),
    "a load balancer's class": set_in("Service", "spec", "loadBalancerClass", value="x/y"),
    "another protocol": set_in("Service", "spec", "ports", 0, "protocol", value="UDP"),
    "a port by name": set_in("Service", "spec", "ports", 0, "targetPort", value="http"),
    "another run's pods": set_in("Service", "spec", "selector", "runyard.io/run-uid", value="u2"),
    "the pods of every run of that id": set_in(
        "Service", "spec", "selector", value={"runyard.io/installation": "local", "runyard.io/run": "r1"}
    ),
    "all pods of the installation": set_in("Service", "spec", "selector", value={"runyard.io/installation": "local"}),
    "the run's pods of every installation": set_in("Service", "spec", "selector", value={"runyard.io/run-uid": "u1"}),
    "a Deployment of every installation's pods": drop_from(
        "Deployment", "spec", "selector", "matchLabels", "runyard.io/installation"
    ),
    "no selector": set_in("Service", "spec", "selector", value={}),
    "another project's Service": set_in("Service", "metadata", "labels", "runyard.io/project", value="other"),
    "a third Service": lambda objects: objects.append(
        {**find(objects, "Service"), "metadata": {**find(objects, "Service")["metadata"], "name": "kubernetes"}}
    ),
    "a third stable name": lambda objects: objects.append(
        {**objects[-1], "metadata": {**objects[-1]["metadata"], "name": "svc-vision--train--b"}}
    ),
    "another project's stable name": set_in("Service", "metadata", "name", value="svc-other--train--api"),
    "the apiserver's Service": set_in("Service", "metadata", "name", value="kubernetes"),
    "a Deployment of another run's pods": set_in(
        "Deployment", "spec", "selector", "matchLabels", "runyard.io/run-uid", value="u2"
    ),
    "a selector by expression": set_in("Deployment", "spec", "selector", "matchExpressions", value=[]),
    "a rollout of its own": set_in("Deployment", "spec", "strategy", "rollingUpdate", value={"maxSurge": 100}),
    "a paused Deployment": set_in("Deployment", "spec", "paused", value=True),
    "a deadline nobody asked for": set_in("Deployment", "spec", "progressDeadlineSeconds", value=5),
    "volume claim templates": set_in("Deployment", "spec", "volumeClaimTemplates", value=[CLAIM]),
    "a restart policy of jobs": set_at("restartPolicy", value="Never"),
    "a probe of two ways": set_at(*CONTAINER, "readinessProbe", "tcpSocket", value={"port": 1}),
}
