"""Request and response models of the OpenAPI document. They only describe: `responses.py` writes responses."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, RootModel

from runyard.domain.reasons import Reason
from runyard.spec.problem_codes import Code

Json = dict[str, Any]


class ReportedProblem(BaseModel):
    """One error or warning."""

    code: str = Field(description="Stable code, for programs.", examples=[Code.PROFILE_UNKNOWN.value])
    path: str = Field(description="Path of the field.", examples=["spec.profile"])
    message: str = Field(description="What is wrong, for people.", examples=["there is no profile `1xa10`"])
    value: Any = Field(default=None, description="The value found there.", examples=["1xa10"])
    allowed: str | None = Field(default=None, description="What is allowed there.", examples=["1xa100, small"])
    suggestion: str | None = Field(default=None, description="The nearest valid value.", examples=["1xa100"])


class ErrorResponse(BaseModel):
    """An error."""

    status: int = Field(description="The HTTP status.", examples=[400])
    message: str = Field(description="For people: one line per problem.", examples=["No such EntityName: run r1"])
    errorCode: str | None = Field(default=None, description="For programs.", examples=["refused"])  # noqa: N815 - DigitalHub's name
    errors: list[ReportedProblem] = Field(default_factory=list, description="Every problem of the request.")
    request_id: str | None = Field(
        default=None, description="Id of this request in the server's log.", examples=["5f1c"]
    )


class EntityBody(BaseModel):
    """An entity, as sent by a client."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "kind": "container",
                "name": "hello",
                "metadata": {"labels": ["demo"]},
                "spec": {"image": "busybox:1.36", "command": "echo"},
            }
        }
    )
    kind: str = Field(
        description="The kind: `python`, `container`, `python+job`, `container+job:run` …", examples=["container"]
    )
    id: str | None = Field(default=None, description="Chosen by the client; generated if absent.", examples=["0a1b2c"])
    name: str | None = Field(default=None, description="The name, shared by all versions.", examples=["hello"])
    project: str | None = Field(default=None, description="The project; must match the URL.", examples=["demo"])
    key: str | None = Field(
        default=None,
        description="Set by the server; ignored.",
        examples=["store://demo/function/container/hello:0a1b2c"],
    )
    user: str | None = Field(default=None, description="Set by the server; ignored.", examples=["ada"])
    metadata: Json = Field(
        default_factory=dict, description="Labels, description, relationships.", examples=[{"labels": ["demo"]}]
    )
    spec: Json = Field(
        default_factory=dict,
        description="The spec; `/schemas` has its JSON Schema.",
        examples=[{"image": "busybox:1.36"}],
    )
    status: Json = Field(
        default_factory=dict,
        description="The parts of the status that clients may set.",
        examples=[{"state": "CREATED"}],
    )
    extensions: list[Json] = Field(default_factory=list, description="Stored as sent.", examples=[[]])


class EntityResponse(BaseModel):
    """An entity."""

    model_config = ConfigDict(extra="allow")
    id: str = Field(description="The id.", examples=["0a1b2c"])
    kind: str = Field(description="The kind.", examples=["container"])
    name: str = Field(description="The name.", examples=["hello"])
    project: str = Field(description="The project.", examples=["demo"])
    key: str = Field(
        description="Store reference of the entity.", examples=["store://demo/function/container/hello:0a1b2c"]
    )
    user: str = Field(description="The creator.", examples=["ada"])
    metadata: Json = Field(description="Times, labels, version.", examples=[{"created": "2026-11-15T12:00:00.000000Z"}])
    spec: Json = Field(description="The spec.", examples=[{"image": "busybox:1.36"}])
    status: Json = Field(description="The state and its details.", examples=[{"state": "CREATED"}])


