"""What the clients saw: their episodes of stale metadata, and what else they complained of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from forensics.lib.node_ids import client_name
from forensics.lib.text_format import count, detector_label, duration, join_names, time_text
from forensics.lib.time_zone import current_zone
from forensics.report.figures import client_episodes
from forensics.report.html import (
    Child,
    Markup,
    TableRow,
    finding_link,
    join,
    limit_caption,
    note_left_out,
    table,
    tag,
)
from forensics.run_output.reader import RunOutput, SavedFinding

TITLE = "Clients"
HEAD = ("Client", "Verdict", "Cause", "Errors", "Lasted", "From", "Topics", "Finding")
OTHER_HEAD = ("Client", "What", "Level", "From", "Finding")
TOP_HEAD = ("Client", "Errors", "Episodes", "Longest")
MAX_ROWS, MAX_TOP = 300, 10
# The worst verdict first.
VERDICTS = ("stuck", "sustained", "transient")
# An error that no change of leaders explains has its reason elsewhere.
NO_CAUSE = ("none_seen", None, "")
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
    unexplained = [finding for finding in stale if finding.measures.get("cause") in NO_CAUSE]
    explained = [finding for finding in stale if finding.measures.get("cause") not in NO_CAUSE]
    drawing = client_episodes.render(run)
    text = f"{_summary(stale)} {_logs(run)}"
    return join(
        [
            tag("p", text),
            _top_clients(stale),
            _fold("Each episode of stale metadata", drawing, explained),
            _unexplained(unexplained),
            _others(others),
        ]
    )


def _fold(title: str, drawing: Markup | None, explained: Sequence[SavedFinding]) -> Markup | None:
    """Fold what routine moves of leaders explain, unless a client stayed stale."""
    inside = join([drawing, _episodes("Episodes of stale metadata", explained)
                   if explained else None])  # fmt: skip
    if not inside:
        return None
    is_open = any(finding.is_incident for finding in explained)
    return tag("details", tag("summary", title), inside, open=is_open)


def _logs(run: RunOutput) -> str:
    nodes = {row["node"] for row in run.files if row["role"] == "client" and row["node"]}
    if not nodes:
        return "No log of a client was in the archive: what clients saw is not known."
    return f"Logs of {count(len(nodes), 'client')} were read."


def _summary(stale: Sequence[SavedFinding]) -> str:
    if not stale:
        return "No client was seen with stale metadata."
    verdicts = Counter(_verdict(finding) for finding in stale)
    counts = [f"{verdicts[name]} {name}" for name in sorted(verdicts, key=_verdict_order)]
    return f"{count(len(stale), 'episode')}: {', '.join(counts)}."


def _verdict(finding: SavedFinding) -> str:
    return str(finding.measures.get("verdict"))


def _verdict_order(name: str) -> tuple[int, str]:
    return VERDICTS.index(name) if name in VERDICTS else len(VERDICTS), name


def _episode_order(finding: SavedFinding) -> tuple[int, float, int, str]:
    place, _ = _verdict_order(_verdict(finding))
    return place, -_seconds(finding), finding.start_ms or 0, finding.id


def _seconds(finding: SavedFinding) -> float:
    value = finding.measures.get("duration_s")
    return float(value) if isinstance(value, int | float) else 0.0


def _length(finding: SavedFinding) -> str:
    start, end = finding.start_ms, finding.end_ms
    if start is not None and end is not None:
        return duration(end - start) if end > start else "a moment"
    return duration(_seconds(finding) * 1000) if "duration_s" in finding.measures else "not known"


def _errors(findings: Iterable[SavedFinding]) -> int:
    counts = (finding.measures.get("errors") for finding in findings)
    return sum(number for number in counts if isinstance(number, int))


def _top_clients(stale: Sequence[SavedFinding]) -> Markup | None:
    """Rank the clients, where there are more episodes than one sees at a glance."""
    if len(stale) <= MAX_TOP:
        return None
    episodes: dict[str, list[SavedFinding]] = {}
    for finding in stale:
        for name in map(client_name, finding.clients or ("not named",)):
            episodes.setdefault(name, []).append(finding)
    ranked = sorted(episodes, key=lambda name: (-_errors(episodes[name]), name))
    rows: list[list[Child]] = [
        [
            name,
            count(_errors(episodes[name])),
            f"{len(episodes[name]):,}",
            duration(max(map(_seconds, episodes[name])) * 1000),
        ]
        for name in ranked[:MAX_TOP]
    ]
    caption = "Clients with the most errors"
    listing = table(TOP_HEAD, rows, caption=caption, numbers=("Errors", "Episodes"))
    return join([listing, note_left_out(len(ranked) - MAX_TOP, "client")])


def _with_zone(head: Sequence[str]) -> list[str]:
    return [f"{name}, {current_zone().label}" if name == "From" else name for name in head]


def _episodes(title: str, findings: Sequence[SavedFinding]) -> Markup:
    caption = limit_caption(title, len(findings), MAX_ROWS, "worst")
    rows = (_episode(finding) for finding in sorted(findings, key=_episode_order)[:MAX_ROWS])
    return table(_with_zone(HEAD), rows, caption=caption, numbers=("Errors",), data_copy=caption)


def _episode(finding: SavedFinding) -> TableRow:
    measures = finding.measures
    topics = measures.get("topics")
    names = topics if isinstance(topics, list) else list(finding.partitions)
    cells: list[Child] = [
        join_names([client_name(one) for one in finding.clients]) or "not named",
        str(measures.get("verdict") or "not known"),
        str(measures.get("cause") or "not known").replace("_", " "),
        count(measures.get("errors")),
        _length(finding),
        time_text(finding.start_ms),
        join_names([str(name) for name in names]) or "-",
        finding_link(finding.id),
    ]
    return TableRow(cells, {"data_kind": "client", "data_of": finding.id})


def _unexplained(findings: Sequence[SavedFinding]) -> Markup | None:
    if not findings:
        return None
    head = tag("h3", "Suspicious: errors that no change of leaders explains")
    return join([head, tag("p", SUSPECTS), _episodes("Suspicious episodes", findings)])


def _others(findings: Sequence[SavedFinding]) -> Markup | None:
    if not findings:
        return None
    rows = (
        TableRow(
            [
                join_names([client_name(one) for one in finding.clients]),
                f"{detector_label(finding.detector)}: {finding.title}",
                finding.severity,
                time_text(finding.start_ms),
                finding_link(finding.id),
            ],
            {"data_kind": "client", "data_of": finding.id},
        )
        for finding in findings[:MAX_ROWS]
    )
    listing = table(_with_zone(OTHER_HEAD), rows, caption="Other findings that name clients")
    rest = note_left_out(len(findings) - MAX_ROWS, "finding")
    # They have cards above; here they stand by client.
    title = f"Other findings about clients ({len(findings):,})"
    return tag("details", tag("summary", title), listing, rest)
