"""HTML that cannot be forged: a plain string is always escaped, only Markup is not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from forensics.lib import text_safety
from forensics.lib.text_format import count

MAX_NOWRAP_CHARS = 28
# A narrower mark on a strip would not be seen.
MIN_WIDTH_PERCENT = 0.6
VOID = frozenset({"br", "hr", "input", "link", "meta"})


class Markup(str):
    """Text that is HTML already; made by this module alone."""

    __slots__ = ()


Child = str | int | None
Value = str | int | bool | None
OpenSpan = tuple[int | None, int | None]


@dataclass(frozen=True)
class TableRow:
    """A row of a table that has attributes: an id to link to, what a filter asks for."""

    cells: Sequence[Child]
    attributes: Mapping[str, Value] = field(default_factory=dict)


def trust_html(source: str) -> Markup:
    """Mark our own source (style, script, escaped JSON) as HTML; never call it with log text."""
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
    """Concatenate children, each escaped unless it is Markup."""
    return Markup(_safe(between).join(_safe(child) for child in children if child is not None))


def _safe(child: Child) -> str:
    if child is None:
        return ""
    return child if isinstance(child, Markup) else text_safety.escape_html(str(child))


def code(text: str) -> Markup:
    """Format one short string as code."""
    return tag("code", text)


def anchor(text: str) -> str:
    """Make a fragment id out of a name: letters, digits, dash and underscore only.

    >>> anchor('F-3f2a"><b>')
    'F-3f2a-b-'
    """
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text)


def finding_link(finding_id: str, text: str = "") -> Markup:
    """Link to the card of a finding, by its id or another text."""
    return tag("a", text or finding_id, href=f"#{anchor(finding_id)}")


def entity_id(kind: str, *names: object) -> str:
    """Make the id of a partition, a broker or whatever else has an address on the page.

    >>> entity_id("p", "orders", 17), entity_id("p", 'a "b', 1)
    ('p/orders/17', 'p/a%20%22b/1')
    """
    return "/".join([kind, *(quote(str(name), safe="", errors="replace") for name in names)])


def command_block(lines: Sequence[str]) -> Markup:
    """Format lines to be copied into a shell."""
    # A box that scrolls must be reachable by keyboard.
    return tag("pre", code("\n".join(lines)), class_="command", tabindex=0)


def render_prose(text: str) -> Markup:
    """Format paragraphs, split at empty lines; text between backticks is code."""
    paragraphs = (part.strip() for part in text.split("\n\n"))
    return join(tag("p", render_inline(part)) for part in paragraphs if part)


def render_inline(text: str) -> Markup:
    """Format one line; text between backticks is code."""
    pieces = re.split(r"`([^`]+)`", text)
    return join(code(piece) if index % 2 else piece for index, piece in enumerate(pieces))


def json_script(value: object, **attributes: str) -> Markup:
    """Put JSON into the page, where a script or a machine can find it."""
    inside = trust_html(text_safety.script_json(value))
    return tag("script", inside, type="application/json", **attributes)


def figure(
    name: str, drawing: object, caption: str, *after: Child, still: Markup | None = None,
    legend: Markup | None = None,
) -> Markup:  # fmt: skip
    """Build one figure: its caption and legend, a box to draw into, and its data.

    `still` stands before the box until a script has drawn there, and on paper.
    """
    return tag(
        "figure",
        tag("figcaption", caption, id=f"{name}-says"),
        legend,
        tag("div", still, tag("div", class_="plot", id=name), class_="scroll"),
        json_script(drawing, data_figure=name),
        *after,
        role="group",
        aria_describedby=f"{name}-says",
    )


def render_legend(
    pairs: Iterable[tuple[str, str]], hatched: Iterable[tuple[str, str, str]] = ()
) -> Markup | None:
    """List what each colour of a figure stands for, and each colour with lines of another.

    In place of a colour there may be a letter that stands in the figure.
    """
    items = [
        tag("li", tag("span", class_="swatch", style=f"background:{colour}"), words)
        for colour, words in pairs
    ]
    for colour, lines, words in hatched:
        if colour.isalpha():
            # A letter that stands in the bars themselves.
            items.append(tag("li", tag("b", colour, class_="swatch letter"), words))
            continue
        over = (
            f"repeating-linear-gradient(135deg,{lines} 0 2px,transparent 2px 5px)," if lines else ""
        )
        style = f"background:{over}linear-gradient({colour},{colour})"
        items.append(tag("li", tag("span", class_="swatch", style=style), words))
    return tag("ul", *items, class_="key") if items else None


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[Child] | TableRow],
    *,
    caption: str,
    numbers: Sequence[str] = (),
    **attributes: Value,
) -> Markup:
    """Build a table in its own scrolling box; `numbers` names the columns to align right."""
    right = [name in numbers for name in head]
    heads = (
        tag("th", name, scope="col", class_="number" if is_number else None)
        for name, is_number in zip(head, right, strict=True)
    )
    body = tag("tbody", *(_row(row, right) for row in rows))
    top = (tag("caption", caption), tag("thead", tag("tr", *heads)))
    return scroll_box(tag("table", *top, body, **attributes), caption)


def scroll_box(inside: Markup, label: str) -> Markup:
    """Put a wide element into a box that scrolls."""
    # It must be reachable by keyboard, hence the tabindex and the name.
    return tag("div", inside, class_="scroll", tabindex=0, role="region", aria_label=label)


def _row(row: Sequence[Child] | TableRow, right: Sequence[bool]) -> Markup:
    line = row if isinstance(row, TableRow) else TableRow(row)
    cells = [
        tag("td" if at else "th", cell, scope=None if at else "row", class_=_kind(cell, is_number))
        for at, (cell, is_number) in enumerate(zip(line.cells, right, strict=True))
    ]
    return tag("tr", *cells, **line.attributes)


def _kind(cell: Child, is_number: bool) -> str | None:
    if is_number:
        return "number"
    # Times and names stay on one line; only sentences may wrap.
    is_short = not isinstance(cell, Markup) and len(str(cell)) <= MAX_NOWRAP_CHARS
    return "short" if is_short or (isinstance(cell, Markup) and cell.startswith("<a ")) else None


def limit_caption(caption: str, total: int, limit: int, which: str = "first") -> str:
    """Say in the caption of a table that only the first rows are shown, if so.

    >>> limit_caption("Terms", 2000, 200)
    'Terms, the first 200 of 2,000'
    """
    return f"{caption}, the {which} {limit} of {total:,}" if total > limit else caption


def note_left_out(left: int, noun: str, text: str = "And {} more.") -> Markup | None:
    """Say below a table how many rows are not shown; None where all are."""
    return tag("p", text.format(count(left, noun))) if left > 0 else None


def strip_style(span: OpenSpan, whole: tuple[int, int]) -> str:
    """Return the CSS that places a span within the whole, in percent.

    >>> strip_style((2, 4), (0, 8))
    'left:25.00%;width:25.00%'
    """
    start, end = whole
    sides = (start if span[0] is None else span[0], end if span[1] is None else span[1])
    left, right = (min(max((at - start) / (end - start), 0.0), 1.0) * 100 for at in sides)
    return f"left:{left:.2f}%;width:{max(right - left, MIN_WIDTH_PERCENT):.2f}%"


def section(
    id_: str, title: str, *inside: Child, tabindex: int | None = -1, folded: bool = False,
    printed: bool = True,
) -> Markup:  # fmt: skip
    """Build a section of a page under its heading; a link to it moves the focus there.

    A folded one shows its heading until somebody opens it. One that is not printed is on paper only
    when somebody asks for all.
    """
    heading = tag("h2", title, id=f"{id_}-title")
    whole = (tag("details", tag("summary", heading), *inside, class_="fold"),)
    return tag("section", *(whole if folded else (heading, *inside)), id=id_,
               aria_labelledby=f"{id_}-title", tabindex=tabindex,
               class_=None if printed else "unprinted")  # fmt: skip


def section_links(sections: Iterable[tuple[str, str]]) -> Markup:
    """Build the links to the sections of a page, from the id and title of each."""
    links = (tag("li", tag("a", title, href=f"#{id_}")) for id_, title in sections)
    return tag("nav", tag("ul", *links), aria_label="Parts of this page")


def verdict_box(word: str, level: str, sentence: Child, *inside: Child) -> Markup:
    """Build the box with the verdict in one word and one sentence, in the colour of a level."""
    badge = tag("span", word, class_="badge")
    answer = tag("p", badge, " ", sentence, class_="answer")
    return tag("div", answer, *inside, class_=f"verdict level-{level}")


def key_figure(name: str, value: str, note: Child = None) -> Markup:
    """Build one cell of the figures below a verdict."""
    small = tag("small", note) if note else None
    return tag("div", tag("dt", name), tag("dd", tag("b", value), " ", small))