class PageResponse(BaseModel):
    """One page of a list."""

    model_config = ConfigDict(extra="allow")
    content: list[Json] = Field(description="The entries of this page.", examples=[[]])
    totalElements: int = Field(description="Total number of entries.", examples=[45])  # noqa: N815 - DigitalHub's name
    totalPages: int = Field(description="Total number of pages.", examples=[2])  # noqa: N815 - DigitalHub's name
    number: int = Field(description="Number of this page, from 0.", examples=[0])
    size: int = Field(description="Number of entries per page.", examples=[25])


class EffectiveResponse(BaseModel):
    """The effective spec of a run, as resolved when it was submitted."""

    run: str = Field(description="The run's id.", examples=["r1"])
    effective: Json | None = Field(
        description="The effective spec; null for a run that its client executes.", examples=[{"image": "busybox:1.36"}]
    )
    provenance: list[Json] = Field(description="For each field, who set it and what it replaced.", examples=[[]])
    warnings: list[ReportedProblem] = Field(description="Doubtful or ignored values.")
    request: Json = Field(description="The request as sent.", examples=[{"kind": "container+job:run"}])
    request_hash: str = Field(
        description="Canonical hash of the request: a submit with the same id and hash returns the same run.",
        examples=["9f86d081"],
    )
    profile_revision: int | None = Field(default=None, description="Revision of the profile used.", examples=[3])
    policy_revision: int | None = Field(default=None, description="Revision of the policy used.", examples=[7])


class AnyBody(BaseModel):
    """A profile or policy document; `runyard schema profile` and `runyard schema policy` print the schemas."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"example": {"resources": {"mem": {"max": "64Gi"}}}})


class ValuesBody(BaseModel):
    """Values of secrets by name."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"example": {"my-secret": "its value"}})


class TokenBody(BaseModel):
    """A request for a personal token."""

    name: str = Field(default="token", description="A label of your choice.", examples=["laptop"])
    scopes: list[str] = Field(
        default_factory=list,
        description="`read`, `write`, `admin`; an empty list grants all your permissions.",
        examples=[["read"]],
    )
    days: int = Field(default=365, ge=1, le=3650, description="Days until it expires.", examples=[90])


class ProfileResponse(BaseModel):
    """A profile, as written and as parsed."""

    name: str = Field(description="The name that runs use.", examples=["1xa100"])
    title: str = Field(description="Display name; the name if none was written.", examples=["One A100"])
    description: str = Field(description="Description for people.", examples=["One A100 with 8 cores"])
    fields: Json = Field(
        description="Fields that the profile sets; they override the user's.", examples=[{"resources": {"gpu": 1}}]
    )
    base: dict[str, Json] = Field(
        description="Fields that its base objects set, by kind; the user's override them.",
        examples=[{"Job": {"node_selector": {"a": "b"}}}],
    )
    revision: int = Field(description="Number of this revision; the ETag.", examples=[3])
    user: str = Field(description="Author of this revision.", examples=["ada"])
    time: str = Field(description="Time, in ISO 8601 and UTC.", examples=["2026-11-15T12:00:00.000000Z"])
    is_deleted: bool = Field(description="Always false here.", examples=[False])
    document: Json = Field(description="The document as written.", examples=[{"id": "1xa100", "resources": {"gpu": 1}}])
    warnings: list[ReportedProblem] = Field(
        description="Doubtful values, and what the policy contradicts; empty in lists."
    )


class RevisionResponse(BaseModel):
    """One revision of a profile or of the policy."""

    revision: int = Field(description="Number of the revision.", examples=[3])
    user: str = Field(description="The author.", examples=["ada"])
    time: str = Field(description="Time, in ISO 8601 and UTC.", examples=["2026-11-15T12:00:00.000000Z"])
    is_deleted: bool = Field(description="Whether this revision is a deletion.", examples=[False])
    document: Json | None = Field(
        default=None, description="The document as written; absent for a deletion.", examples=[{"id": "1xa100"}]
    )


