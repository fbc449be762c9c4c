"""The fields of Kubernetes 1.36 in every object that Pod Security reads.

Other fields are refused: a typing error (`hostnetwork`), or a newer field without a check. The cluster tests compare
these names with the apiserver's schema.
"""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


POD = _words("apiVersion kind metadata spec status")
TEMPLATE = _words("metadata spec")

METADATA = _words("""
    annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName generation
    labels managedFields name namespace ownerReferences resourceVersion selfLink uid
""")

SPEC = _words("""
    activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks
    ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets
    initContainers nodeName nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates
    resourceClaims resources restartPolicy runtimeClassName schedulerName schedulingGates schedulingGroup
    securityContext serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain
    terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes
""")

CONTAINER = _words("""
    args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy
    resources restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath
    terminationMessagePolicy tty volumeDevices volumeMounts workingDir
""")
EPHEMERAL_CONTAINER = CONTAINER | {"targetContainerName"}

POD_SECURITY_CONTEXT = _words("""
    appArmorProfile fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser seLinuxChangePolicy seLinuxOptions
    seccompProfile supplementalGroups supplementalGroupsPolicy sysctls windowsOptions
""")
SECURITY_CONTEXT = _words("""
    allowPrivilegeEscalation appArmorProfile capabilities privileged procMount readOnlyRootFilesystem runAsGroup
    runAsNonRoot runAsUser seLinuxOptions seccompProfile windowsOptions
""")
APPARMOR_PROFILE = _words("localhostProfile type")
SECCOMP_PROFILE = _words("localhostProfile type")
SELINUX_OPTIONS = _words("level role type user")
WINDOWS_OPTIONS = _words("gmsaCredentialSpec gmsaCredentialSpecName hostProcess runAsUserName")
CAPABILITIES = _words("add drop")
SYSCTL = _words("name value")
OS = _words("name")

PORT = _words("containerPort hostIP hostPort name protocol")
PROBE = _words("""
    exec failureThreshold grpc httpGet initialDelaySeconds periodSeconds successThreshold tcpSocket
    terminationGracePeriodSeconds timeoutSeconds
""")
LIFECYCLE = _words("postStart preStop stopSignal")
LIFECYCLE_HANDLER = _words("exec httpGet sleep tcpSocket")
HTTP_GET = _words("host httpHeaders path port scheme")
TCP_SOCKET = _words("host port")

FORBIDDEN_VOLUMES = (
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
)
"""Volume types that *restricted* forbids; of several in one volume, the plugin reports the first in this order."""
ALLOWED_VOLUMES = _words("configMap csi downwardAPI emptyDir ephemeral image persistentVolumeClaim projected secret")
VOLUME = ALLOWED_VOLUMES.union(FORBIDDEN_VOLUMES, {"name"})
