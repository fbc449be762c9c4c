"""The answers as OpenAPI describes them. They document; answers are written by `answers.py`."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, RootModel

from runyard.domain.reasons import Reason
from runyard.spec.problem_codes import Code

Json = dict[str, Any]


class ReportedProblem(BaseModel):
    """One thing that is wrong or doubtful."""

    code: str = Field(description="Dotted and stable, for programs.", examples=[Code.PROFILE_UNKNOWN.value])
    path: str = Field(description="Where it stands.", examples=["spec.profile"])
    message: str = Field(description="A sentence that stands alone.", examples=["there is no profile `1xa10`"])
    value: Any = Field(default=None, description="What was given there.", examples=["1xa10"])
    allowed: str | None = Field(default=None, description="What may stand there.", examples=["1xa100, small"])
    suggestion: str | None = Field(default=None, description="The nearest right thing.", examples=["1xa100"])


class ErrorResponse(BaseModel):
    """Why there is no other answer."""

    status: int = Field(description="The HTTP status.", examples=[400])
    message: str = Field(
        description="For people: every problem on a line of its own.", examples=["No such EntityName: run r1"]
    )
    errorCode: str | None = Field(default=None, description="For programs.", examples=["refused"])  # noqa: N815 - DigitalHub's name
    errors: list[ReportedProblem] = Field(default_factory=list, description="Every problem of the request.")
    request_id: str | None = Field(
        default=None, description="What the server's log calls this request.", examples=["5f1c"]
    )


class EntityBody(BaseModel):
    """An entity as a client writes it."""

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
        description="What it is: `python`, `container`, `python+job`, `container+job:run` …", examples=["container"]
    )
    id: str | None = Field(
        default=None, description="Chosen by the client; made if it is not said.", examples=["0a1b2c"]
    )
    name: str | None = Field(default=None, description="The name; versions share it.", examples=["hello"])
    project: str | None = Field(default=None, description="The project; that of the address.", examples=["demo"])
    key: str | None = Field(
        default=None,
        description="Ignored: the server makes it.",
        examples=["store://demo/function/container/hello:0a1b2c"],
    )
    user: str | None = Field(default=None, description="Ignored: the server knows it.", examples=["ada"])
    metadata: Json = Field(
        default_factory=dict, description="Labels, description, relationships.", examples=[{"labels": ["demo"]}]
    )
    spec: Json = Field(
        default_factory=dict,
        description="What it is made of; its schema is under `/schemas`.",
        examples=[{"image": "busybox:1.36"}],
    )
    status: Json = Field(
        default_factory=dict, description="What clients may say of it.", examples=[{"state": "CREATED"}]
    )
    extensions: list[Json] = Field(default_factory=list, description="Kept as sent.", examples=[[]])


class EntityResponse(BaseModel):
    """An entity."""

    model_config = ConfigDict(extra="allow")
    id: str = Field(description="The id.", examples=["0a1b2c"])
    kind: str = Field(description="What it is.", examples=["container"])
    name: str = Field(description="The name.", examples=["hello"])
    project: str = Field(description="The project.", examples=["demo"])
    key: str = Field(description="Where it is found.", examples=["store://demo/function/container/hello:0a1b2c"])
    user: str = Field(description="Who made it.", examples=["ada"])
    metadata: Json = Field(description="Times, labels, version.", examples=[{"created": "2026-11-15T12:00:00.000000Z"}])
    spec: Json = Field(description="What it is made of.", examples=[{"image": "busybox:1.36"}])
    status: Json = Field(description="Its state and what belongs to it.", examples=[{"state": "CREATED"}])


class PageResponse(BaseModel):
    """One page of a list."""

    model_config = ConfigDict(extra="allow")
    content: list[Json] = Field(description="The entries, complete.", examples=[[]])
    totalElements: int = Field(description="How many there are in all.", examples=[45])  # noqa: N815 - DigitalHub's name
    totalPages: int = Field(description="How many pages there are.", examples=[2])  # noqa: N815 - DigitalHub's name
    number: int = Field(description="The number of this page.", examples=[0])
    size: int = Field(description="Entries in a full page.", examples=[25])


class ExplanationResponse(BaseModel):
    """What a run would get, and who decides each value."""

    effective: Json | None = Field(description="Every value of the run.", examples=[{"image": "busybox:1.36"}])
    provenance: list[Json] = Field(
        description="Who set each leaf, and what it replaced.", examples=[[{"path": "image", "set_by": "function"}]]
    )
    warnings: list[ReportedProblem] = Field(description="What is doubtful or not used.")
    refusals: list[ReportedProblem] = Field(description="What stands against it; empty if it may run.")
    profile_revision: int | None = Field(default=None, description="Of the profile that was used.", examples=[3])
    policy_revision: int | None = Field(default=None, description="Of the policy that was used.", examples=[7])


class EffectiveResponse(BaseModel):
    """What a run got, as it was decided when it was submitted."""

    run: str = Field(description="The run's id.", examples=["r1"])
    effective: Json | None = Field(
        description="Every value; none for a run that its client executes.", examples=[{"image": "busybox:1.36"}]
    )
    provenance: list[Json] = Field(description="Who set each leaf, and what it replaced.", examples=[[]])
    warnings: list[ReportedProblem] = Field(description="What was doubtful or not used.")
    request: Json = Field(description="What was asked, as sent.", examples=[{"kind": "container+job:run"}])
    request_hash: str = Field(description="What makes a repeated submit the same run.", examples=["9f86d081"])
    profile_revision: int | None = Field(default=None, description="Of the profile that was used.", examples=[3])
    policy_revision: int | None = Field(default=None, description="Of the policy that was used.", examples=[7])


class AnyBody(BaseModel):
    """A document in the form of its own schema (`runyard schema profile`, `runyard schema policy`)."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"example": {"resources": {"mem": {"max": "64Gi"}}}})