class PolicyResponse(BaseModel):
    """The policy."""

    is_built_in: bool = Field(description="Whether only the built-in rules apply.", examples=[False])
    document: Json = Field(description="The document as written.", examples=[{"resources": {"mem": {"max": "64Gi"}}}])
    revision: int = Field(description="Number of this revision, 0 if there is none; the ETag.", examples=[7])
    user: str | None = Field(default=None, description="The author.", examples=["ada"])
    time: str | None = Field(
        default=None, description="Time, in ISO 8601 and UTC.", examples=["2026-11-15T12:00:00.000000Z"]
    )
    is_deleted: bool = Field(description="Whether there is no policy, or it was deleted.", examples=[False])
    built_in: Json = Field(
        description="Built-in defaults, and what is denied unless the policy allows it.",
        examples=[{"platform": {"pod_security": "restricted"}}],
    )
    warnings: list[ReportedProblem] = Field(
        description="Rules without effect; after a write, also profiles that the policy contradicts."
    )


class RehearsalBody(BaseModel):
    """A candidate policy or profiles, and the runs to rehearse them against."""

    policy: Json | None = Field(
        default=None,
        description="The candidate policy. Null: the built-in rules; absent: the current policy.",
        examples=[{"resources": {"mem": {"max": "64Gi"}}}],
    )
    profiles: dict[str, Json | None] = Field(
        default_factory=dict,
        description="Candidate profiles by name, in addition to the current ones; null removes one.",
        examples=[{"small": {"resources": {"mem": "1Gi"}}}],
    )
    since: str | None = Field(
        default=None, description="Only runs submitted at or after this time.", examples=["2026-11-01T00:00:00Z"]
    )
    until: str | None = Field(
        default=None, description="Only runs submitted until this time.", examples=["2026-11-15T00:00:00Z"]
    )
    project: str | None = Field(default=None, description="Only runs of this project.", examples=["demo"])
    limit: int = Field(
        default=1000, ge=1, le=10_000, description="Maximum number of runs, newest first.", examples=[1000]
    )


class RehearsedRun(BaseModel):
    """The outcome for one run."""

    id: str = Field(description="The run's id.", examples=["r1"])
    project: str = Field(description="Its project.", examples=["demo"])
    outcome: str = Field(
        description="refused, accepted, changed, refused_by_both (with other refusals), or unreadable.",
        examples=["changed"],
    )
    direction: str | None = Field(
        default=None, description="Change of its resources: smaller, larger or mixed.", examples=["smaller"]
    )
    changes: list[Json] = Field(
        default_factory=list,
        description="Values that would differ, and who sets them.",
        examples=[[{"path": "resources.mem.limits", "old": "8Gi", "new": "4Gi", "by": "policy"}]],
    )
    refusals: list[ReportedProblem] = Field(
        default_factory=list, description="Why it would be refused, or why it cannot be read."
    )


class RefusalCause(BaseModel):
    """A reason why the current rules and the candidate refuse some runs."""

    code: str = Field(description="The problem code.", examples=[Code.PROFILE_UNKNOWN.value])
    path: str = Field(description="The field.", examples=["profile"])
    message: str = Field(description="What is wrong.", examples=["there is no profile `1xa100`"])
    runs: int = Field(description="Number of runs refused for it.", examples=[3])


class RehearsalResponse(BaseModel):
    """The result of a rehearsal."""

    counts: dict[str, int] = Field(
        description="Runs by outcome, changed ones also by direction; runs that clients execute are `local`.",
        examples=[
            {
                "refused": 2,
                "accepted": 0,
                "changed": 5,
                "smaller": 5,
                "unchanged": 93,
                "refused_by_both": 0,
                "unreadable": 0,
            }
        ],
    )
    refused_by_both: list[RefusalCause] = Field(
        description="Why runs are refused both now and by the candidate; the most frequent reasons."
    )
    runs: list[RehearsedRun] = Field(
        description="Runs whose outcome is not `unchanged`, newest first; of those refused by both, only the ones that "
        "the candidate refuses for further reasons."
    )
    left_out: int = Field(description="Number of such runs left out of the list.", examples=[0])
    total: int = Field(description="Runs in the time range; at most `limit` of them were rehearsed.", examples=[100])


