"""What was routine: findings below medium, those of one kind in one line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forensics.lib.text_format import brokers_text, count, detector_label, duration, join_names
from forensics.report.finding_text import STANDING_DETECTORS, shorten_names
from forensics.report.headline import describe_last_stops, is_last_stop, lost_if
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
        lines.append(RoutineLine(_text(run, kind, members), (*members, *with_it)))
    if planned:
        lines.append(RoutineLine(_text(run, "", planned), tuple(planned)))
    return sorted(lines, key=_place)


def _place(line: RoutineLine) -> int:
    detector = line.findings[0].detector
    if detector in DONE:
        return DONE.index(detector) - len(DONE)
    return 1 if detector in STANDING_DETECTORS else 0


def _kind(run: RunOutput, finding: SavedFinding) -> str:
    """Name what is merged into one line."""
    if finding.detector == "broker-restart" and finding.measures.get("kind") == "controlled":
        return "stopped" if is_last_stop(run, finding) else "restarted"
    if finding.detector == "offline-partitions" and not finding.is_incident:
        return "planned outages"
    if finding.detector == "stale-metadata" and finding.measures.get("verdict") == "transient":
        return "refreshes"
    return finding.detector


def _text(run: RunOutput, kind: str, members: Sequence[SavedFinding]) -> str:
    if kind == "stopped":
        return f"The logs {describe_last_stops(run, members)}"
    if kind == "restarted" and len(members) == 1 and members[0].start_ms is not None:
        at = clock_text(members[0].start_ms, members[0].start_ms)
        return members[0].title.replace("shut down cleanly", f"shut down cleanly at {at}", 1)
    if kind == "restarted" and len(members) > 1:
        return f"{_brokers(members)} restarted cleanly"
    if kind == "refreshes":
        longest = max((one.end_ms or 0) - (one.start_ms or 0) for one in members)
        under = f"all within {duration(max(longest, 100))}" if len(members) > 1 else "at once"
        number = count(len(members), "short metadata refresh", "short metadata refreshes")
        return f"{number} by clients after a leader moved, {under}: expected"
    titles = join_names([one.title or detector_label(one.detector) for one in members], 2)
    titles = shorten_names(titles)
    return f"{titles}: they {lost_if(run)}" if kind == "truncation" else titles


def _brokers(members: Sequence[SavedFinding]) -> str:
    numbers = sorted({broker for one in members for broker in one.brokers})
    text = brokers_text(numbers) if numbers else "brokers"
    were = "were" if len(numbers) != 1 else "was"
    return f"{text[:1].upper()}{text[1:]} {were}"
