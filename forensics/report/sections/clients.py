"""What the clients saw: their episodes of stale metadata, and what else they complained of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from forensics.lib.formatting import count, detector_label, duration, join_names, time_text
from forensics.lib.time_zone import current_zone
from forensics.report.figures import client_episodes as drawn
from forensics.report.html import Child, Markup, TableRow, anchor, join, table, tag
from forensics.run_output.reader import Finding, RunOutput

ORDER = 70
TITLE = "Clients"
HEAD = ("Client", "Verdict", "Move behind it", "Errors", "Lasted", "From", "Topics", "Finding")
OTHER = ("Client", "What", "Level", "From", "Finding")
TOP = ("Client", "Errors", "Episodes", "Longest")
MOST, NAMED = 300, 10
WORST = ("stuck", "sustained", "transient")
# An error that no change of leaders explains has its reason elsewhere.
UNMOVED = ("none_seen", None, "")
SUSPECTS = (
    "No change of leaders explains these. Look at the bootstrap servers, at DNS, and at the "
    "addresses that brokers advertise; a topic that does not exist, or that the client may not "
    "see, looks the same."
)


def render(run: RunOutput) -> Markup:
    """List every episode, the worst first, and apart from them what no move explains."""
    stale = [finding for finding in run.findings if finding.detector == "stale-metadata"]
    others = [one for one in run.findings if one.clients and one.detector != "stale-metadata"]
    if not stale and not others:
        return tag("p", f"No client was seen with stale metadata. {_logs(run)}")
    suspicious = [finding for finding in stale if finding.measures.get("cause") in UNMOVED]
    explained = [finding for finding in stale if finding.measures.get("cause") not in UNMOVED]
    drawing = drawn.render(run)
    # The figure says of the episodes what is to be said.
    says = _logs(run) if drawing else f"{_says(stale)} {_logs(run)}"
    return join(
        [
            tag("p", says),
            _top(stale),
            drawing,
            _episodes("Episodes of stale metadata", explained) if explained else None,
            _suspicious(suspicious),
            _others(others),
        ]
    )


def _logs(run: RunOutput) -> str:
    nodes = {row["node"] for row in run.files if row["role"] == "client" and row["node"]}
    if not nodes:
        return "No log of a client was in the archive: what clients saw is not known."
    return f"Logs of {count(len(nodes), 'client')} were read."


def _says(stale: Sequence[Finding]) -> str:
    if not stale:
        return "No client was seen with stale metadata."
    verdicts = Counter(str(finding.measures.get("verdict")) for finding in stale)
    counts = [f"{number} {name}" for name, number in sorted(verdicts.items(), key=_verdict)]
    return f"{count(len(stale), 'episode')}: {', '.join(counts)}."


def _verdict(pair: tuple[str, int]) -> tuple[int, str]:
    return WORST.index(pair[0]) if pair[0] in WORST else len(WORST), pair[0]


def _badness(finding: Finding) -> tuple[int, float, int, str]:
    verdict = str(finding.measures.get("verdict"))
    place = WORST.index(verdict) if verdict in WORST else len(WORST)
    return place, -_seconds(finding), finding.start_ms or 0, finding.id


def _seconds(finding: Finding) -> float:
    value = finding.measures.get("duration_s")
    return float(value) if isinstance(value, int | float) else 0.0


def _lasted(finding: Finding) -> str:
    if finding.start_ms is not None and finding.end_ms is not None:
        return (
            duration(finding.end_ms - finding.start_ms)
            if finding.end_ms > finding.start_ms
            else "a moment"
        )
    return duration(_seconds(finding) * 1000) if "duration_s" in finding.measures else "not known"


def _errors(finding: Finding) -> int:
    value = finding.measures.get("errors")
    return value if isinstance(value, int) else 0


def _top(stale: Sequence[Finding]) -> Markup | None:
    """Rank the clients, where there are more episodes than one sees at a glance."""
    if len(stale) <= NAMED:
        return None
    mine: dict[str, list[Finding]] = {}
    for finding in stale:
        for name in finding.clients or ("not named",):
            mine.setdefault(name, []).append(finding)
    ranked = sorted(mine, key=lambda name: (-sum(map(_errors, mine[name])), name))
    rows: list[list[Child]] = [
        [
            name,
            count(sum(map(_errors, mine[name]))),
            f"{len(mine[name]):,}",
            duration(max(map(_seconds, mine[name])) * 1000),
        ]
        for name in ranked[:NAMED]
    ]
    left = len(ranked) - NAMED
    rest = tag("p", f"And {count(left, 'client')} more.") if left > 0 else None
    caption = "Clients with the most errors"
    return join([table(TOP, rows, caption=caption, numbers=("Errors", "Episodes")), rest])


def _episodes(caption: str, found: Sequence[Finding]) -> Markup:
    if len(found) > MOST:
        caption += f", the worst {MOST} of {len(found):,}"
    head = [f"{name}, {current_zone().label}" if name == "From" else name for name in HEAD]
    rows = (_row(finding) for finding in sorted(found, key=_badness)[:MOST])
    return table(head, rows, caption=caption, numbers=("Errors",), data_copy=caption)


def _row(finding: Finding) -> TableRow:
    measures = finding.measures
    topics = measures.get("topics")
    names = topics if isinstance(topics, list) else list(finding.partitions)
    cells: list[Child] = [
        join_names(list(finding.clients)) or "not named",
        str(measures.get("verdict") or "not known"),
        str(measures.get("cause") or "not known").replace("_", " "),
        count(measures.get("errors")),
        _lasted(finding),
        time_text(finding.start_ms),
        join_names([str(name) for name in names]) or "-",
        tag("a", finding.id, href=f"#{anchor(finding.id)}"),
    ]
    return TableRow(cells, {"data_kind": "client", "data_of": finding.id})


def _suspicious(found: Sequence[Finding]) -> Markup | None:
    if not found:
        return None
    head = tag("h3", "Suspicious: errors with no move behind them")
    return join([head, tag("p", SUSPECTS), _episodes("Suspicious episodes", found)])


def _others(found: Sequence[Finding]) -> Markup | None:
    if not found:
        return None
    head = [f"{name}, {current_zone().label}" if name == "From" else name for name in OTHER]
    rows = (
        TableRow(
            [
                join_names(list(finding.clients)),
                f"{detector_label(finding.detector)}: {finding.title}",
                finding.severity,
                time_text(finding.start_ms),
                tag("a", finding.id, href=f"#{anchor(finding.id)}"),
            ],
            {"data_kind": "client", "data_of": finding.id},
        )
        for finding in found[:MOST]
    )
    caption = "Other findings that name clients"
    left = len(found) - MOST
    rest = tag("p", f"And {count(left, 'finding')} more.") if left > 0 else None
    return join([tag("h3", "What else clients met"), table(head, rows, caption=caption), rest])
