"""The keys of every pod that we send, and the shapes of their values."""

from runyard.domain.admission.shapes import (
    Shape,
    amount,
    each,
    flag,
    integer,
    keys,
    named,
    one_of,
    only,
    pairs,
    text,
)
from runyard.spec.names import (
    check_config_key,
    check_dns_label,
    check_dns_subdomain,
    check_env_name,
    check_label_value,
    check_qualified_name,
)

INT32 = 2**31 - 1
SECONDS = integer(0, INT32)
LONG_SECONDS = integer(0, 2**63 - 1)
PORT = integer(1, 65535)
OBJECT_NAME = named(check_dns_subdomain)
LABELS = pairs(check_qualified_name, named(check_label_value))
REQUIRED_LABELS: dict[str, Shape] = {"labels": LABELS}
OPTIONAL_ANNOTATIONS: dict[str, Shape] = {"annotations": pairs(check_qualified_name, text)}
TEMPLATE_METADATA = keys(REQUIRED_LABELS, OPTIONAL_ANNOTATIONS)

_ID = integer(1, INT32)
_WORDS = each(text, most=4096)

_LABEL_KEY = named(check_qualified_name)
_REQUIREMENT = keys(
    {"key": _LABEL_KEY, "operator": only("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")},
    {"values": each(named(check_label_value))},
)
_NODE_TERM = keys({}, {"matchExpressions": each(_REQUIREMENT), "matchFields": each(_REQUIREMENT)})
_SELECTOR = keys({}, {"matchLabels": LABELS, "matchExpressions": each(_REQUIREMENT)})
_POD_TERM = keys(
    {"topologyKey": _LABEL_KEY},
    {
        "labelSelector": _SELECTOR,
        "namespaces": each(named(check_dns_label)),
        "namespaceSelector": _SELECTOR,
        "matchLabelKeys": each(_LABEL_KEY),
        "mismatchLabelKeys": each(_LABEL_KEY),
    },
)
_SPREAD = keys(
    {
        "maxSkew": integer(1, INT32),
        "topologyKey": _LABEL_KEY,
        "whenUnsatisfiable": only("DoNotSchedule", "ScheduleAnyway"),
    },
    {
        "labelSelector": _SELECTOR,
        "minDomains": integer(1, INT32),
        "nodeAffinityPolicy": only("Honor", "Ignore"),
        "nodeTaintsPolicy": only("Honor", "Ignore"),
        "matchLabelKeys": each(_LABEL_KEY),
    },
)
_REQUIRED, _PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
_POD_AFFINITY = keys(
    {},
    {
        _REQUIRED: each(_POD_TERM),
        _PREFERRED: each(keys({"weight": integer(1, 100), "podAffinityTerm": _POD_TERM})),
    },
)
_AFFINITY = keys(
    {},
    {
        "nodeAffinity": keys(
            {},
            {
                _REQUIRED: keys({"nodeSelectorTerms": each(_NODE_TERM)}),
                _PREFERRED: each(keys({"weight": integer(1, 100), "preference": _NODE_TERM})),
            },
        ),
        "podAffinity": _POD_AFFINITY,
        "podAntiAffinity": _POD_AFFINITY,
    },
)
_TOLERATION = keys(
    {},
    {
        "key": _LABEL_KEY,
        "operator": only("Exists", "Equal"),
        "value": named(check_label_value),
        "effect": only("NoSchedule", "PreferNoSchedule", "NoExecute"),
        "tolerationSeconds": integer(-(2**63), 2**63 - 1),
    },
)

CLAIM_SPEC = keys(
    {
        "accessModes": each(only("ReadWriteOnce"), least=1, most=1),
        "volumeMode": only("Filesystem"),
        "resources": keys({"requests": keys({"storage": amount})}),
    },
    {"storageClassName": OBJECT_NAME},
)
_VOLUME = one_of(
    {"name": named(check_dns_label)},
    {
        "emptyDir": keys({}, {"medium": only("Memory"), "sizeLimit": amount}),
        "ephemeral": keys({"volumeClaimTemplate": keys({"metadata": TEMPLATE_METADATA, "spec": CLAIM_SPEC})}),
        "persistentVolumeClaim": keys({"claimName": OBJECT_NAME}),
        "configMap": keys({"name": OBJECT_NAME}),
        "secret": keys(
            {"secretName": OBJECT_NAME},
            {
                "defaultMode": only(0o400, 0o440, 0o444),
                "items": each(keys({"key": named(check_config_key), "path": named(check_config_key)})),
            },
        ),
        "image": keys({"reference": text}, {"pullPolicy": only("IfNotPresent")}),
    },
)
_ENV = one_of(
    {"name": named(check_env_name)},
    {
        "value": text,
        "valueFrom": keys({"secretKeyRef": keys({"name": OBJECT_NAME, "key": named(check_config_key)})}),
    },
)
_PROBE = one_of(
    {},
    {"httpGet": keys({"path": text, "port": PORT}), "tcpSocket": keys({"port": PORT})},
    {"periodSeconds": SECONDS, "timeoutSeconds": SECONDS},
)
_AMOUNTS = pairs(check_qualified_name, amount)
_CONTAINER = keys(
    {
        "name": named(check_dns_label),
        "image": text,
        "securityContext": keys(
            {"privileged": only(False)},
            {"allowPrivilegeEscalation": only(False), "capabilities": keys({"drop": each(text)})},
        ),
    },
    {
        "imagePullPolicy": only("Always", "IfNotPresent", "Never"),
        "command": _WORDS,
        "args": _WORDS,
        "workingDir": text,
        "env": each(_ENV, most=1024),
        "resources": keys({}, {"requests": _AMOUNTS, "limits": _AMOUNTS}),
        "ports": each(keys({"containerPort": PORT}, {"protocol": only("TCP")})),
        "readinessProbe": _PROBE,
        "terminationMessagePolicy": only("FallbackToLogsOnError"),
        "volumeMounts": each(
            keys({"name": named(check_dns_label), "mountPath": text}, {"subPath": text, "readOnly": flag})
        ),
    },
)


def pod_template(restart_policy: str) -> Shape:
    """The template of a Job's or Deployment's pods: one container, never root, no token.

    `launcher_shape` checks the init container, which is the platform's.
    """
    pod = keys(
        {
            "restartPolicy": only(restart_policy),
            "automountServiceAccountToken": only(False),
            "enableServiceLinks": only(False),
            "securityContext": keys(
                {"runAsNonRoot": only(True), "seccompProfile": keys({"type": only("RuntimeDefault")})},
                {
                    "runAsUser": _ID,
                    "runAsGroup": _ID,
                    "fsGroup": _ID,
                    "fsGroupChangePolicy": only("OnRootMismatch", "Always"),
                },
            ),
            "containers": each(_CONTAINER, least=1, most=1),
        },
        {
            "terminationGracePeriodSeconds": LONG_SECONDS,
            "serviceAccountName": OBJECT_NAME,
            "schedulerName": OBJECT_NAME,
            "hostAliases": each(keys({"ip": text, "hostnames": each(text)})),
            "topologySpreadConstraints": each(_SPREAD),
            "imagePullSecrets": each(keys({"name": OBJECT_NAME})),
            "nodeSelector": LABELS,
            "tolerations": each(_TOLERATION),
            "affinity": _AFFINITY,
            "runtimeClassName": OBJECT_NAME,
            "priorityClassName": OBJECT_NAME,
            "volumes": each(_VOLUME),
            "initContainers": each(_CONTAINER, least=1, most=1),
        },
    )
    return keys({"metadata": TEMPLATE_METADATA, "spec": pod})
