"""PyYAML's errors in plain words: where, what is wrong, and what to do about it. Values are never quoted."""

import re

from yaml.error import Mark, MarkedYAMLError

from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, shorten

_LOST = "the indentation seems to be lost; what belongs to a list item or a key stands further right than it"
_INDENTATION = "this line does not fit the ones above: check its indentation, and that every key ends with `:`"

_SENTENCES: tuple[tuple[str, str], ...] = (
    (r"found character '\\t'", "a tab in the indentation; YAML wants spaces there"),
    (r"found character '([@`%])'", "a value cannot begin with `{0}` unless it is quoted"),
    (
        "mapping values are not allowed",
        "a `:` where no key can stand: quote a value with `: ` in it, and check the indentation",
    ),
    ("could not find expected ':'", "there is no `:` after the key that begins here"),
    ("unexpected end of stream", "the quote that opens here is never closed"),
    ("unexpected document separator", "the quote that opens here is not closed before the document ends"),
    ("unknown escape character", r"a backslash in double quotes needs a known letter after it; write `\\`, or use '…'"),
    ("escape sequence of", "an escape in double quotes lacks its hexadecimal digits"),
    ("sequence entries are not allowed", "a list item `- ` cannot stand here; begin it on a line of its own"),
    ("mapping keys are not allowed", "a key `? ` cannot stand here"),
    (r"expected ',' or '\]'", "the `[` that opens here is not closed, or a comma is missing in it"),
    (r"expected ',' or '\}'", "the `{{` that opens here is not closed, or a comma is missing in it"),
    (r"but found '[\]}}]'", "a closing bracket without its opening one"),
    ("but found ','", "a comma means nothing here; remove it, or quote the value it belongs to"),
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
    ("tag handle|expected URI|'!'", "this tag is not known; a value that begins with `!` must be quoted"),
    (
        "alphabetic or numeric character",
        "the name of an anchor `&` or alias `*` is missing; quote the value if it is text",
    ),
    ("YAML document|directive|a digit", "the `%` line is not one that YAML 1 knows"),
)
# In these errors PyYAML names where it noticed; where the trouble began is the place to look at.
_LOOK_AT_THE_BEGINNING = re.compile(r"could not find expected ':'|unexpected end of stream|document separator|',' or '")


def explain_syntax_error(error: MarkedYAMLError, last_key: tuple[str, int] | None) -> Problem:
    """The problem behind PyYAML's error; `last_key` is the last complete key before it, and its line."""
    problem = error.problem or ""
    mark = error.problem_mark or error.context_mark
    if error.context_mark and _LOOK_AT_THE_BEGINNING.search(problem):
        mark = error.context_mark
    if lost := _describe_lost_indentation(error, last_key):
        return _make(Code.YAML_INDENTATION, mark, lost)
    return _make(Code.YAML_SYNTAX, mark, _find_sentence(problem))


def _describe_lost_indentation(error: MarkedYAMLError, last_key: tuple[str, int] | None) -> str | None:
    """Says so when a list item stands where a key is expected, or a key where an item is, in the very same column."""
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
    return "this is not YAML"


def _make(code: Code, mark: Mark | None, message: str) -> Problem:
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    return Problem(code, (), f"line {line}, column {column}: {message}")
