import base64
import sys
from pathlib import Path
from typing import Any

import pytest

import runyard as ry
from runyard.sdk.arguments import FUNCTION_ARGUMENTS, RUN_ARGUMENTS, Resources, check_arguments, to_spec
from runyard.sdk.documents import EntityView
from runyard.sdk.function_specs import make_content_id, make_function_spec
from runyard.spec.resources import read_resources
from runyard.spec.run_fields import USER_FIELDS


def test_every_field_of_the_contract_is_an_argument_when_one_is_added() -> None:
    assert sorted(RUN_ARGUMENTS) == sorted(USER_FIELDS)
    assert set(RUN_ARGUMENTS) < set(FUNCTION_ARGUMENTS)


def test_every_resource_of_the_contract_is_typed_when_one_is_added() -> None:
    for name in Resources.__annotations__:
        read_resources({name: "1"})


def test_nearest_argument_is_named_when_one_is_unknown() -> None:
    with pytest.raises(ry.ArgumentError, match=r"run: unknown argument `resorces`; did you mean `resources`\?$"):
        check_arguments(["resorces", "args"], known=RUN_ARGUMENTS, of="run")
    with pytest.raises(TypeError, match="unknown argument `zzzzz`; allowed: profile, resources"):
        check_arguments(["zzzzz"], known=RUN_ARGUMENTS, of="run")


def test_values_are_plain_when_they_are_sent() -> None:
    entity = EntityView({"id": "i", "key": "store://demo/model/model/net:i"})
    given: dict[str, Any] = {"inputs": {"model": entity}, "args": ("a", 1), "profile": None, "secrets": {"x"}}
    assert to_spec(given) == {"inputs": {"model": entity.key}, "args": ["a", 1], "secrets": ["x"]}
    with pytest.raises(ry.ArgumentError, match="type object cannot be sent"):
        to_spec({"args": [object()]})


def test_code_travels_as_base64_when_it_is_text_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def main(): ...\n")
    here = f"PYTHON3_{sys.version_info.minor}"
    coded = base64.b64encode(b"def main(): ...\n").decode()
    by_text = make_function_spec("python", {"code": "def main(): ...\n", "handler": "main"})
    assert by_text == {"source": {"handler": "main", "base64": coded}, "python_version": here}
    by_file = make_function_spec("python", {"code_src": "train.py", "handler": "main"}, folder=tmp_path)
    assert by_file["source"] == {"handler": "main", "base64": coded, "source": "train.py"}
    source = {"source": str(tmp_path / "train.py"), "handler": "main"}
    assert make_function_spec("python", {"source": source})["source"]["base64"] == coded
    address = make_function_spec("python", {"code_src": "git+https://host/repo", "handler": "main"})
    assert address["source"] == {"handler": "main", "source": "git+https://host/repo"}


def test_file_is_named_when_code_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ry.ArgumentError, match=r"lost\.py: cannot be read: No such file"):
        make_function_spec("python", {"code_src": "lost.py", "handler": "main"}, folder=tmp_path)
    (tmp_path / "large.py").write_text("#" * 600_000)
    with pytest.raises(ry.ArgumentError, match="allowed: at most 524288"):
        make_function_spec("python", {"code_src": "large.py", "handler": "main"}, folder=tmp_path)


def test_same_content_has_the_same_id_when_it_is_hashed_again() -> None:
    one = make_content_id("container", "box", {"image": "busybox", "args": ["a"]})
    assert one == make_content_id("container", "box", {"args": ["a"], "image": "busybox"})
    assert one != make_content_id("container", "box", {"args": ["b"], "image": "busybox"})
