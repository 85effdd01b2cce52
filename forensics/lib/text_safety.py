r"""Escapes log text, which is hostile, for where it is shown: HTML, JSON, terminal, Markdown.

Markdown is that of GitHub: no mark in a log text may take effect.

>>> md_text("a_b <c> | *d* `e`")
'a\\_b \\<c\\> \\| \\*d\\* \\`e\\`'
>>> md_code("x | `y`"), md_cell(md_code("x | y"))
('`` x | `y` ``', '`x \\| y`')
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

# Control characters (as in ANSI codes), formats (bidi, zero width, tags), halves of surrogate pairs
# and the two separators that JavaScript once took for line ends: all of them can mislead readers.
UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
KEPT = frozenset("\n\t")
IN_SCRIPT = {mark: f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"}
BROKEN = re.compile("[\ud800-\udfff]")


_UNDECODABLE = re.compile("[\udc80-\udcff]")


def escape_undecodable(text: str) -> str:
    r"""Write the bytes of a file's name that are no UTF-8 as their codes.

    >>> print(escape_undecodable(b"gr\xfcn.log".decode("utf-8", "surrogateescape")))
    gr\xfcn.log
    """
    if text.isascii():
        return text
    return _UNDECODABLE.sub(lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", text)


def visible(text: str) -> str:
    """Replace characters that a browser would hide or obey by their codes.

    >>> visible("red " + chr(27) + "[31m")
    'red ⟨U+001B⟩[31m'
    """
    if text.isprintable():
        return text
    return "".join(map(_shown, text.replace("\r\n", "\n")))


def _shown(mark: str) -> str:
    if mark in KEPT or unicodedata.category(mark) not in UNSEEN:
        return mark
    return f"⟨U+{ord(mark):04X}⟩"


def escape_html(text: str) -> str:
    """Escape for text between tags.

    >>> escape_html("</script><b>")
    '&lt;/script&gt;&lt;b&gt;'
    """
    return html.escape(visible(text), quote=False)


def escape_attr(text: str) -> str:
    """Escape for the inside of a double-quoted attribute; line ends become codes too.

    >>> escape_attr('"><b>')
    '&quot;&gt;&lt;b&gt;'
    """
    line = visible(text).replace("\n", "⟨U+000A⟩").replace("\t", "⟨U+0009⟩")
    return html.escape(line, quote=True)


def escape_plotly(text: str) -> str:
    r"""Escape for labels and hovers: Plotly draws <b>, <i> and <a> out of plain strings.

    It also takes $...$ for a formula, and replaces %{...} if the text is part of a template.

    >>> escape_plotly("<b>up</b>\n"), escape_plotly("%{x} $y$")
    ('&lt;b&gt;up&lt;/b&gt; ', '&#37;{x} &#36;y&#36;')
    """
    plain = html.escape(visible(text).replace("\n", " "), quote=False)
    return plain.replace("$", "&#36;").replace("%{", "&#37;{")


def script_json(value: object) -> str:
    r"""Write JSON that can stand inside a script element and never close it.

    >>> script_json(["</script>"])
    '["\\u003c/script\\u003e"]'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = BROKEN.sub("\ufffd", text)
    # Of a page of megabytes `translate` would look at each character by itself.
    for mark, code in IN_SCRIPT.items():
        text = text.replace(mark, code)
    return text if text.isprintable() else "".join(map(_coded, text))


def _coded(mark: str) -> str:
    if unicodedata.category(mark) not in UNSEEN:
        return mark
    pair = mark.encode("utf-16-be")
    return "".join(f"\\u{pair[at : at + 2].hex()}" for at in range(0, len(pair), 2))


def printable(text: str) -> str:
    """Replace characters that a terminal would obey or hide by their codes.

    >>> printable("red " + chr(27) + "[31m")
    'red <U+001B>[31m'
    """
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else f"<U+{ord(mark):04X}>" for mark in text)


def printable_lines(text: str) -> str:
    r"""Do as `printable` does, and keep the ends of lines.

    >>> printable_lines("a\x1b[31m\nb\r")
    'a<U+001B>[31m\nb<U+000D>'
    """
    return "\n".join(map(printable, text.split("\n")))


_MARKS = re.compile(r"([\\`*_\[\]<>|~&$])")
# A heading or a list, at the beginning of a text.
_FIRST = re.compile(r"^(?=[-+#])|^(\d+)(?=[.)])")
_TICKS = re.compile(r"`+")
_PIPE = re.compile(r"(?<!\\)\|")


def md_text(text: str) -> str:
    r"""Write plain text so that it is shown as it is.

    >>> md_text("# 1 - 2"), md_text("1. no list"), md_text("- none either")
    ('\\# 1 - 2', '1\\. no list', '\\- none either')
    """
    return _FIRST.sub(r"\1\\", _MARKS.sub(r"\\\1", printable(text)))


def md_code(text: str) -> str:
    """Write text as inline code; the fence is longer than any run of backticks in it."""
    text = printable(text)
    fence = "`" * (_longest(text) + 1)
    blank = " " if len(fence) > 1 else ""
    return f"{fence}{blank}{text}{blank}{fence}"


def md_block(lines: Iterable[str]) -> str:
    """Write lines as a code block."""
    shown = [printable(line) for line in lines]
    fence = "`" * max(3, max(map(_longest, shown), default=0) + 1)
    return "\n".join([f"{fence}text", *shown, fence])


def md_cell(markdown: str) -> str:
    """Escape Markdown for a cell of a table, which ends at a bar even inside code."""
    return _PIPE.sub(r"\\|", markdown)


def md_anchor(name: str) -> str:
    """Write a target for links; GitHub's own targets of headings lose dots."""
    return f'<a id="{html.escape(name)}"></a>'


def md_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table of Markdown cells."""
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(md_cell, row))} |"


def _longest(text: str) -> int:
    return max((len(run) for run in _TICKS.findall(text)), default=0)
