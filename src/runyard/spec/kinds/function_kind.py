"""`FunctionKind`: everything that differs between kinds of functions. Other modules ask this object, never its name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem
from runyard.spec.readers import expect_text, read_by
from runyard.spec.run_fields import Action, RunFields


def _read_text(given: Any) -> str:
    return expect_text(given, what="the text", most=4096)


class FunctionSpec(RunFields):
    """The spec of a function: what it runs, and defaults for its runs."""

    base_image: Annotated[str | None, *read_by(_read_text, {"type": "string"})] = Field(
        default=None, description="The image that a build starts from."
    )


@dataclass(frozen=True, slots=True)
class VersionedImages:
    """Images by language version: the field that names the version, and the platform choice that lists the images."""

    version_field: str
    platform_choice: str


def _accept(_: FunctionSpec) -> Sequence[Problem]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionKind:
    """One kind of function. Pure data; `domain` and `manifests` act on it."""

    name: str
    """On the wire: functions are `X`, tasks `X+action`, runs `X+action:run` (up to SDK 0.13: `X+run`)."""
    actions: tuple[Action, ...]
    """What a function of this kind can be asked to do."""
    spec_model: type[FunctionSpec]
    required_fields: tuple[str, ...] = ()
    """Fields of the spec without which a function is refused when it is created."""
    check_spec: Callable[[FunctionSpec], Sequence[Problem]] = _accept
    """Further checks of a spec that has its required fields. Paths are relative to the spec."""
    inapplicable_fields: frozenset[str] = frozenset()
    """Fields that a run of this kind does not inherit from any layer: ignored, with a warning for users."""
    default_images: VersionedImages | None = None
    """Where the image comes from if no layer names one. None: a run without image is refused."""
    needs_launcher: bool = False
    """Whether a run without `command` needs a launcher as its program. Otherwise the image's own program is started."""
    source_language: str | None = None
    """The only `source.lang` that SDKs can read for this kind; None for any."""
    actions_scaled_to_zero: frozenset[Action] = frozenset()
    """Actions for which every SDK can read a task with 0 replicas."""

    @property
    def task_kinds(self) -> tuple[str, ...]:
        """The kinds of its tasks, one per action."""
        return tuple(f"{self.name}+{action}" for action in self.actions)

    @property
    def run_kinds(self) -> tuple[str, ...]:
        """The kinds of its runs, one per action."""
        return tuple(f"{kind}:run" for kind in self.task_kinds)

    @property
    def legacy_run_kind(self) -> str:
        """The one kind of all its runs up to SDK 0.13; the task says the action."""
        return f"{self.name}+run"

    def find_spec_problems(self, spec: FunctionSpec) -> list[Problem]:
        """Why no function can be created with this spec. `missing spec` is the phrase that SDKs look for."""
        missing = [
            Problem(Code.FIELD_MISSING, (field,), f"missing spec: a {self.name} function needs `{field}`")
            for field in self.required_fields
            if getattr(spec, field) is None
        ]
        return missing or [*self.check_spec(spec)]
