"""One run, seen through a shorter window: only what reaches into it is told of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from forensics.detection.impact import clients_in_trouble
from forensics.detection.verdict import INCIDENT, decide_verdict
from forensics.errors import ForensicsError
from forensics.history.log_coverage import LACKING_STATES
from forensics.lib.text_format import count, parse_millis, span_text, time_text
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
        """Return True: only a window of the run is looked at."""
        return True

    @property
    def logs_end(self) -> int | None:
        """The time of the last line of the whole logs."""
        return self.whole.logs_end

    @property
    def notice(self) -> str:
        """Say what this is a part of."""
        findings = f"{len(self.findings):,} of {count(len(self.whole.findings), 'finding')}"
        whole = span_text(*self.whole.window) if self.whole.window else "at times not known"
        return (
            f"Narrowed to {span_text(*self.span)}: {findings} reach into it, and states that began "
            f"earlier or ended later keep their times. The logs reach over {whole}; counts of "
            "files and lines are of the whole logs."
        )

    def table(
        self, name: str, columns: Sequence[str], where: ds.Expression | None = None
    ) -> pa.Table:
        """Read as `RunOutput` does, but only what reaches into the window."""
        read = super().table(name, self._with_times(name, columns), self._within(name, where))
        return self._filter_exactly(name, read).select(list(columns))

    def chunks(
        self, name: str, columns: Sequence[str], where: ds.Expression | None = None
    ) -> Iterator[pa.Table]:
        """Read as `RunOutput` does, but only what reaches into the window."""
        chunks = super().chunks(name, self._with_times(name, columns), self._within(name, where))
        for chunk in chunks:
            inside = self._filter_exactly(name, chunk).select(list(columns))
            if inside.num_rows:
                yield inside

    def count_rows(self, name: str, where: ds.Expression | None = None) -> int:
        """Count the rows that reach into the window."""
        return super().count_rows(name, self._within(name, where))

    def _with_times(self, name: str, columns: Sequence[str]) -> Sequence[str]:
        # What a node logged is in the node's own time, and only its name tells which that is.
        times = ("ts", "node") if name == "events" else ()
        return list(dict.fromkeys((*columns, *times)))

    def _within(self, name: str, where: ds.Expression | None) -> ds.Expression | None:
        reaches = self._reaches(name)
        if where is None or reaches is None:
            return reaches if where is None else where
        return where & reaches

    def _reaches(self, name: str) -> ds.Expression | None:
        start, end = self.span
        if name == "events":
            corrections = self.clock_corrections.values()
            around = max((one.max_offset(start, end) for one in corrections), default=0)
            ts = ds.field("ts")
            return (ts >= _timestamp(start - around)) & (ts <= _timestamp(end + around))
        columns = self.tables.column_names(name)
        if "started_at" not in columns:
            return None
        started = ds.field("started_at")
        ended = ds.field("ended_at") if "ended_at" in columns else started
        has_started = started.is_null() | (started <= _timestamp(end))
        return has_started & (ended.is_null() | (ended >= _timestamp(start)))

    def _filter_exactly(self, name: str, rows: pa.Table) -> pa.Table:
        if name != "events" or not self.clock_corrections or not rows.num_rows:
            return rows
        times = corrected_times(rows, self.clock_corrections)
        return rows.filter(pa.array((times >= self.span[0]) & (times <= self.span[1])))


def _timestamp(ms: int) -> pa.Scalar:
    return to_arrow_timestamp(ms * MILLISECOND)


def parse_window(run: RunOutput, since: str | None, till: str | None) -> Span:
    """Read --from and --to in the page's zone, within what the logs reach."""
    if not run.window:
        raise ForensicsError(f"{run.place}: no line in it has a time, so no window can be chosen.")
    first, last = run.window
    start, end = _parse("--from", since, run.window), _parse("--to", till, run.window)
    if start is not None and end is not None and start >= end:
        raise ForensicsError("--from is not before --to; exchange them, or choose another.")
    start = first if start is None else max(first, start)
    end = last if end is None else min(last, end)
    if start >= end:
        raise ForensicsError(
            f"The logs reach over {span_text(first, last)}; choose --from and --to within that."
        )
    return start, end


def _parse(option: str, text: str | None, window: Span) -> int | None:
    if text is None:
        return None
    offset = current_zone().offset
    moment = parse_millis(text)
    if TIME_OF_DAY.fullmatch(text):
        moment = parse_time(option, text, (window[0] + offset, window[1] + offset))
        return None if moment is None else moment - offset
    if moment is None:
        raise ForensicsError(
            f"{option} {text}: write a time such as {time_text(window[0])} or, where the logs are "
            "of one day, 11:38:51."
        )
    # A time that names its own zone is in that one.
    names_zone = parse_millis(f"{text}Z") is None
    return moment if names_zone else moment - offset


