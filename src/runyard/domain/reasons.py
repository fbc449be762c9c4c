"""Every run reason: what `status.reason` of runs, volumes and projects, and transitions, say for programs.

A reason is dotted and stable: it is never renamed or reused. docs/users/reasons.md is generated from this table by
`make docs`. A run without a reason is simply doing what was asked of it.
"""

from enum import StrEnum
from typing import Self

from runyard.spec.problem_codes import Code


class Reason(StrEnum):
    """Why a run is in its state: the code, what it means, what to do."""

    meaning: str
    remedy: str

    def __new__(cls, code: str, meaning: str, remedy: str) -> Self:
        """Make one member; its value is the code."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        member.remedy = remedy
        return member

    ADMISSION_REFUSED = (
        "admission.refused",
        "a rule refuses the run's objects: of the policy or profile that it was resolved with, or of the cluster",
        "read `status.message` for the rule and change what it names; for a rule of Runyard, submit the run again",
    )
    ANCHOR_TAKEN = (
        "anchor.taken",
        "an object that Runyard did not create has the name of the object that would execute the run",
        "find out who created it and remove it, then submit the run again",
    )
    CLIENT_ERROR = (
        "client.error",
        "the client that executes the run reported an error",
        "read `status.message` and the client's own output",
    )
    CLIENT_REPORT = "client.report", "the client that executes the run reported this state", "nothing"
    CONFIG_MISSING = (
        "config.missing",
        "a ConfigMap or a key of one that the container needs does not exist",
        "create what `status.message` names; the run continues by itself then",
    )
    CRASH_LOOP = (
        "crash.loop",
        "the service ends again and again, and is started again after a growing back-off",
        "read the log of the last instance; `status.message` has its last lines",
    )
    DISK_EXCEEDED = (
        "disk.exceeded",
        "the run wrote more to its disk or to a volume than its limit, and was ended",
        "request more `disk` or a larger volume, or write less",
    )
    ENGINE_FAILED = (
        "engine.failed",
        "a call to the engine failed for an unexpected reason; it is retried",
        "if it lasts, read the server's log",
    )
    ENGINE_NONE = (
        Code.ENGINE_NONE.value,
        "the server has no engine, so it cannot start or stop the run",
        "ask an operator to configure an engine; the run continues by itself then",
    )
    ENGINE_RELEASED = (
        "engine.released",
        "the engine accepted the run, which now waits for its resources",
        "nothing; if it waits long, compare its resources with what the cluster has free",
    )
    ENGINE_TIMEOUT = (
        "engine.timeout",
        "the engine did not answer in time; the call is retried",
        "if it lasts, check that the server reaches the engine",
    )
    ENVIRONMENT_FAILED = (
        "environment.failed",
        "the virtual environment with the function's requirements could not be made",
        "read the log of the set-up and correct the function's `requirements`",
    )
    IMAGE_INVALID = (
        "image.invalid",
        "the name of the image is not valid, so no container can be made of it",
        "correct `image`: registry/name:tag, or name@sha256:digest, in lower case",
    )
    IMAGE_MISSING = (
        "image.missing",
        "the image is not there, and could not be pulled",
        "read `status.message` for the registry's answer; correct `image`, or load the image on the machine or node",
    )
    IMAGE_REFUSED = (
        "image.refused",
        "the registry does not let the cluster pull the image",
        "store the registry's credentials in the project, or correct `image`: a missing image may be refused too",
    )
    IMAGE_ROOT = (
        "image.root",
        "the image runs as root, which the platform does not allow",
        "set `run_as_user`, or use an image with its own user",
    )
    KUBE_PERMISSIONS = (
        "kube.permissions",
        "the server's account in the cluster lacks a right that it needs",
        "ask an operator to grant the right that `status.message` names; `runyard server rbac` prints all of them",
    )
    IMAGE_UNREACHABLE = (
        "image.unreachable",
        "the node does not reach the registry of the image; that is retried",
        "check the registry's address in `image`; ask an operator about the node's network and certificates",
    )
    LOGS_UNAVAILABLE = (
        "logs.unavailable",
        "the run is being deleted, and its log cannot be deleted now; that is retried",
        "if it lasts, check that the server reaches the log storage",
    )
    MEMORY_EXCEEDED = (
        "memory.exceeded",
        "the run used more memory than its limit, and was ended",
        "request the amount that `status.message` proposes, or use less memory",
    )
    MOUNT_IMPOSSIBLE = (
        "mount.impossible",
        "a volume or secret cannot be mounted at its path on this machine",
        "read `status.message`: start the server as root, allow user namespaces, or leave `mount_path` out",
    )
    MOUNT_FAILED = (
        "mount.failed",
        "the node cannot mount a volume, secret or configuration of the run; that is retried",
        "read `status.message`: what it names may be missing, in use on another node, or not reachable",
    )
    NODE_LOST = (
        "node.lost",
        "the node that executed the run was removed or did not come back, and the run's pod was given up",
        "nothing while the run is PENDING: it is started again. If it is in ERROR, submit it again",
    )
    NODE_PRESSURE = (
        "node.pressure",
        "the node ran short of memory, disk or processes, and ended the run's pod to save itself",
        "request as much memory and disk as the run uses: pods above their requests are ended first",
    )
    NODE_REFUSED = (
        "node.refused",
        "the node refused the pod that the scheduler gave it",
        "read `status.message`; submit the run again, or let `backoff_limit` start it again",
    )
    NODE_SHUTDOWN = (
        "node.shutdown",
        "the node was shut down while it executed the run",
        "nothing while the run is PENDING: it is started again. If it is in ERROR, submit it again",
    )
    NODE_UNREACHABLE = (
        "node.unreachable",
        "the node that executes the run does not answer, so nobody knows whether the run goes on",
        "wait for the node; once an operator removes a node that is gone for good, the run starts again or ends",
    )
    NAMESPACE_MISSING = (
        "namespace.missing",
        "the namespace of the project does not exist, or is being deleted",
        "wait if it is being deleted; otherwise ask an operator to create the namespace that `status.message` names",
    )
    NAMESPACE_TAKEN = (
        "namespace.taken",
        "the namespace that the project would get exists, and Runyard did not create it for this project",
        "ask an operator to rename or remove that namespace; Runyard neither uses nor changes it",
    )
    PLACEMENT_GATED = (
        "placement.gated",
        "another controller holds the run's pod back (a scheduling gate, or a suspended Job)",
        "ask whoever runs that controller, such as a queue for jobs",
    )
    PLACEMENT_UNMATCHED = (
        "placement.unmatched",
        "no node is one that the run may use: node selector, affinity, taints or cordons exclude all",
        "correct `node_selector`, `affinity` or `tolerations`; `status.message` counts the nodes by what excludes them",
    )
    PLACE_FORGOTTEN = (
        "place.forgotten",
        "an operator declared the engine or cluster gone for good, with everything that ran or was stored there",
        "submit the run again; delete the volume and create it again",
    )
    PLACE_OTHER = (
        "place.other",
        "it belongs to another engine or cluster than the one that this server uses, and waits for it",
        "ask an operator to start the server with the engine of that place, or to forget it if it is gone for good",
    )
    POD_DELETED = (
        "pod.deleted",
        "somebody deleted the run's pod while it worked, and not through Runyard",
        "find out who deleted it, then submit the run again; `backoff_limit` starts it again by itself",
    )
    POD_EVICTED = (
        "pod.evicted",
        "the cluster evicted the run's pod, for instance to drain its node",
        "nothing; the run is started again unless `disruptions: count` lets that use up its retries",
    )
    POD_PREEMPTED = (
        "pod.preempted",
        "the scheduler ended the run's pod to make room for one of a higher priority",
        "nothing; the run is started again when there is room. A higher `priority_class` is preempted later",
    )
    PRIORITY_CLASS_MISSING = (
        "priority_class.missing",
        "the cluster has no priority class of the name that the run asks for",
        "correct `priority_class`, or ask an operator to create it; the run continues by itself then",
    )
    PROJECT_REMOVING = (
        "project.removing",
        "the project is being deleted, and waits until its runs, volumes or namespace are gone",
        "nothing; if it lasts, read `status.message`",
    )
    PYTHON_MISSING = (
        "python.missing",
        "the machine has no interpreter of the function's `python_version`",
        "choose one of the versions that `status.message` lists, or install it on the machine",
    )
    QUOTA_EXCEEDED = (
        "quota.exceeded",
        "a quota of the cluster has no room for the run; it goes on when there is room",
        "wait, request less, or stop other runs; `status.message` has the figures of the quota",
    )
    REGISTRIES_TAKEN = (
        "registries.taken",
        "an object that Runyard did not create has the name of the Secret with the project's registry credentials",
        "find out who created it and remove it, then submit the run again",
    )
    REGISTRIES_UNREADABLE = (
        "registries.unreadable",
        "the project's credentials of image registries cannot be read",
        "store the secret `DOCKER_AUTH_CONFIG` of the project again, as JSON with `auths`",
    )
    RESOURCES_IMPOSSIBLE = (
        "resources.impossible",
        "the run requests more than the machine has, so it can never start there",
        "request less; `status.message` says what the machine has",
    )
    RESOURCES_WAITING = (
        "resources.waiting",
        "the run waits until the machine, or a node of the cluster, has enough cores, memory, GPUs or disk free",
        "wait, request less, or stop other runs; `status.message` has the figures",
    )
    RETENTION_EXPIRED = (
        "retention.expired",
        "the run ended longer ago than the server keeps runs, and is being deleted",
        "nothing; an operator can change how long runs are kept",
    )
    RUN_FAILED = "run.failed", "the run's process ended with an error", "read the run's log and `status.message`"
    RUN_LOST = (
        "run.lost",
        "the object that executed the run is gone, and Runyard did not remove it",
        "find out who deleted it, then submit the run again",
    )
    RUN_RETRYING = (
        "run.retrying",
        "the run failed and is started again, as `backoff_limit` allows",
        "nothing; `status.message` says how it failed",
    )
    RUN_STOPPED_OUTSIDE = (
        "run.stopped_outside",
        "somebody stopped the run, but not through Runyard",
        "find out who stopped it, then submit the run again",
    )
    RUNTIME_CLASS_MISSING = (
        "runtime_class.missing",
        "the cluster has no runtime class of the name that the run asks for, or a node cannot execute it",
        "correct `runtime_class`, or ask an operator to create it; the run continues by itself then",
    )
    RUNTIME_MISSING = (
        "runtime.missing",
        "the machine has no container runtime that works, so it cannot run container functions",
        "install podman or docker on the machine, or use a python function",
    )
    SANDBOX_FAILED = (
        "sandbox.failed",
        "the node cannot make the sandbox of the pod: its network or its container runtime fails; that is retried",
        "if it lasts, ask an operator about the node's network plugin and container runtime",
    )
    SECRET_MISSING = (
        "secret.missing",
        "a secret that the run names does not exist or has no value",
        "store the secret's value, then submit the run again",
    )
    SECRETS_EXPOSED = (
        "secrets.exposed",
        "the machine's container runtime would write secrets of the run to disk in clear",
        "give each secret a `mount_path`, so that it is a file in memory; or use podman, as `status.message` explains",
    )
    SERVICE_ACCOUNT_MISSING = (
        "service_account.missing",
        "the namespace has no service account of the name that the run asks for",
        "correct `service_account`, or ask an operator to create it; the run continues by itself then",
    )
    SERVICE_UNREADY = (
        "service.unready",
        "fewer replicas of the service are ready than were asked for: their readiness probes fail, or they start",
        "read the log: the program must listen at the service's port and answer at `readiness_path`",
    )
    SPEC_UNREADABLE = (
        "spec.unreadable",
        "the stored spec of the run cannot be read by this release; the run stays as it is",
        "upgrade the server to the release that stored the run",
    )
    START_FAILED = (
        "start.failed",
        "the run's program could not be started",
        "read `status.message`: the program may be missing or not executable",
    )
    SUPERVISOR_LOST = (
        "supervisor.lost",
        "the process that supervised the run was killed, so the run was ended and its exit code is not known",
        "find out who killed it (the kernel when the machine is out of memory), then submit the run again",
    )
    TIMEOUT_PENDING = (
        "timeout.pending",
        "the run waited for its resources longer than `pending_timeout`",
        "request less, wait for free resources, or raise `pending_timeout`",
    )
    TIMEOUT_RUN = "timeout.run", "the run took longer than `timeout`", "raise `timeout`, or give the run more resources"
    USER_DELETE = "user.delete", "a user deleted the run", "nothing"
    USER_RESUME = "user.resume", "a user resumed the run", "nothing"
    USER_STOP = "user.stop", "a user stopped the run", "nothing; a stopped service can be resumed"
    USER_SUBMIT = "user.submit", "a user or a trigger submitted the run", "nothing"
    USER_IMPOSSIBLE = (
        "user.impossible",
        "the machine cannot execute the run as the user or group that it names",
        "leave out `run_as_user` and `run_as_group`, or start the server as root",
    )
    VOLUME_EXPIRED = (
        "volume.expired",
        "the lifetime of the volume after the end of its run is over, and it is being deleted",
        "nothing; choose a longer `lifetime` for the next run",
    )
    VOLUME_LOST = (
        "volume.lost",
        "the claim of the volume, or the storage behind it, is gone, and Runyard did not remove it",
        "find out who deleted it; delete the volume and create it again",
    )
    VOLUME_REMOVING = (
        "volume.removing",
        "the volume is being deleted, and its claim is not gone yet",
        "nothing; if it lasts, stop what has it mounted",
    )
    VOLUME_UNBOUND = (
        "volume.unbound",
        "a claim of the run has no volume: it does not exist, its storage class is missing, or no volume fits",
        "read `status.message`; correct `storage_class`, or ask an operator for storage",
    )
    VOLUME_TAKEN = (
        "volume.taken",
        "the volume's claim belongs to another volume, or Runyard did not create it",
        "choose another name for the volume, or remove the claim",
    )
    VOLUME_TOO_MANY = (
        Code.VOLUME_TOO_MANY.value,
        "the project has no room for the claims that the run would keep",
        "delete volumes that nobody needs, then submit the run again",
    )