class SearchItem(BaseModel):
    """A search result."""

    model_config = ConfigDict(extra="allow")
    type: str = Field(description="function, run, artifact …", examples=["function"])
    id: str = Field(description="The id.", examples=["0a1b2c"])
    key: str = Field(
        description="Store reference of the entity.", examples=["store://demo/function/container/hello:0a1b2c"]
    )
    kind: str = Field(description="The kind.", examples=["container"])
    name: str = Field(description="The name.", examples=["hello"])
    project: str = Field(description="The project.", examples=["demo"])
    metadata: Json = Field(description="Times, labels, description.", examples=[{"labels": ["demo"]}])
    status: Json = Field(description="Its state.", examples=[{"state": "CREATED"}])


class SearchResponse(BaseModel):
    """One page of search results."""

    model_config = ConfigDict(extra="allow")
    content: list[SearchItem] = Field(description="The results, in order.")
    totalElements: int = Field(description="Total number of results, at most 1000.", examples=[3])  # noqa: N815 - DigitalHub's name
    totalPages: int = Field(description="Total number of pages.", examples=[1])  # noqa: N815 - DigitalHub's name
    number: int = Field(description="Number of this page, from 0.", examples=[0])
    size: int = Field(description="Number of entries per page.", examples=[25])


class AuditItem(BaseModel):
    """An audit entry."""

    sequence: int = Field(description="Sequence number of the entry.", examples=[1042])
    time: str = Field(description="Time, in ISO 8601 and UTC.", examples=["2026-11-15T12:00:00.000000Z"])
    actor: str = Field(description="Who did it.", examples=["ada"])
    action: str = Field(description="What was done.", examples=["run.submit"])
    project: str | None = Field(default=None, description="The project.", examples=["demo"])
    type: str | None = Field(default=None, description="Type of the entity.", examples=["run"])
    id: str | None = Field(default=None, description="Id of the entity.", examples=["r1"])
    result: str = Field(description="The result.", examples=["done"])
    address: str | None = Field(default=None, description="Address of the client.", examples=["192.0.2.7"])
    details: Json = Field(description="Details; never the value of a secret.", examples=[{"revision": 3}])


class AuditResponse(BaseModel):
    """Audit entries, newest first."""

    entries: list[AuditItem] = Field(description="The entries.")
    next: int | None = Field(
        default=None, description="Value of `before` for the next page; absent on the last one.", examples=[1000]
    )


class RunEvent(BaseModel):
    """One transition of a run."""

    sequence: int = Field(description="Number of the transition, from 1.", examples=[2])
    status: str = Field(description="The new state.", examples=["READY"])
    time: str = Field(description="Time, in ISO 8601 and UTC.", examples=["2026-11-15T12:00:00.000000Z"])
    actor: str = Field(description="Who caused it.", examples=["ada"])
    reason: str | None = Field(default=None, description="Stable reason code.", examples=[Reason.USER_SUBMIT.value])
    message: str | None = Field(default=None, description="What happened, for people.", examples=["stopped by ada"])


class ContainerLog(BaseModel):
    """The log of one instance of a container of a run."""

    id: str = Field(description="Run, pod and container.", examples=["r1-pod-main"])
    kind: str = Field(description="`log`.", examples=["log"])
    project: str = Field(description="The project.", examples=["demo"])
    name: str = Field(description="Same as the id.", examples=["r1-pod-main"])
    run: str = Field(description="The run's id.", examples=["r1"])
    user: str = Field(description="Owner of the run.", examples=["ada"])
    metadata: Json = Field(description="Times of its first and last bytes.", examples=[{"project": "demo"}])
    spec: Json = Field(
        description="The run, and the time of the last byte in milliseconds.",
        examples=[{"run": "r1", "timestamp": 1794726783348}],
    )
    status: Json = Field(
        description="Container, pod and instance (1 after the first restart), the total size in bytes, and the offset "
        "of the first byte in `content`. `complete`: nothing will follow; `cause`: why it was cut, such as `limit`.",
        examples=[{"container": "main", "pod": "r1-abcde", "instance": 0, "size": 5, "offset": 0, "complete": True}],
    )
    content: str = Field(description="The last 2 MiB, base64 of UTF-8.", examples=["aGkgNDEK"])


