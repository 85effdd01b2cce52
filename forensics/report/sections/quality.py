"""The checks on what was read and rebuilt: what was expected, what was seen, what follows."""

from __future__ import annotations

from forensics.lib.text_format import count
from forensics.report.html import Child, Markup, anchor, code, join, table, tag
from forensics.run_output.reader import Row, RunOutput

TITLE = "Checks"
# Rows of the table, and findings named for one check; findings.json and tables/checks have all.
MOST, NAMED = 200, 20
COLUMNS = (
    "check", "table", "words", "expectation", "success", "observed", "consequence", "otherwise",
    "findings",
)  # fmt: skip
FOLLOWS = {
    "note": "it is only told here",
    "downgrade": "what rests on it is downgraded",
    "close": "the gate is closed: nothing can be concluded from these logs",
}
# The gravest first.
GRAVITY = ("close", "downgrade", "note")


def render(run: RunOutput) -> Markup:
    """Say first what does not hold and what that did, then list every check."""
    rows = run.rows("checks", COLUMNS)
    if not rows:
        return Markup("")
    rows.sort(key=_rank)
    failed = [row for row in rows if not row["success"]]
    closed = [row for row in failed if row["consequence"] == "close"]
    state = "closed" if closed else "open"
    summary = f"{count(len(rows), 'check')}, {len(failed):,} failed. The gate is {state}."
    known = {finding.id for finding in run.findings}
    items = [tag("li", *_failure(row, known)) for row in failed]
    listing = tag("ul", *items, class_="warning") if items else None
    return join([tag("p", summary), listing, _table(rows)])


def _rank(row: Row) -> tuple[bool, int]:
    named = row["consequence"] in GRAVITY
    return bool(row["success"]), GRAVITY.index(row["consequence"]) if named else len(GRAVITY)


def _failure(row: Row, known: set[str]) -> list[Child]:
    """Describe a failed check: what was expected, what was seen, what follows, for whom."""
    said = [
        tag("b", str(row["words"] or row["check"] or "A check")),
        f" It does not hold: {row['otherwise'] or 'nothing more is known'}.",
        f" Seen: {row['observed'] or 'nothing'}.",
    ]
    follows = FOLLOWS.get(str(row["consequence"]))
    touched = [str(one) for one in row["findings"] or ()]
    ends = [f" So {follows}" if follows else None, _links(touched, known), "."]
    return [*said, *(ends if follows or touched else ())]


def _links(touched: list[str], known: set[str]) -> Markup | None:
    if not touched:
        return None
    links = [
        tag("a", one, href=f"#{anchor(one)}") if one in known else code(one)
        for one in touched[:NAMED]
    ]
    more = len(touched) - NAMED
    return join([": ", join(links, ", "), f" and {more:,} more" if more > 0 else None])


def _table(rows: list[Row]) -> Markup:
    """List the checks, folded: whoever reads the page for the first time needs the failed ones."""
    head = ("Check", "Of", "Expected", "Holds", "Seen", "Else")
    lines: list[list[Child]] = [
        [
            code(str(row["check"])),
            str(row["table"]),
            str(row["words"] or row["expectation"]),
            "yes" if row["success"] else "no",
            str(row["observed"] or "-"),
            FOLLOWS.get(str(row["consequence"]), "-"),
        ]
        for row in rows[:MOST]
    ]
    caption = "Checks" if len(rows) <= MOST else f"The first {MOST} of {len(rows):,} checks"
    every = tag("summary", f"All {count(len(rows), 'check')}")
    return tag("details", every, table(head, lines, caption=caption), class_="below")