def narrow_run(run: RunOutput, span: Span) -> WindowedRun:
    """Look at one window of a run."""
    findings = [one for one in run.document.get("findings") or () if _overlaps(one, span)]
    document = dict(run.document) | {
        "findings": findings,
        "window": {"from": to_iso(span[0] * MILLISECOND), "to": to_iso(span[1] * MILLISECOND)},
        "whole_window": run.document.get("window"),
    }
    kept = {finding.get("id") for finding in findings}
    if "trigger" in document:
        document["trigger"] = [one for one in document["trigger"] if one.get("finding") in kept]
    if "impact" in document:
        document["impact"] = _impact(run, findings, span)
    if "chains" in document:
        document["chains"] = _whole_chains(run, kept)
    if "detectors" in document:
        document["detectors"] = _detector_answers(run, findings)
    windowed = WindowedRun(run.folder, document, run, span)
    verdict = _verdict(windowed)
    summary = f"{count(len(findings), 'finding')} of level low or info in this window."
    if verdict == INCIDENT:
        summary = str(findings[0].get("title") or "") if findings else "Nothing"
    return replace(windowed, document=document | {"verdict": verdict, "summary": summary})


def _verdict(run: WindowedRun) -> str:
    # Where the run had an incident elsewhere, nobody asked yet what silence in the window means.
    verdict = decide_verdict(
        run.findings,
        run.files,
        knows_leaders=run.count_rows("leadership", ds.field("how") == "observed") > 0,
        lacks_logs=run.count_rows("coverage", ds.field("state").isin(LACKING_STATES)) > 0,
    )
    whole = str(run.whole.document.get("verdict"))
    return verdict if INCIDENT in (verdict, whole) else whole


def _overlaps(finding: Mapping[str, Any], span: Span) -> bool:
    start, end = parse_millis(finding.get("from")), parse_millis(finding.get("to"))
    return (start is None or start <= span[1]) and (end is None or end >= span[0])


def _impact(run: RunOutput, findings: Sequence[Mapping[str, Any]], span: Span) -> dict[str, Any]:
    """Measure what the outages took within the window; losses are those of what is kept."""
    impact = dict(run.document["impact"])
    columns = ("topic", "partition", "started_at", "ended_at", "ended_after", "planned")
    lengths: dict[tuple[str, int], list[int]] = {}
    planned = longest = 0
    for row in run.rows("outages", columns):
        start = span[0] if row["started_at"] is None else max(span[0], row["started_at"])
        end = span[1] if row["ended_at"] is None else min(span[1], row["ended_at"])
        if end < start or (row["planned"] and row["ended_at"] is None):
            continue
        if row["planned"]:
            planned += end - start
        else:
            lengths.setdefault((row["topic"], row["partition"]), []).append(end - start)
            longest = max(longest, min(span[1], row["ended_after"] or end) - start)
    every = [length for own in lengths.values() for length in own]
    impact |= {
        "partitions_unavailable": len(lengths),
        "partition_seconds": round(sum(every) / 1000, 1),
        "longest_s": round(longest / 1000, 1),
        "planned_partition_seconds": round(planned / 1000, 1),
    }
    if (gap := impact.get("unknown_leaders")) and not _overlaps(gap, span):
        impact["unknown_leaders"] = None
    if not lengths:
        # Those that the findings kept are about; during outages nobody was hit here.
        troubled = clients_in_trouble(
            (one.get("detector"), one.get("severity"), one.get("clients") or ()) for one in findings
        )
        impact["clients_affected"] = len(troubled)
    if not any(one.get("detector") in ("unclean-election", "truncation") for one in findings):
        impact |= {"records_lost_min": 0, "records_lost_max": 0}
    return impact


def _whole_chains(run: RunOutput, kept: set[object]) -> list[Any]:
    """Keep the chains all of whose findings are kept."""
    dropped = {finding.get("id") for finding in run.document.get("findings") or ()} - kept
    return [
        chain
        for chain in run.document.get("chains") or ()
        if not any(name in str(chain) for name in map(str, dropped))
    ]


def _detector_answers(run: RunOutput, findings: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Count for each detector what it found in this window."""
    answers = []
    for answer in run.document.get("detectors") or ():
        number = sum(one.get("detector") == answer.get("detector") for one in findings)
        is_quiet = answer.get("status") == "fired" and not number
        status = "quiet" if is_quiet else answer.get("status")
        answers.append(dict(answer) | {"findings": number, "status": status})
    return answers
