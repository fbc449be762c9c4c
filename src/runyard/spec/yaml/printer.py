"""Prints plain values as YAML that every parser, such as kubectl's, reads back as the same values.

Text that YAML 1.1 or 1.2 reads as another type (`on`, `1e3`, `012`, `12:30:00`, a date) is quoted. Other text that
begins with a letter, and quantities such as `10Gi` and `500m`, stay plain.
"""

import math
import re
from typing import Any

import yaml
from yaml.nodes import ScalarNode

_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"))
_AMOUNT = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi|Ei)")
_PRINTABLE = "\x20-\x7e\xa0-\u2027\u2030-\ud7ff\ue000-\ufefe\uff00-\ufffd"
_PLAIN = re.compile(f"[A-Za-z/_][{_PRINTABLE}]*")
_LITERAL = re.compile(f"(?! )[{_PRINTABLE}]+\n[\n{_PRINTABLE}]*")
_TEXT_TAG = "tag:yaml.org,2002:str"


class _Dumper(yaml.SafeDumper):
    """Accepts plain values only, and writes no anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def dump_yaml(data: Any) -> str:
    """The YAML text of a JSON value, in block style, keys in their order. Raises an error for other values."""
    return yaml.dump(
        data, Dumper=_Dumper, width=math.inf, allow_unicode=True, sort_keys=False, default_flow_style=False
    )


def _represent_text(dumper: yaml.SafeDumper, text: str) -> ScalarNode:
    if _LITERAL.fullmatch(text):
        return dumper.represent_scalar(_TEXT_TAG, text, style="|")
    is_plain = _AMOUNT.fullmatch(text) or (_PLAIN.fullmatch(text) and text.lower() not in _WORDS)
    return dumper.represent_scalar(_TEXT_TAG, text, style=None if is_plain else '"')


def _represent_float(dumper: yaml.SafeDumper, number: float) -> ScalarNode:
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a valid JSON number")
    return dumper.represent_float(number)


_PLAIN_TYPES: tuple[Any, ...] = (bool, int, type(None), list, tuple, dict, None)
_REPRESENTERS: dict[Any, Any] = {kind: yaml.SafeDumper.yaml_representers[kind] for kind in _PLAIN_TYPES}
_Dumper.yaml_representers = _REPRESENTERS | {str: _represent_text, float: _represent_float}
