"""Kind `python`: code with a handler, in the image of its Python version unless a layer names another."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from runyard.spec.kinds.function_kind import FunctionKind, FunctionSpec, VersionedImages
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem
from runyard.spec.readers import describe_type

_CODE = ("source", "code", "base64")
_SCHEME = re.compile(r"\s*[a-zA-Z][a-zA-Z0-9+.-]*:")


class PythonSpec(FunctionSpec):
    """The spec of a `python` function: its code, and the version it is written for."""


def _check_spec(spec: FunctionSpec) -> Sequence[Problem]:
    return _check_source(spec.source or {})


def _check_source(source: Mapping[str, Any]) -> list[Problem]:
    """Without code and handler nothing can be run, and SDKs cannot read any list that contains the function."""
    problems = [
        Problem(Code.TYPE_TEXT, ("source", key), f"must be text, not {describe_type(source[key])}")
        for key in ("handler", *_CODE)
        if not isinstance(source.get(key, ""), str)
    ]
    if not source.get("handler"):
        message = "missing spec: a python function needs the `handler` of its code"
        problems.append(Problem(Code.FIELD_MISSING, ("source", "handler"), message))
    if not any(source.get(key) for key in _CODE):
        message = "missing spec: a python function needs its code"
        problems.append(Problem(Code.FIELD_MISSING, ("source",), message, allowed=", ".join(_CODE)))
    elif not problems and not source.get("code") and not source.get("base64") and _is_path(source["source"]):
        message = "is a path on the client, which the server cannot read; send the text in `code` or `base64`"
        allowed = "an address, such as git+https://… or s3://…"
        problems.append(
            Problem(Code.SOURCE_LOCAL, ("source", "source"), message, value=source["source"], allowed=allowed)
        )
    return problems


def _is_path(source: str) -> bool:
    """Whether it has no URL scheme. SDKs look for such a file wherever they run."""
    return _SCHEME.match(source) is None


PYTHON = FunctionKind(
    name="python",
    actions=("job", "serve", "build"),
    spec_model=PythonSpec,
    required_fields=("python_version", "source"),
    check_spec=_check_spec,
    default_images=VersionedImages(version_field="python_version", platform_choice="python_images"),
    needs_launcher=True,
    source_language="python",
)
