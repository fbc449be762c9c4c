"""PyYAML's errors as problems: line, column, cause and remedy. Values are never quoted."""

import re

from yaml.error import Mark, MarkedYAMLError

from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, shorten

_LOST = "the indentation seems to be lost; indent the content of a list item or key further than it"
_INDENTATION = "this line does not match those above: check its indentation, and that every key ends with `:`"

_SENTENCES: tuple[tuple[str, str], ...] = (
    (r"found character '\\t'", "a tab in the indentation; use spaces"),
    (r"found character '([@`%])'", "a value cannot begin with `{0}` unless it is quoted"),
    (
        "mapping values are not allowed",
        "a `:` where no key is allowed: quote a value that contains `: `, and check the indentation",
    ),
    ("could not find expected ':'", "the key that begins here has no `:` after it"),
    ("unexpected end of stream", "the quote that opens here is never closed"),
    ("unexpected document separator", "the quote that opens here is not closed before the document ends"),
    ("unknown escape character", r"unknown escape sequence in double quotes; write `\\`, or use single quotes"),
    ("escape sequence of", "an escape sequence in double quotes lacks hexadecimal digits"),
    ("sequence entries are not allowed", "a list item `- ` is not allowed here; put it on a line of its own"),
    ("mapping keys are not allowed", "a key `? ` is not allowed here"),
    (r"expected ',' or '\]'", "the `[` that opens here is not closed, or a comma is missing in it"),
    (r"expected ',' or '\}'", "the `{{` that opens here is not closed, or a comma is missing in it"),
    (r"but found '[\]}}]'", "a closing bracket without an opening one"),
    ("but found ','", "a comma is not allowed here; remove it, or quote the value it belongs to"),
    (
        "expected '<document start>'",
        "the document ended above, and this does not begin a new one; check its indentation",
    ),
    ("expected the node content", "a value is missing here"),
    ("expected <block end>", _INDENTATION),
    (
        "block scalar|chomping or indentation|a comment or a line break",
        "after `|` or `>` the text begins on a new line",
    ),
    ("tag handle|expected URI|'!'", "unknown tag; quote a value that begins with `!`"),
    (
        "alphabetic or numeric character",
        "the name of an anchor `&` or alias `*` is missing; quote the value if it is text",
    ),
    ("YAML document|directive|a digit", "the `%` line is not a valid YAML 1 directive"),
)
# For these errors PyYAML reports the position where it noticed them; their cause is at the beginning.
_LOOK_AT_THE_BEGINNING = re.compile(r"could not find expected ':'|unexpected end of stream|document separator|',' or '")


def explain_syntax_error(error: MarkedYAMLError, last_key: tuple[str, int] | None) -> Problem:
    """PyYAML's error as a problem; `last_key` is the last complete key before it, and its line."""
    problem = error.problem or ""
    mark = error.problem_mark or error.context_mark
    if error.context_mark and _LOOK_AT_THE_BEGINNING.search(problem):
        mark = error.context_mark
    if lost := _describe_lost_indentation(error, last_key):
        return _make(Code.YAML_INDENTATION, mark, lost)
    return _make(Code.YAML_SYNTAX, mark, _find_sentence(problem))


def _describe_lost_indentation(error: MarkedYAMLError, last_key: tuple[str, int] | None) -> str | None:
    """The message for a list item where a key is expected, or a key where an item is expected, in the same column."""
    here, outer = error.problem_mark, error.context_mark
    if not here or not outer or here.column != outer.column:
        return None
    context, problem = error.context or "", error.problem or ""
    if "block mapping" in context and "but found '-'" in problem:
        ended = (
            f", but `{shorten(last_key[0])}` in line {last_key[1]} ended the list"
            if last_key
            else " where a key is expected"
        )
        return f"a list item begins here{ended}: {_LOST}"
    if "block collection" in context and "but found '?'" in problem:
        return f"a key begins here, but the lines above are items of a list: {_LOST}"
    return None


def _find_sentence(problem: str) -> str:
    for pattern, sentence in _SENTENCES:
        if match := re.search(pattern, problem):
            return sentence.format(*match.groups())
    return "this is not valid YAML"


def _make(code: Code, mark: Mark | None, message: str) -> Problem:
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    return Problem(code, (), f"line {line}, column {column}: {message}")
