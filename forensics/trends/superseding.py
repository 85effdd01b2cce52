"""Finds logs that were given while they were still written to: a longer one takes their place.

The longer one must begin with the same bytes, as far as their heads were digested, which is half
of the shorter one at the least; and the shorter one's events must be the longer one's, but for
those of its last line, which may have been cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from forensics.archives.digests import FIRST_HEAD
from forensics.trends.manifest import Log, Manifest

__all__ = ["supersede"]

# Gives the events of two logs with these columns, in the order of lines.
Rows = Callable[[Log], pa.Table]
_COMPARED = ("line", "offset", "kind", "topic", "partition", "text")


def supersede(known: Manifest, news: Iterable[str], rows: Rows) -> set[str]:
    """Note which logs are the beginnings of longer ones; gives those that no longer count."""
    gone: set[str] = set()
    for short, longer in _candidates(known, set(news)):
        over = [one for one in longer if _begins(short, one, rows)]
        if over:
            best = max(over, key=lambda one: (one.size, one.id))
            known.logs[short.id] = replace(short, superseded_by=best.id)
            gone.add(short.id)
    _follow(known)
    return gone


def _candidates(known: Manifest, news: set[str]) -> Iterator[tuple[Log, list[Log]]]:
    """Give each log with the longer ones that have the same head; one of two must be new."""
    alike: dict[str, list[Log]] = {}
    for log in known.counting():
        if (head := log.told.heads.get(str(FIRST_HEAD))) is not None:
            alike.setdefault(head, []).append(log)
    for logs in alike.values():
        for short in logs:
            longer = [
                one
                for one in logs
                if one.size > short.size and _same_head(short, one)
                if one.id in news or short.id in news
            ]
            if longer:
                yield short, longer


def _same_head(short: Log, longer: Log) -> bool:
    length = max(short.told.heads, key=int)
    return short.told.heads[length] == longer.told.heads.get(length)


def _begins(short: Log, longer: Log, rows: Rows) -> bool:
    mine = rows(short)
    if not len(mine):
        return True
    last = pc.max(mine["line"])
    mine, theirs = (_before(one, last) for one in (mine, rows(longer)))
    if short.read_by == longer.read_by:
        return bool(mine.equals(theirs))
    # Other rules find other events, but the lines that both quote are the same.
    quoted, others = _texts(mine), _texts(theirs)
    both = quoted.keys() & others.keys()
    return (bool(both) or not quoted) and all(quoted[line] == others[line] for line in both)


def _before(rows: pa.Table, last: pa.Scalar) -> pa.Table:
    return rows.select(list(_COMPARED)).filter(pc.less(rows["line"], last))


def _texts(rows: pa.Table) -> Mapping[int, str]:
    """Give the text of each line; a line that tells of many things is quoted in full once."""
    found: dict[int, str] = {}
    for line, text in zip(rows["line"].to_pylist(), rows["text"].to_pylist(), strict=True):
        found[line] = max(found.get(line, ""), text or "", key=len)
    return found


def _follow(known: Manifest) -> None:
    """Let every log that was superseded name the one that still counts."""
    for log in list(known.logs.values()):
        over = log.superseded_by
        while over is not None and (beyond := known.logs[over].superseded_by) is not None:
            over = beyond
        if over != log.superseded_by:
            known.logs[log.id] = replace(log, superseded_by=over)
