"""Request and response models of volumes in the OpenAPI document, beside those of `openapi_models.py`."""

from pydantic import BaseModel, ConfigDict, Field

from runyard.api.openapi_models import EntityResponse, Json, PageResponse
from runyard.domain.reasons import Reason


class VolumeBody(BaseModel):
    """A request for a volume."""

    name: str = Field(
        description="Lower-case letters, digits and dashes; unique in the project.", examples=["datasets"]
    )
    kind: str = Field(default="volume", description="`volume`.", examples=["volume"])
    project: str | None = Field(default=None, description="The project; must match the URL.", examples=["demo"])
    metadata: Json = Field(
        default_factory=dict, description="Labels, description.", examples=[{"description": "what we train on"}]
    )
    spec: Json = Field(
        default_factory=dict,
        description="`size` and `storage_class`; by default those of the policy.",
        examples=[{"size": "100Gi", "storage_class": "fast"}],
    )


class VolumeOwner(BaseModel):
    """Whose a volume is."""

    user: str = Field(description="Who created it, or submitted its run.", examples=["ada"])
    run: str | None = Field(default=None, description="For a claim that outlives its run: the run.", examples=["r1"])
    run_uid: str | None = Field(default=None, description="The uid of that run.", examples=["6f2a"])


class VolumeUser(BaseModel):
    """A run that uses a volume."""

    id: str | None = Field(
        default=None, description="The run; absent if only the engine still has it.", examples=["r1"]
    )
    uid: str = Field(description="Its uid.", examples=["6f2a"])
    is_mounted: bool = Field(description="Whether the engine has the volume mounted for it.", examples=[True])


class VolumeStatus(BaseModel):
    """The ledger's entry of a volume."""

    model_config = ConfigDict(extra="allow")
    state: str = Field(
        description="CREATED: no engine has it yet; READY; ERROR: refused or lost; DELETING.", examples=["READY"]
    )
    claim_name: str = Field(description="Its PersistentVolumeClaim.", examples=["vol-0a1b2c"])
    place: str | None = Field(default=None, description="Where it is; absent: nowhere yet.", examples=["local/1"])
    phase: str | None = Field(default=None, description="pending, bound, lost or removing.", examples=["bound"])
    size: str | None = Field(
        default=None, description="What it really has; `spec.size` was asked for.", examples=["10Gi"]
    )
    storage_class: str | None = Field(default=None, description="What it really has.", examples=["standard"])
    owner: VolumeOwner = Field(description="Whose it is.")
    lifetime: int | str = Field(
        description="`keep`, or for how many seconds it is kept after the end of its run.", examples=["keep", 3600]
    )
    ended_at: str | None = Field(
        default=None, description="When its run ended.", examples=["2026-11-15T12:00:00+00:00"]
    )
    expires_at: str | None = Field(
        default=None, description="When it is deleted, if nobody uses it then.", examples=["2026-11-22T12:00:00+00:00"]
    )
    in_use_by: list[VolumeUser] = Field(
        description="Runs that name it and have not ended or can be resumed, or have it mounted; at most 20."
    )
    in_use_count: int = Field(description="How many there are.", examples=[1])
    last_mounted_at: str | None = Field(
        default=None,
        description="When the last run unmounted it; while it is mounted, since when it is.",
        examples=["2026-11-15T12:00:00+00:00"],
    )
    reason: str | None = Field(default=None, description="Why it is not READY.", examples=[Reason.VOLUME_REMOVING])
    message: str | None = Field(default=None, description="For people.", examples=["the claim is being removed"])


class VolumeResponse(EntityResponse):
    """A volume."""

    status: VolumeStatus = Field(description="The ledger's entry.")  # type: ignore[assignment]


class VolumePage(PageResponse):
    """One page of the volume ledger."""

    content: list[VolumeResponse] = Field(description="The volumes of this page.")  # type: ignore[assignment]


class OrphanedVolume(BaseModel):
    """A claim that no volume of the ledger knows."""

    project: str = Field(description="The project that it names.", examples=["demo"])
    claim: str = Field(description="The PersistentVolumeClaim.", examples=["vol-0a1b2c"])
    volume_id: str | None = Field(description="The id that it carries.", examples=["0a1b2c"])
    phase: str = Field(description="pending, bound, lost or removing.", examples=["bound"])
    size: str | None = Field(description="What it has.", examples=["10Gi"])
    storage_class: str | None = Field(description="What it has.", examples=["standard"])
    mounted_by: list[str] = Field(description="Uids of runs.", examples=[[]])
    message: str | None = Field(description="For people.", examples=[None])


class OrphanedVolumesResponse(BaseModel):
    """Claims at this server's place that no volume knows. Nothing removes them."""

    place: str = Field(description="Where they are.", examples=["kubernetes/0c1e"])
    count: int = Field(description="How many there are.", examples=[0])
    claims: list[OrphanedVolume] = Field(description="At most 1000 of them.", examples=[[]])
