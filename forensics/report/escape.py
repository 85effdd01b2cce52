"""One escape for each place a string can end up in; log text is hostile."""

from __future__ import annotations

import html as _html
import json
import re
import unicodedata

__all__ = ["attribute", "escape_html", "plotly", "script_json", "visible"]

# Controls (ANSI begins with one), formats (bidi, zero width, tags), halves of surrogate pairs and
# the two separators that JavaScript once took for line ends: all of them can lie to the eye.
UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
KEPT = frozenset("\n\t")
IN_SCRIPT = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"}
BROKEN = re.compile("[\ud800-\udfff]")


def visible(text: str) -> str:
    """Show every character that a browser would hide or obey as its code.

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

    >>> html("</script><b>")
    '&lt;/script&gt;&lt;b&gt;'
    """
    return _html.escape(visible(text), quote=False)


def attribute(text: str) -> str:
    """Escape for the inside of a double-quoted attribute; line ends become codes too.

    >>> attribute('"><b>')
    '&quot;&gt;&lt;b&gt;'
    """
    line = visible(text).replace("\n", "⟨U+000A⟩").replace("\t", "⟨U+0009⟩")
    return _html.escape(line, quote=True)


def plotly(text: str) -> str:
    r"""Escape for labels and hovers: Plotly draws <b>, <i> and <a> out of plain strings.

    It also takes $...$ for a formula, and fills in %{...} where a text lands in a template.

    >>> plotly("<b>up</b>\n"), plotly("%{x} $y$")
    ('&lt;b&gt;up&lt;/b&gt; ', '&#37;{x} &#36;y&#36;')
    """
    plain = _html.escape(visible(text).replace("\n", " "), quote=False)
    return plain.replace("$", "&#36;").replace("%{", "&#37;{")


def script_json(value: object) -> str:
    r"""Write JSON that can stand inside a script element and never close it.

    >>> script_json(["</script>"])
    '["\\u003c/script\\u003e"]'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = BROKEN.sub("\ufffd", text).translate(IN_SCRIPT)
    return text if text.isprintable() else "".join(map(_coded, text))


def _coded(mark: str) -> str:
    if unicodedata.category(mark) not in UNSEEN:
        return mark
    pair = mark.encode("utf-16-be")
    return "".join(f"\\u{pair[at : at + 2].hex()}" for at in range(0, len(pair), 2))
