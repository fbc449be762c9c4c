"""Request and response models of plans in the OpenAPI document, beside those of `openapi_models.py`."""

from pydantic import BaseModel, ConfigDict, Field

from runyard.api.openapi_models import EntityBody, Json, ReportedProblem


class Drafts(BaseModel):
    """What a run refers to and what is not stored yet, each as it would be created."""

    function: EntityBody | None = Field(
        default=None,
        description="A function.",
        examples=[{"kind": "container", "name": "hello", "id": "f1", "spec": {"image": "busybox:1.36"}}],
    )
    task: EntityBody | None = Field(
        default=None,
        description="A task of it, or of a stored function.",
        examples=[{"kind": "container+job", "id": "t1", "spec": {"function": "container://demo/hello:f1"}}],
    )


class PlanBody(EntityBody):
    """A run, and definitions that it refers to. Nothing is stored."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "kind": "container+job:run",
                "spec": {"task": "container+job://demo/t1"},
                "drafts": {
                    "function": {
                        "kind": "container",
                        "name": "hello",
                        "id": "f1",
                        "spec": {"image": "busybox:1.36", "command": "echo"},
                    },
                    "task": {"kind": "container+job", "id": "t1", "spec": {"function": "container://demo/hello:f1"}},
                },
            }
        }
    )
    drafts: Drafts | None = Field(
        default=None, description="Definitions that are found before stored ones.", examples=[{}]
    )


class ExplanationResponse(BaseModel):
    """The effective spec that a run would get, and who sets each value."""

    effective: Json | None = Field(description="The effective spec.", examples=[{"image": "busybox:1.36"}])
    provenance: list[Json] = Field(
        description="For each field, who set it and what it replaced.",
        examples=[[{"path": "image", "set_by": "function"}]],
    )
    warnings: list[ReportedProblem] = Field(description="Doubtful or ignored values.")
    refusals: list[ReportedProblem] = Field(description="Why the run would be refused; empty if it may run.")
    profile_revision: int | None = Field(default=None, description="Revision of the profile used.", examples=[3])
    policy_revision: int | None = Field(default=None, description="Revision of the policy used.", examples=[7])


class RenderingResponse(BaseModel):
    """The Kubernetes objects that a run would become."""

    objects: list[Json] = Field(
        description="In the order in which they can be applied. Values of secrets are empty.",
        examples=[[{"apiVersion": "batch/v1", "kind": "Job"}]],
    )
    warnings: list[ReportedProblem] = Field(description="Doubtful or ignored values.")
    profile_revision: int | None = Field(default=None, description="Revision of the profile used.", examples=[3])
    policy_revision: int | None = Field(default=None, description="Revision of the policy used.", examples=[7])