class ContainerUsage(BaseModel):
    """What one container of a run uses."""

    pod: str = Field(description="The pod.", examples=["r1-abcde"])
    container: str = Field(description="The container.", examples=["main"])
    at: str = Field(description="When it was measured.", examples=["2026-11-15T12:00:00.000000Z"])
    cpu_cores: float | None = Field(default=None, description="CPU, in cores.", examples=[0.25])
    memory_bytes: int | None = Field(default=None, description="Memory, in bytes.", examples=[268435456])


class UsageResponse(BaseModel):
    """What the containers of a run use."""

    run: str = Field(description="The run's id.", examples=["r1"])
    containers: list[ContainerUsage] = Field(description="One entry per container that runs now, at most 1000.")


class UsageAmounts(BaseModel):
    """Amounts of a sum of usage."""

    pods: int = Field(description="Pods that run.", examples=[1])
    containers: int = Field(description="Containers that run.", examples=[1])
    cpu: float = Field(description="CPU cores in use.", examples=[0.25])
    memory: int = Field(description="Memory, in bytes.", examples=[268435456])
    disk: int = Field(description="Sizes of the runs' own volumes, in bytes.", examples=[1073741824])


class UsageSumResponse(BaseModel):
    """What a run, or the runs of a project, of a user or of the server, use together."""

    name: str = Field(description="The run's id, the project, the user, or `runyard`.", examples=["r1"])
    usage: UsageAmounts = Field(description="Zero if nothing runs.")
    counted_runs: int = Field(
        description="Runs that are in the sum: the newest of a project, else the last changed, at most 1000.",
        examples=[1],
    )
    total_runs: int = Field(
        description="Runs that the engine executes now; more than `counted_runs` if the sum leaves some out.",
        examples=[1],
    )


class EngineError(BaseModel):
    """Why the engine did not answer."""

    reason: str = Field(description="Stable code, for programs.", examples=[Reason.ENGINE_TIMEOUT.value])
    message: str = Field(description="For people.", examples=["the engine did not answer within 5 s"])


class SnapshotResponse(BaseModel):
    """A summary of what the engine's place has."""

    at: str = Field(
        description="When it was taken; if the cluster gives no news, when it was last seen.",
        examples=["2026-11-15T12:00:00Z"],
    )
    nodes: int = Field(description="Number of nodes.", examples=[12])
    pods: int = Field(description="Number of pods that the engine sees.", examples=[140])
    allocatable: dict[str, str] = Field(
        description="What all schedulable nodes have for pods, by resource.", examples=[{"cpu": "96", "memory": "1Ti"}]
    )
    unseen: list[Json] = Field(
        description=(
            "Parts of the cluster that the engine may not see, and the right that is missing; at most 100. One with "
            "`since` is shown as it was then, because the cluster gives no news of it."
        ),
        examples=[[{"what": "pods of other namespaces", "missing": "list pods in all namespaces"}]],
    )


class EngineResponse(BaseModel):
    """The engine of this server."""

    engine: str | None = Field(description="Its kind; null if there is none.", examples=["kubernetes"])
    place: str | None = Field(description="Where it executes runs.", examples=["kubernetes/0c1e"])
    capabilities: list[str] = Field(
        description="What it can do besides: exec, attach, portforward, usage.", examples=[["exec", "usage"]]
    )
    snapshot: SnapshotResponse | None = Field(default=None, description="For admins.")
    error: EngineError | None = Field(default=None, description="For admins: why there is no snapshot.")


