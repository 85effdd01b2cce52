"""What a page says, as lines that people can read and compare: headings, sentences, cells, rows.

Left out is what other tests hold and what would only be noise here: scripts and styles, drawings
(what they show stands in their takeaways and tables), the log lines that evidence quotes, of which
the places are kept, and what stands in the appendix, in the table of checks and in the blank form
for the review.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

__all__ = ["outline"]

UNSAID = {"head", "script", "style", "svg", "template", "nav", "noscript"}
EMPTY = {"meta", "input", "br", "link", "img"}
BLOCKS = {"p", "li", "figcaption", "summary", "dt", "dd", "pre", "caption"}
BRIEF = {"review", "quality", "appendix"}
# Of longer tables and lists of evidence the rest is counted: what comes first matters most.
ROWS, CHIPS = 20, 6


@dataclass
class Node:
    """An element, and what is in it."""

    tag: str
    name: str = ""
    kinds: list[str] = field(default_factory=list)
    inside: list[Node | str] = field(default_factory=list)

    def all(self, *tags: str) -> Iterator[Node]:
        """Give the elements of some kinds below this one, in order."""
        for one in self.inside:
            if isinstance(one, Node):
                if one.tag in tags:
                    yield one
                yield from one.all(*tags)

    @property
    def text(self) -> str:
        """What stands in it, on one line."""
        return " ".join("".join(self._parts()).split())

    def _parts(self) -> Iterator[str]:
        for one in self.inside:
            if isinstance(one, str):
                yield one
            elif "chip" in one.kinds:
                yield f" [{next(one.all('code')).text}]"
            elif one.tag not in UNSAID:
                # What lies side by side must not run together.
                apart = " " if one.tag in {"li", "p", "dd", "dt", "div", "small", "pre"} else ""
                yield apart + one.text + apart if apart else "".join(one._parts())


class Reader(HTMLParser):
    """Makes a tree of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.root = Node("html")
        self._open = [self.root]
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        node = Node(tag, told.get("id", ""), told.get("class", "").split())
        self._open[-1].inside.append(node)
        if tag not in EMPTY:
            self._open.append(node)

    def handle_endtag(self, tag: str) -> None:
        while len(self._open) > 1 and self._open.pop().tag != tag:
            pass

    def handle_data(self, data: str) -> None:
        self._open[-1].inside.append(data)


def outline(html: str) -> str:
    """Write down what a page says, a line for each thing."""
    return "\n".join(_lines(Reader(html).root)) + "\n"


def _lines(node: Node) -> Iterator[str]:
    chips = 0
    for one in node.inside:
        if isinstance(one, str):
            if one.strip():
                yield " ".join(one.split())
        elif "chip" in one.kinds:
            chips += 1
            if chips <= CHIPS:
                yield f"[{next(one.all('code')).text}]"
        else:
            yield from _said(one)
    if chips > CHIPS:
        yield f"and {chips - CHIPS} more"


def _said(one: Node) -> Iterator[str]:
    if one.tag in UNSAID:
        return
    if re.fullmatch(r"h\d", one.tag):
        yield from ("", f"{'#' * int(one.tag[1])} {one.text}")
    elif one.tag == "dl":
        yield from _pairs(one)
    elif one.tag == "table":
        yield from _rows(one)
    elif one.tag in BLOCKS:
        yield f"{'- ' if one.tag == 'li' else ''}{one.text}"
    elif one.name in BRIEF:
        yield from (line for line in _lines(one) if not line or line[0] == "#")
    else:
        yield from _lines(one)


def _pairs(node: Node) -> Iterator[str]:
    names = [one.text for one in node.all("dt")]
    for name, value in zip(names, node.all("dd"), strict=True):
        yield f"{name}: {value.text}"


def _rows(table: Node) -> Iterator[str]:
    yield f"table: {next(table.all('caption'), Node('caption')).text}"
    rows = list(table.all("tr"))
    for row in rows[: ROWS + 1]:
        cells = (one.text or "-" for one in row.all("td", "th"))
        yield f"  {' | '.join(cells)}"
    if len(rows) > ROWS + 1:
        yield f"  and {len(rows) - ROWS - 1} rows more"
