"""What was routine: findings below medium, those of one kind in one line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forensics.lib.text_format import count, detector_label, duration, join_names
from forensics.report.finding_text import STANDING_DETECTORS, is_open
from forensics.report.headline import LOST_IF, brokers_text
from forensics.report.incident_span import clock_text
from forensics.run_output.reader import RunOutput, SavedFinding

# What somebody did to the cluster: it goes first.
DONE = ("rolling-restart", "broker-restart", "reassignment", "preferred-election")


@dataclass(frozen=True)
class RoutineLine:
    """One line, and the findings that it stands for."""

    text: str
    findings: tuple[SavedFinding, ...]


def merge_routine(run: RunOutput, findings: Iterable[SavedFinding]) -> list[RoutineLine]:
    """Merge findings of one kind: what was done first, then what came of it, settings last."""
    groups: dict[str, list[SavedFinding]] = {}
    for one in findings:
        groups.setdefault(_kind(run, one), []).append(one)
    planned = groups.pop("planned outages", [])
    lines = []
    for kind, members in groups.items():
        # What a planned stop takes away is told with the stop.
        with_it = planned if kind in ("stopped", "rolling-restart", "restarted") else []
        planned = [] if with_it else planned
        lines.append(RoutineLine(_text(kind, members), (*members, *with_it)))
    if planned:
        lines.append(RoutineLine(_text("", planned), tuple(planned)))
    return sorted(lines, key=_place)


def _place(line: RoutineLine) -> int:
    detector = line.findings[0].detector
    if detector in DONE:
        return DONE.index(detector) - len(DONE)
    return 1 if detector in STANDING_DETECTORS else 0


def _kind(run: RunOutput, finding: SavedFinding) -> str:
    """Name what is merged into one line."""
    if finding.detector == "broker-restart" and finding.measures.get("kind") == "controlled":
        return "stopped" if is_open(run, finding) else "restarted"
    if finding.detector == "offline-partitions" and not finding.is_incident:
        return "planned outages"
    if finding.detector == "stale-metadata" and finding.measures.get("verdict") == "transient":
        return "refreshes"
    return finding.detector


def _text(kind: str, members: Sequence[SavedFinding]) -> str:
    if kind == "stopped":
        starts = [one.start_ms for one in members if one.start_ms is not None]
        when = f" at {clock_text(min(starts), min(starts))}" if starts else ""
        return f"{_brokers(members)} shut down cleanly{when}, and not started again after that"
    if kind == "restarted" and len(members) > 1:
        return f"{_brokers(members)} restarted cleanly"
    if kind == "refreshes":
        longest = max((one.end_ms or 0) - (one.start_ms or 0) for one in members)
        under = f"all within {duration(max(longest, 100))}" if len(members) > 1 else "at once"
        number = count(len(members), "short metadata refresh", "short metadata refreshes")
        return f"{number} by clients after a leader moved, {under}: expected"
    if kind == "truncation":
        return f"{join_names([one.title for one in members], 2)}: {LOST_IF}"
    if len(members) == 1:
        return members[0].title or detector_label(members[0].detector)
    titles = [one.title for one in members]
    return join_names(titles, 2)


def _brokers(members: Sequence[SavedFinding]) -> str:
    numbers = sorted({broker for one in members for broker in one.brokers})
    text = brokers_text(numbers) if numbers else "brokers"
    were = "were" if len(numbers) != 1 else "was"
    return f"{text[:1].upper()}{text[1:]} {were}"
