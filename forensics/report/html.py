"""HTML that cannot be forged: a plain string is always escaped, only Markup is not.

A strip of the whole window with the stretches in it that something lasted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from forensics.lib import text_safety
from forensics.run_output.reader import RunOutput

MAX_NOWRAP_CHARS = 28
VOID = frozenset({"br", "hr", "input", "link", "meta"})


class Markup(str):
    """Text that is HTML already; made by this module alone."""

    __slots__ = ()


Child = str | int | None
Value = str | int | bool | None


@dataclass(frozen=True)
class TableRow:
    """A row of a table that has attributes: an id to link to, what a filter asks for."""

    cells: Sequence[Child]
    attributes: Mapping[str, Value] = field(default_factory=dict)


def trust_html(source: str) -> Markup:
    """Take our own source (style, script, escaped JSON) as it stands; never for log text."""
    return Markup(source)


def tag(name: str, /, *children: Child, **attributes: Value) -> Markup:
    """Build one element; strings are escaped, None is left out, `class_` means class.

    >>> tag("a", "x < y", href="#top", hidden=False)
    '<a href="#top">x &lt; y</a>'
    """
    opened = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    if name in VOID:
        return Markup(opened)
    return Markup(f"{opened}{join(children)}</{name}>")


def _attribute(key: str, value: Value) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    return f' {name}="{text_safety.escape_attr(str(value))}"'


def join(children: Iterable[Child], between: Child = None) -> Markup:
    """Put children one after the other, each escaped unless it is Markup."""
    return Markup(_safe(between).join(_safe(child) for child in children if child is not None))


def _safe(child: Child) -> str:
    if child is None:
        return ""
    return child if isinstance(child, Markup) else text_safety.escape_html(str(child))


def code(text: str) -> Markup:
    """Set one short string as code."""
    return tag("code", text)


def anchor(text: str) -> str:
    """Make a fragment id out of a name: letters, digits, dash and underscore only.

    >>> anchor('F-3f2a"><b>')
    'F-3f2a-b-'
    """
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text)


def entity_id(kind: str, *names: object) -> str:
    """Make the id of a partition, a broker or whatever else has an address on the page.

    >>> spot("p", "orders", 17), spot("p", 'a "b', 1)
    ('p/orders/17', 'p/a%20%22b/1')
    """
    return "/".join([kind, *(quote(str(name), safe="", errors="replace") for name in names)])


def command_block(lines: Sequence[str]) -> Markup:
    """Set lines to be copied into a shell."""
    # A box that scrolls must be reachable by keyboard.
    return tag("pre", code("\n".join(lines)), class_="command", tabindex=0)


def render_prose(text: str) -> Markup:
    """Set paragraphs, split at empty lines; what stands between backticks is code."""
    paragraphs = (part.strip() for part in text.split("\n\n"))
    return join(tag("p", _inline(part)) for part in paragraphs if part)


def _inline(text: str) -> Markup:
    pieces = re.split(r"`([^`]+)`", text)
    return join(code(piece) if place % 2 else piece for place, piece in enumerate(pieces))


def json_script(value: object, **attributes: str) -> Markup:
    """Set JSON into the page, where a script or a machine can find it."""
    inside = trust_html(text_safety.script_json(value))
    return tag("script", inside, type="application/json", **attributes)


def figure(
    name: str, drawing: object, caption: str, *after: Child, still: Markup | None = None
) -> Markup:
    """Set one figure: what it says in a sentence, a box to draw into, and its data.

    `still` is what stands in the box until a script draws there.
    """
    return tag(
        "figure",
        tag("figcaption", caption, id=f"{name}-says"),
        tag("div", tag("div", still, class_="plot", id=name), class_="scroll"),
        json_script(drawing, data_figure=name),
        *after,
        role="group",
        aria_describedby=f"{name}-says",
    )


def render_legend(pairs: Iterable[tuple[str, str]]) -> Markup | None:
    """List what each colour of a figure stands for."""
    items = [
        tag("li", tag("span", class_="swatch", style=f"background:{colour}"), words)
        for colour, words in pairs
    ]
    return tag("ul", *items, class_="key") if items else None


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[Child] | TableRow],
    *,
    caption: str,
    numbers: Sequence[str] = (),
    **attributes: Value,
) -> Markup:
    """Build a table in its own scrolling box; `numbers` names the columns set to the right."""
    right = [name in numbers for name in head]
    heads = (
        tag("th", name, scope="col", class_="number" if is_number else None)
        for name, is_number in zip(head, right, strict=True)
    )
    body = tag("tbody", *(_row(row, right) for row in rows))
    top = (tag("caption", caption), tag("thead", tag("tr", *heads)))
    inside = tag("table", *top, body, **attributes)
    # A box that scrolls must be reachable by keyboard, hence the tabindex and the name.
    return tag("div", inside, class_="scroll", tabindex=0, role="region", aria_label=caption)


def _row(row: Sequence[Child] | TableRow, right: Sequence[bool]) -> Markup:
    line = row if isinstance(row, TableRow) else TableRow(row)
    cells = [
        tag("td" if place else "th", cell, scope=None if place else "row", class_=_kind(cell, far))
        for place, (cell, far) in enumerate(zip(line.cells, right, strict=True))
    ]
    return tag("tr", *cells, **line.attributes)


def _kind(cell: Child, is_number: bool) -> str | None:
    if is_number:
        return "number"
    # Times and names stay on one line; only sentences may wrap.
    is_short = not isinstance(cell, Markup) and len(str(cell)) <= MAX_NOWRAP_CHARS
    return "short" if is_short or (isinstance(cell, Markup) and cell.startswith("<a ")) else None


OpenSpan = tuple[int | None, int | None]
# Narrower than this nobody would see it.
MIN_WIDTH_PERCENT = 0.6


def render_strip(run: RunOutput, stretches: Sequence[OpenSpan]) -> Markup | None:
    """Draw stretches of time on the window of the logs; the text beside it says the same."""
    if not run.window:
        return None
    pieces = (tag("span", style=strip_style(one, run.window)) for one in stretches)
    return tag("div", *pieces, class_="strip", aria_hidden="true")


def strip_style(stretch: OpenSpan, whole: tuple[int, int]) -> str:
    """Place a stretch within the whole, in percent.

    >>> piece((2, 4), (0, 8))
    'left:25.00%;width:25.00%'
    """
    start, end = whole
    first = start if stretch[0] is None else stretch[0]
    last = end if stretch[1] is None else stretch[1]
    left = min(max((first - start) / (end - start), 0.0), 1.0) * 100
    right = min(max((last - start) / (end - start), 0.0), 1.0) * 100
    return f"left:{left:.2f}%;width:{max(right - left, MIN_WIDTH_PERCENT):.2f}%"
