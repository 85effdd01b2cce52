"""What happened, to whom, for how long, what was lost, how sure: the first screen."""

from __future__ import annotations

from forensics.report.answer import loss, sentence
from forensics.report.markup import Markup, tag
from forensics.report.saved import Finding, Saved
from forensics.report.words import clock, count, lasting, listed
from forensics.report.zones import current

__all__ = ["ORDER", "TITLE", "render"]

ORDER = 10
TITLE = "Verdict"
WORDS = {"clear": "clear", "cannot_tell": "cannot tell"}


def render(saved: Saved) -> Markup:
    """Say the verdict in one sentence, with six cells below it."""
    level = saved.incidents[0].severity if saved.incidents else "none"
    verdict = str(saved.document.get("verdict"))
    word = level if verdict == "incident" else WORDS.get(verdict, verdict)
    kind = f"level-{level}" if verdict == "incident" else f"level-{verdict.replace('_', '-')}"
    badge = tag("span", word, class_="badge")
    answer = tag("p", badge, " ", sentence(saved), class_="answer")
    cells = tag("dl", *_cells(saved), class_="cells") if saved.incidents else None
    return tag("div", answer, _lost(saved), cells, class_=f"verdict {kind}")


def _lost(saved: Saved) -> Markup | None:
    taken = loss(saved.findings)
    if not taken:
        return None
    sure = f"At least {count(taken.at_least, 'record')} lost"
    parts = [sure if taken.at_least else "No loss is certain"]
    if taken.unbounded:
        of = count(taken.partitions, "partition")
        parts.append(f"no upper bound for {taken.unbounded:,} of {of}")
    link = tag("a", "data-loss ledger", href="#ledger")
    return tag("p", "; ".join(parts), " (", link, ").", class_="lost")


def _cells(saved: Saved) -> list[Markup]:
    found = saved.incidents
    starts = [finding.start for finding in found if finding.start is not None]
    ends = [finding.end for finding in found if finding.end is not None]
    start = min(starts, default=None)
    going = any(finding.end is None for finding in found)
    end = None if going else max(ends, default=None)
    whole = lasting(end - start) if start is not None and end is not None else ""
    brokers = sorted({broker for finding in found for broker in finding.brokers})
    return [
        _cell("Started", clock(start), f"{current().label}, first incident finding"),
        _cell(
            "Ended",
            "not over" if going else clock(end),
            whole and f"{current().label}, after {whole}",
        ),
        _partitions(saved, found),
        _cell("Brokers", listed([str(broker) for broker in brokers], 6) or "none named", ""),
        _clients(found),
        _first_sign(found, start),
    ]


def _cell(name: str, value: str, note: str) -> Markup:
    small = tag("small", note) if note else None
    return tag("div", tag("dt", name), tag("dd", tag("b", value), " ", small))


def _partitions(saved: Saved, found: tuple[Finding, ...]) -> Markup:
    hit = {name for finding in found for name in finding.partitions}
    known = saved.partitions
    note = f"of {count(known, 'partition')}" if known else "of an unknown number"
    return _cell("Partitions hit", f"{len(hit):,}", note)


def _clients(found: tuple[Finding, ...]) -> Markup:
    names = sorted(
        {
            client
            for finding in found
            if finding.measures.get("verdict") in ("sustained", "stuck")
            for client in finding.clients
        }
    )
    return _cell("Clients with sustained errors", f"{len(names):,}", listed(names))


def _first_sign(found: tuple[Finding, ...], start: int | None) -> Markup:
    signs = [
        finding.start
        for finding in found
        if finding.detector == "stale-metadata" and finding.start is not None
    ]
    if start is None or not signs:
        return _cell("First visible to clients", "not seen", "no client error is an incident")
    first = min(signs)
    value = f"after {lasting(first - start)}" if first > start else "at once"
    return _cell("First visible to clients", value, f"{clock(first)} {current().label}")