class OrphanResponse(BaseModel):
    """An object of the engine that begins a run, and that its run does not know."""

    uid: str = Field(description="Of the object.", examples=["5b1f0c1e"])
    run_uid: str = Field(description="Of the run that it names.", examples=["6f2a"])
    run_id: str = Field(description="Of the run that it names.", examples=["train-1"])
    project: str = Field(description="Of the run that it names.", examples=["demo"])
    verdict: str = Field(description="`remove`, or `report`: left to an admin.", examples=["report"])
    message: str = Field(description="For people.", examples=["no run and no deleted run has this uid"])


class OrphansResponse(BaseModel):
    """What the last sweep of this server's place found."""

    place: str | None = Field(description="Null if the server has no engine.", examples=["kubernetes/0c1e"])
    at: str | None = Field(
        description="When it was found; null if nothing was swept yet.", examples=["2026-11-15T12:00:00+00:00"]
    )
    is_on: bool = Field(
        description="False after a restore, until `runyard db epoch confirm`: nothing is removed.", examples=[True]
    )
    count: int = Field(description="Orphans, the unlisted ones included.", examples=[3])
    orphans: list[OrphanResponse] = Field(description="At most 200.")


class ProfileList(RootModel[list[ProfileResponse]]):
    """Profiles by name."""


class RevisionList(RootModel[list[RevisionResponse]]):
    """Revisions, newest first."""


class EventList(RootModel[list[RunEvent]]):
    """Transitions of a run, oldest first."""


class LogList(RootModel[list[ContainerLog]]):
    """Logs of a run, in the order of their start."""


class FileResponse(BaseModel):
    """A file of an artifact, data item or model, in DigitalHub's shape."""

    path: str = Field(description="The path within the entity.", examples=["model.bin"])
    name: str = Field(description="The last part of the path.", examples=["model.bin"])
    content_type: str = Field(description="The media type.", examples=["application/octet-stream"])
    size: int = Field(description="In bytes.", examples=[5])
    hash: str | None = Field(
        default=None,
        description="`sha256:` and the digest in hexadecimal; not of files in the files store.",
        examples=["sha256:2cf24dba…"],
    )
    last_modified: str = Field(description="When it was uploaded.", examples=["Sun, 15 Nov 2026 07:12:46 GMT"])
    stored: bool = Field(description="Whether this server has its bytes: at `files/content/{path}`.", examples=[True])


class UploadRequest(BaseModel):
    """A file that is going to be uploaded in several requests."""

    path: str = Field(description="The path within the entity.", examples=["net/weights.bin"])
    size: int = Field(description="In bytes.", ge=0, examples=[5])
    sha256: str | None = Field(
        default=None,
        description="The SHA-256 digest in hexadecimal, if it is known already.",
        pattern="^[0-9a-fA-F]{64}$",
        examples=["2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"],
    )
    content_type: str | None = Field(
        default=None, description="The media type; by default guessed from the path.", examples=["text/csv"]
    )


class UploadCompletion(BaseModel):
    """The end of an upload."""

    sha256: str | None = Field(
        default=None,
        description="The SHA-256 digest in hexadecimal; required unless it was stated at the beginning.",
        pattern="^[0-9a-fA-F]{64}$",
        examples=["2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"],
    )


class UploadResponse(BaseModel):
    """An unfinished upload."""

    id: str = Field(description="The id of the upload.", examples=["0123456789abcdef0123456789abcdef"])
    path: str = Field(description="The path within the entity.", examples=["net/weights.bin"])
    size: int = Field(description="In bytes.", examples=[5])
    offset: int = Field(description="How many bytes are stored.", examples=[0])
    content_type: str = Field(description="The media type.", examples=["application/octet-stream"])
    expires_at: str = Field(description="When it ends unless it is complete.", examples=["2026-11-19T07:12:46+00:00"])
    sha256: str | None = Field(
        default=None,
        description="The digest that was stated at the beginning.",
        examples=["2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"],
    )