class ValuesBody(BaseModel):
    """Values of secrets by their names."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"example": {"my-secret": "its value"}})


class TokenBody(BaseModel):
    """A personal token as it is asked for."""

    name: str = Field(default="token", description="A name for you.", examples=["laptop"])
    scopes: list[str] = Field(
        default_factory=list, description="`read`, `write`, `admin`; none limits nothing.", examples=[["read"]]
    )
    days: int = Field(default=365, ge=1, le=3650, description="How long it is good.", examples=[90])


class ProfileResponse(BaseModel):
    """A profile: as it was written, and as it was read."""

    name: str = Field(description="What runs call it.", examples=["1xa100"])
    title: str = Field(description="Its name for people; the same if none was written.", examples=["One A100"])
    description: str = Field(description="For people.", examples=["One A100 with 8 cores"])
    fields: Json = Field(description="What it sets, over what users set.", examples=[{"resources": {"gpu": 1}}])
    base: dict[str, Json] = Field(
        description="What its base objects set, under what users set.",
        examples=[{"Job": {"node_selector": {"a": "b"}}}],
    )
    revision: int = Field(description="Counts what was written; the ETag.", examples=[3])
    user: str = Field(description="Who wrote this revision.", examples=["ada"])
    time: str = Field(description="When.", examples=["2026-11-15T12:00:00.000000Z"])
    is_deleted: bool = Field(description="Always false here.", examples=[False])
    document: Json = Field(description="As it was written.", examples=[{"id": "1xa100", "resources": {"gpu": 1}}])
    warnings: list[ReportedProblem] = Field(
        description="What is doubtful, or stands against the policy; not told in lists."
    )


class RevisionResponse(BaseModel):
    """What a profile or the policy was at one time."""

    revision: int = Field(description="The number of the revision.", examples=[3])
    user: str = Field(description="Who wrote it.", examples=["ada"])
    time: str = Field(description="When.", examples=["2026-11-15T12:00:00.000000Z"])
    is_deleted: bool = Field(description="Whether this revision is a deletion.", examples=[False])
    document: Json | None = Field(
        default=None, description="As it was written; a deletion has none.", examples=[{"id": "1xa100"}]
    )


class PolicyResponse(BaseModel):
    """The rules that hold for runs."""

    is_built_in: bool = Field(description="Whether no admin has written one.", examples=[False])
    document: Json = Field(description="As it was written.", examples=[{"resources": {"mem": {"max": "64Gi"}}}])
    revision: int = Field(description="Counts what was written, 0 if nothing was; the ETag.", examples=[7])
    user: str | None = Field(default=None, description="Who wrote it.", examples=["ada"])
    time: str | None = Field(default=None, description="When.", examples=["2026-11-15T12:00:00.000000Z"])
    is_deleted: bool = Field(description="Whether there is none, or it was deleted.", examples=[False])
    built_in: Json = Field(
        description="What holds where the policy says nothing, and what is denied unless it allows it.",
        examples=[{"platform": {"pod_security": "restricted"}}],
    )
    warnings: list[ReportedProblem] = Field(
        description="What does nothing; when it is written, also which profiles it stands against."
    )


class RehearsalBody(BaseModel):
    """What would be applied, and the runs it is played against."""

    policy: Json | None = Field(
        default=None,
        description="The candidate policy; null is the built-in one; left out, the one that holds.",
        examples=[{"resources": {"mem": {"max": "64Gi"}}}],
    )
    profiles: dict[str, Json | None] = Field(
        default_factory=dict,
        description="Candidate profiles by name, beside those that hold; null takes one away.",
        examples=[{"small": {"resources": {"mem": "1Gi"}}}],
    )
    since: str | None = Field(
        default=None, description="Runs submitted from then on.", examples=["2026-11-01T00:00:00Z"]
    )
    until: str | None = Field(default=None, description="Runs submitted until then.", examples=["2026-11-15T00:00:00Z"])
    project: str | None = Field(default=None, description="Of one project only.", examples=["demo"])
    limit: int = Field(default=1000, ge=1, le=10_000, description="At most so many, the newest.", examples=[1000])


class RehearsedRun(BaseModel):
    """What would become of one run."""

    id: str = Field(description="The run's id.", examples=["r1"])
    project: str = Field(description="Its project.", examples=["demo"])
    outcome: str = Field(
        description="refused, accepted, changed, unchanged (with other refusals), or unreadable.", examples=["changed"]
    )
    direction: str | None = Field(
        default=None, description="Of what it gets: smaller, larger or mixed.", examples=["smaller"]
    )
    changes: list[Json] = Field(
        default_factory=list,
        description="Values that would differ, and who decides them.",
        examples=[[{"path": "resources.mem.limit", "old": "8Gi", "new": "4Gi", "by": "policy"}]],
    )
    refusals: list[ReportedProblem] = Field(
        default_factory=list, description="What would stand against it, or why it cannot be read."
    )


class RehearsalResponse(BaseModel):
    """What other rules would have done."""

    counts: dict[str, int] = Field(
        description="Runs by outcome, the changed ones also by direction; those that clients execute are `local`.",
        examples=[{"refused": 2, "accepted": 0, "changed": 5, "smaller": 5, "unchanged": 93, "unreadable": 0}],
    )
    runs: list[RehearsedRun] = Field(description="Those that are not unchanged, the newest first.")
    left_out: int = Field(description="How many more there are of those.", examples=[0])
    total: int = Field(description="Runs in the time span; `limit` of them were played.", examples=[100])


class VolumeBody(BaseModel):
    """A volume as it is asked for."""

    name: str = Field(description="Lower-case letters, digits and dashes; free in the project.", examples=["datasets"])
    kind: str = Field(default="volume", description="`volume`.", examples=["volume"])
    project: str | None = Field(default=None, description="The project; that of the address.", examples=["demo"])
    metadata: Json = Field(
        default_factory=dict, description="Labels, description.", examples=[{"description": "what we train on"}]
    )
    spec: Json = Field(
        default_factory=dict,
        description="`size` and `storage_class`; the policy's defaults where they are not said.",
        examples=[{"size": "100Gi", "storage_class": "fast"}],
    )


class SearchItem(BaseModel):
    """Something that was found."""

    model_config = ConfigDict(extra="allow")
    type: str = Field(description="function, run, artifact …", examples=["function"])
    id: str = Field(description="The id.", examples=["0a1b2c"])
    key: str = Field(description="Where it is found.", examples=["store://demo/function/container/hello:0a1b2c"])
    kind: str = Field(description="What it is.", examples=["container"])
    name: str = Field(description="The name.", examples=["hello"])
    project: str = Field(description="The project.", examples=["demo"])
    metadata: Json = Field(description="Times, labels, description.", examples=[{"labels": ["demo"]}])
    status: Json = Field(description="Its state.", examples=[{"state": "CREATED"}])


class SearchResponse(BaseModel):
    """One page of what was found."""

    model_config = ConfigDict(extra="allow")
    content: list[SearchItem] = Field(description="What was found, in order.")
    totalElements: int = Field(description="How many there are in all, 1000 at most.", examples=[3])  # noqa: N815 - DigitalHub's name
    totalPages: int = Field(description="How many pages there are.", examples=[1])  # noqa: N815 - DigitalHub's name
    number: int = Field(description="The number of this page.", examples=[0])
    size: int = Field(description="Entries in a full page.", examples=[25])


class AuditItem(BaseModel):
    """One act."""

    sequence: int = Field(description="Counts all acts.", examples=[1042])
    time: str = Field(description="When.", examples=["2026-11-15T12:00:00.000000Z"])
    actor: str = Field(description="Who.", examples=["ada"])
    action: str = Field(description="What.", examples=["run.submit"])
    project: str | None = Field(default=None, description="Where.", examples=["demo"])
    type: str | None = Field(default=None, description="To what type of thing.", examples=["run"])
    id: str | None = Field(default=None, description="To which of them.", examples=["r1"])
    result: str = Field(description="With what result.", examples=["done"])
    address: str | None = Field(default=None, description="From where.", examples=["192.0.2.7"])
    details: Json = Field(description="What belongs to it; never a secret's value.", examples=[{"revision": 3}])


class AuditResponse(BaseModel):
    """What was done, newest first."""

    entries: list[AuditItem] = Field(description="The acts.")
    next: int | None = Field(default=None, description="For `before`, to go on; not there at the end.", examples=[1000])


class RunEvent(BaseModel):
    """One step in the life of a run."""

    sequence: int = Field(description="Counts the steps of this run, from 1.", examples=[2])
    status: str = Field(description="The state it came to.", examples=["READY"])
    time: str = Field(description="When.", examples=["2026-11-15T12:00:00.000000Z"])
    actor: str = Field(description="Who brought it there.", examples=["ada"])
    reason: str | None = Field(default=None, description="Dotted and stable.", examples=[Reason.USER_SUBMIT.value])
    message: str | None = Field(default=None, description="For people.", examples=["stopped by ada"])


class ContainerLog(BaseModel):
    """What one container of a run wrote."""

    id: str = Field(description="Made of run, pod and container.", examples=["r1-pod-main"])
    kind: str = Field(description="`log`.", examples=["log"])
    project: str = Field(description="The project.", examples=["demo"])
    name: str = Field(description="The same as the id.", examples=["r1-pod-main"])
    run: str = Field(description="The run's id.", examples=["r1"])
    user: str = Field(description="Whose run it is.", examples=["ada"])
    metadata: Json = Field(description="When its first and last bytes were written.", examples=[{"project": "demo"}])
    spec: Json = Field(
        description="The run, and when, in milliseconds.", examples=[{"run": "r1", "timestamp": 1794726783348}]
    )
    status: Json = Field(
        description="Which container of which pod; how many bytes there are, and from which on they are here.",
        examples=[{"container": "main", "pod": "r1-abcde", "size": 5, "offset": 0}],
    )
    content: str = Field(description="The last 2 MiB, base64 of UTF-8.", examples=["aGkgNDEK"])


class ProfileList(RootModel[list[ProfileResponse]]):
    """Profiles, by name."""


class RevisionList(RootModel[list[RevisionResponse]]):
    """Revisions, newest first."""


class EventList(RootModel[list[RunEvent]]):
    """The steps of a run, oldest first."""


class LogList(RootModel[list[ContainerLog]]):
    """The logs of a run, in the order in which they began."""
