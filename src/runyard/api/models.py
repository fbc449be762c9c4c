"""The answers as OpenAPI describes them. They document; answers are written by `answers.py`."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

Json = dict[str, Any]


class ProblemAnswer(BaseModel):
    """One thing that is wrong or doubtful."""

    code: str = Field(description="Dotted and stable, for programs.", examples=["profile.unknown"])
    path: str = Field(description="Where it stands.", examples=["spec.profile"])
    message: str = Field(description="A sentence that stands alone.", examples=["there is no profile `1xa10`"])
    value: Any = Field(default=None, description="What was given there.", examples=["1xa10"])
    allowed: str | None = Field(default=None, description="What may stand there.", examples=["1xa100, small"])
    suggestion: str | None = Field(default=None, description="The nearest right thing.", examples=["1xa100"])


class ErrorAnswer(BaseModel):
    """Why there is no other answer."""

    status: int = Field(description="The HTTP status.", examples=[400])
    message: str = Field(
        description="For people: every problem on a line of its own.", examples=["No such EntityName: run r1"]
    )
    errorCode: str | None = Field(default=None, description="For programs.", examples=["refused"])  # noqa: N815 - DigitalHub's name
    errors: list[ProblemAnswer] = Field(default_factory=list, description="Every problem of the request.")
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


class EntityAnswer(BaseModel):
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


class PageAnswer(BaseModel):
    """One page of a list."""

    model_config = ConfigDict(extra="allow")
    content: list[Json] = Field(description="The entries, complete.", examples=[[]])
    totalElements: int = Field(description="How many there are in all.", examples=[45])  # noqa: N815 - DigitalHub's name
    totalPages: int = Field(description="How many pages there are.", examples=[2])  # noqa: N815 - DigitalHub's name
    number: int = Field(description="The number of this page.", examples=[0])
    size: int = Field(description="Entries in a full page.", examples=[25])


class ExplanationAnswer(BaseModel):
    """What a run would get, and who decides each value."""

    effective: Json | None = Field(description="Every value of the run.", examples=[{"image": "busybox:1.36"}])
    provenance: list[Json] = Field(
        description="Who set each leaf, and what it replaced.", examples=[[{"path": "image", "set_by": "function"}]]
    )
    warnings: list[ProblemAnswer] = Field(description="What is doubtful or not used.")
    refusals: list[ProblemAnswer] = Field(description="What stands against it; empty if it may run.")
    profile_revision: int | None = Field(default=None, description="Of the profile that was used.", examples=[3])
    policy_revision: int | None = Field(default=None, description="Of the policy that was used.", examples=[7])


class EffectiveAnswer(BaseModel):
    """What a run got, as it was decided when it was submitted."""

    run: str = Field(description="The run's id.", examples=["r1"])
    effective: Json | None = Field(
        description="Every value; none for a run that its client executes.", examples=[{"image": "busybox:1.36"}]
    )
    provenance: list[Json] = Field(description="Who set each leaf, and what it replaced.", examples=[[]])
    warnings: list[ProblemAnswer] = Field(description="What was doubtful or not used.")
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
