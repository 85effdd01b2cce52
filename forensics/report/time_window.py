"""One run, seen through a shorter window: only what reaches into it is told of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from forensics.detection.verdict import INCIDENT, decide_verdict
from forensics.errors import ForensicsError
from forensics.history.log_coverage import LACKING_STATES
from forensics.lib.formatting import count, parse_millis, span_text, time_text
from forensics.lib.time_units import MILLISECOND, to_arrow_timestamp, to_iso
from forensics.lib.time_zone import current_zone
from forensics.report.histories.selection import TIME_OF_DAY, parse_time
from forensics.run_output.reader import RunOutput, corrected_times

Span = tuple[int, int]


@dataclass(frozen=True)
class WindowedRun(RunOutput):
    """A run of which only one window is looked at."""

    whole: RunOutput
    span: Span

    @property
    def is_windowed(self) -> bool:
        """Whether only a window of the run is looked at: it is."""
        return True

    @property
    def notice(self) -> str:
        """Say what this is a part of."""
        found = f"{len(self.findings):,} of {count(len(self.whole.findings), 'finding')}"
        reach = span_text(*self.whole.window) if self.whole.window else "at times not known"
        return (
            f"Narrowed to {span_text(*self.span)}: {found} reach into it, and states that began "
            f"earlier or ended later keep their times. The logs reach over {reach}; counts of "
            "files and lines are of the whole logs."
        )

    def table(
        self, name: str, columns: Sequence[str], where: ds.Expression | None = None
    ) -> pa.Table:
        """Read as `RunOutput` does, but only what reaches into the window."""
        more = [column for column in self._times(name) if column not in columns]
        kept = _both(where, self._reaches(name))
        read = super().table(name, [*columns, *more], kept)
        return self._exact(name, read).select(list(columns))

    def chunks(
        self, name: str, columns: Sequence[str], where: ds.Expression | None = None
    ) -> Iterator[pa.Table]:
        """Read as `RunOutput` does, but only what reaches into the window."""
        more = [column for column in self._times(name) if column not in columns]
        kept = _both(where, self._reaches(name))
        for part in super().chunks(name, [*columns, *more], kept):
            found = self._exact(name, part).select(list(columns))
            if found.num_rows:
                yield found

    def count_rows(self, name: str, where: ds.Expression | None = None) -> int:
        """Count the rows that reach into the window."""
        return super().count_rows(name, _both(where, self._reaches(name)))

    def _times(self, name: str) -> list[str]:
        # What a node logged is in the node's own time, and only its name tells which that is.
        return ["ts", "node"] if name == "events" else []

    def _reaches(self, name: str) -> ds.Expression | None:
        have = set(self.tables.column_names(name))
        start, end = self.span
        if name == "events":
            around = max(
                (one.max_offset(start, end) for one in self.clock_corrections.values()), default=0
            )
            return (ds.field("ts") >= to_arrow_timestamp((start - around) * MILLISECOND)) & (
                ds.field("ts") <= to_arrow_timestamp((end + around) * MILLISECOND)
            )
        if "started_at" not in have:
            return None
        begun = ds.field("started_at")
        reaches = begun.is_null() | (begun <= to_arrow_timestamp(end * MILLISECOND))
        over = ds.field("ended_at") if "ended_at" in have else begun
        return reaches & (over.is_null() | (over >= to_arrow_timestamp(start * MILLISECOND)))

    def _exact(self, name: str, read: pa.Table) -> pa.Table:
        if name != "events" or not self.clock_corrections or not read.num_rows:
            return read
        moments = corrected_times(read, self.clock_corrections)
        inside = pa.array((moments >= self.span[0]) & (moments <= self.span[1]))
        return read.filter(inside)


def parse_window(run: RunOutput, since: str | None, till: str | None) -> Span:
    """Read --from and --to in the page's zone, within what the logs reach."""
    if not run.window:
        raise ForensicsError(f"{run.folder}: no line in it has a time, so no window can be chosen.")
    first, last = run.window
    begun, over = _read("--from", since, run.window), _read("--to", till, run.window)
    start = first if begun is None else max(first, begun)
    end = last if over is None else min(last, over)
    if begun is not None and over is not None and begun >= over:
        raise ForensicsError("--from is not before --to; exchange them, or choose another.")
    if start >= end:
        raise ForensicsError(
            f"The logs reach over {span_text(first, last)}; choose --from and --to within that."
        )
    return start, end


def _read(option: str, text: str | None, window: Span) -> int | None:
    if text is None:
        return None
    by = current_zone().offset
    moment = parse_millis(text)
    if TIME_OF_DAY.fullmatch(text):
        moment = parse_time(option, text, (window[0] + by, window[1] + by))
        return None if moment is None else moment - by
    if moment is None:
        raise ForensicsError(
            f"{option} {text}: write a time such as {time_text(window[0])} or, where the logs are "
            "of one day, 11:38:51."
        )
    # A time that names its own zone is in that one.
    names_zone = parse_millis(f"{text}Z") is None
    return moment if names_zone else moment - by


def narrow_run(run: RunOutput, span: Span) -> WindowedRun:
    """Look at one window of a run."""
    findings = [one for one in run.document.get("findings") or () if _overlaps(one, span)]
    kept = {one.get("id") for one in findings}
    document = dict(run.document) | {
        "findings": findings,
        "window": {"from": to_iso(span[0] * MILLISECOND), "to": to_iso(span[1] * MILLISECOND)},
        "whole_window": run.document.get("window"),
    }
    for name, rows in (("chains", _chains(run, kept)), ("detectors", _outcomes(run, findings))):
        if name in document:
            document[name] = rows
    seen = WindowedRun(run.folder, document, run, span)
    verdict = _verdict(seen)
    first = str(findings[0].get("title") or "") if findings else "Nothing"
    words = first if verdict == INCIDENT else f"{count(len(findings), 'finding')} in this window."
    return WindowedRun(run.folder, document | {"verdict": verdict, "summary": words}, run, span)


def _verdict(seen: WindowedRun) -> str:
    # Where the run had an incident elsewhere, nobody asked yet what silence in the window means.
    lacks = seen.tables.has("coverage") and seen.count_rows(
        "coverage", ds.field("state").isin(LACKING_STATES)
    )
    verdict = decide_verdict(
        (finding.severity for finding in seen.findings),
        seen.files,
        knows_leaders=seen.count_rows("leadership", ds.field("how") == "observed") > 0,
        lacks_logs=lacks > 0,
    )
    whole = str(seen.whole.document.get("verdict"))
    return verdict if INCIDENT in (verdict, whole) else whole


def _overlaps(finding: Mapping[str, Any], span: Span) -> bool:
    start, end = parse_millis(finding.get("from")), parse_millis(finding.get("to"))
    return (start is None or start <= span[1]) and (end is None or end >= span[0])


def _chains(run: RunOutput, kept: set[object]) -> list[Any]:
    """Keep the chains none of whose findings are gone."""
    every = {one.get("id") for one in run.document.get("findings") or ()}
    return [
        chain
        for chain in run.document.get("chains") or ()
        if not any(gone in str(chain) for gone in map(str, every - kept))
    ]


def _outcomes(run: RunOutput, findings: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Count for each detector what it found in this window."""
    rows = []
    for outcome in run.document.get("detectors") or ():
        found = sum(one.get("detector") == outcome.get("detector") for one in findings)
        fired = outcome.get("status") == "fired"
        status = "quiet" if fired and not found else outcome.get("status")
        rows.append(dict(outcome) | {"findings": found, "status": status})
    return rows


def _both(one: ds.Expression | None, other: ds.Expression | None) -> ds.Expression | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other
