"""A still of a recording as SVG: all its lines, with their colours. Only what our commands print is understood."""

import re
from html import escape

from examples.recording.terminal import WIDTH

LINE, LETTER, MARGIN = 18, 8.43, 14
"""Pixels of a line, of a letter of the font, and around the text."""
COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "36": "#79c0ff"}
_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_STYLE = "font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre"


def render_still(shown: str) -> str:
    """The SVG. Raises `ValueError` for anything that is not a line of text with colours."""
    lines = shown.replace("\r\n", "\n").rstrip().split("\n")
    if lines[-1:] == ["\x1b[32m$\x1b[0m"]:
        lines.pop()  # the last prompt
    height = LINE * len(lines) + 2 * MARGIN
    width = round(LETTER * WIDTH) + 2 * MARGIN
    style, rows = Style(), []
    for number, line in enumerate(lines):
        spans = "".join(style.render(line))
        rows.append(f'<text x="{MARGIN}" y="{MARGIN + LINE * number + 13}">{spans}</text>\n')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/>\n'
        f'<g fill="#e6edf3" style="{_STYLE}" xml:space="preserve">\n{"".join(rows)}</g>\n</svg>\n'
    )


class Style:
    """The colour and weight at a place of the text."""

    def __init__(self) -> None:
        self._colour: str | None = None
        self._is_bold = False

    def render(self, line: str) -> list[str]:
        """The spans of a line."""
        spans = []
        for number, part in enumerate(_SGR.split(line)):
            if number % 2:
                self._change(part)
            elif part:
                if not part.isprintable():
                    raise ValueError(f"a still cannot show {part!r}")
                spans.append(self._wrap(escape(part)))
        return spans

    def _change(self, codes: str) -> None:
        for code in codes.split(";"):
            if code in ("", "0"):
                self._colour, self._is_bold = None, False
            elif code == "1":
                self._is_bold = True
            elif code in COLOURS:
                self._colour = COLOURS[code]
            else:
                raise ValueError(f"a still does not know the colour {code}")

    def _wrap(self, text: str) -> str:
        given = f' fill="{self._colour}"' if self._colour else ""
        given += ' font-weight="bold"' if self._is_bold else ""
        return f"<tspan{given}>{text}</tspan>" if given else text
