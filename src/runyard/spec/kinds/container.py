"""Kind `container`: an image and its program."""

from runyard.spec.kinds.function_kind import FunctionKind, FunctionSpec


class ContainerSpec(FunctionSpec):
    """The spec of a `container` function: its image and program, and defaults for its runs."""


CONTAINER = FunctionKind(
    name="container",
    actions=("job", "serve", "deploy", "build"),
    spec_model=ContainerSpec,
    required_fields=("image",),
    inapplicable_fields=frozenset({"parameters", "inputs", "init_parameters", "requirements", "python_version"}),
    actions_scaled_to_zero=frozenset({"serve"}),
)
