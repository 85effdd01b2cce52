r"""Text in Markdown, as GitHub reads it: log text is full of its marks, and none may take effect.

>>> prose("a_b <c> | *d* `e`")
'a\\_b \\<c\\> \\| \\*d\\* \\`e\\`'
>>> code("x | `y`"), cell(code("x | y"))
('`` x | `y` ``', '`x \\| y`')
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence

from forensics.events.authoring.showing import plain

__all__ = ["anchor", "cell", "code", "fenced", "prose", "table"]

_MARKS = re.compile(r"([\\`*_\[\]<>|~&$])")
# What makes a heading or a list, where a text begins.
_FIRST = re.compile(r"^(?=[-+#])|^(\d+)(?=[.)])")
_TICKS = re.compile(r"`+")
_PIPE = re.compile(r"(?<!\\)\|")


def prose(text: str) -> str:
    r"""Write plain text so that it is shown as it is.

    >>> prose("# 1 - 2"), prose("1. no list"), prose("- none either")
    ('\\# 1 - 2', '1\\. no list', '\\- none either')
    """
    return _FIRST.sub(r"\1\\", _MARKS.sub(r"\\\1", plain(text)))


def code(text: str) -> str:
    """Write text in a line as code; the fence is longer than any of its backticks."""
    text = plain(text)
    fence = "`" * (_longest(text) + 1)
    blank = " " if len(fence) > 1 else ""
    return f"{fence}{blank}{text}{blank}{fence}"


def fenced(lines: Iterable[str]) -> str:
    """Write lines as a block of text."""
    shown = [plain(line) for line in lines]
    fence = "`" * max(3, max(map(_longest, shown), default=0) + 1)
    return "\n".join([f"{fence}text", *shown, fence])


def cell(markdown: str) -> str:
    """Fit Markdown into a cell of a table, which ends at a bar even inside of code."""
    return _PIPE.sub(r"\\|", markdown)


def anchor(name: str) -> str:
    """Make a place to link to; what GitHub makes of headings loses dots."""
    return f'<a id="{html.escape(name)}"></a>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table; the cells are Markdown already."""
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(cell, row))} |"


def _longest(text: str) -> int:
    return max((len(run) for run in _TICKS.findall(text)), default=0)
