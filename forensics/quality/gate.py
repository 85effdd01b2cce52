"""Checks all expectations, downgrades the findings that a failure concerns, closes the verdict.

A finding all of whose lines are in files that failed is only possible; one that has other lines,
too, goes down by one step. A detector that found nothing, and whose logs all failed, cannot tell.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from forensics.detection.requirements import LogRequirements
from forensics.detection.runner import DetectionResults, Outcome
from forensics.detection.verdict import CLEAR, withhold_verdict
from forensics.lib.arrow_io import release_arrow_memory
from forensics.lib.second_process import SecondProcess
from forensics.quality import metrics
from forensics.quality.expectations import CONSEQUENCES, TABLES, Expectation
from forensics.quality.gx_runner import CheckResult, GxRunner, write_context
from forensics.quality.metrics import GateInput
from forensics.run_output.findings import CONFIDENCES, Finding
from forensics.schemas import CHECKS

_MEASURES: Mapping[str, Callable[[GateInput], pd.DataFrame]] = {
    "archive": metrics.measure_archive,
    "files": metrics.measure_files,
    "events": metrics.measure_events,
    "leadership": metrics.measure_leadership,
    "isr": metrics.measure_isr,
    "clocks": metrics.measure_clocks,
    "lanes": metrics.measure_lanes,
    "coverage": metrics.measure_coverage,
    "findings": metrics.measure_findings,
}
# So many failed rows are named.
_MAX_NAMED = 5


@dataclass(frozen=True)
class Check:
    """One expectation and its result."""

    expectation: Expectation
    passed: bool
    observed: str
    failed: int = 0
    # what it concerns: names of files, nodes or partitions, or ids of findings
    about: str = "archive"
    names: frozenset[str] = frozenset()
    # the findings that were downgraded for it
    findings: Sequence[str] = ()

    def row(self) -> dict[str, Any]:
        """Return its row of the table of checks."""
        one = self.expectation
        arguments = dict(one.arguments) | ({"where": dict(one.where)} if one.where else {})
        return {
            "check": one.id,
            "table": one.table,
            "words": one.words,
            "expectation": one.kind,
            "arguments": json.dumps(arguments, ensure_ascii=False, default=str),
            "success": self.passed,
            "observed": self.observed,
            "consequence": one.consequence,
            "otherwise": one.otherwise,
            "severity": one.severity,
            "failed": self.failed,
            "findings": list(self.findings),
        }

    @property
    def failure_text(self) -> str:
        """A sentence that it does not hold, without its full stop."""
        return f"{self.expectation.otherwise} ({self.observed})"


@dataclass(frozen=True)
class Gate:
    """All checks of one run."""

    checks: Sequence[Check] = field(default_factory=tuple)

    def failed(self, consequence: str | None = None) -> list[Check]:
        """Return those that do not hold, all or those with one consequence; the gravest first."""
        failed = [
            check
            for check in self.checks
            if not check.passed and consequence in (None, check.expectation.consequence)
        ]
        return sorted(failed, key=lambda one: -CONSEQUENCES.index(one.expectation.consequence))

    @property
    def closed(self) -> list[str]:
        """Why nothing can be concluded, if so."""
        return [check.failure_text for check in self.failed("close")]

    def table(self) -> pa.Table:
        """Return the table of checks."""
        return pa.Table.from_pylist([check.row() for check in self.checks], schema=CHECKS)


def run_checks(
    run: GateInput,
    expectations: Iterable[Expectation],
    docs: Path | None = None,
    context: Path | None = None,
) -> Gate:
    """Check all expectations, table by table.

    `docs` is the folder for Data Docs, `context` that for a context of Great Expectations, if
    these are wanted.
    """
    return Gate(check_tables(run, list(expectations), docs, context))


# What stands in these is known once detectors have answered.
_OF_FINDINGS = ("archive", "findings")


def begin_checks(
    second: SecondProcess,
    run: GateInput,
    expectations: Iterable[Expectation],
    docs: Path | None = None,
    context: Path | None = None,
) -> Callable[[GateInput], Gate]:
    """Begin to check what is known before there are findings; return what does as `run_checks`.

    That is only begun where another process can do it, and where nothing is written of all tables
    together.
    """
    held = list(expectations)
    if not second.is_there or docs or context:
        return lambda run: run_checks(run, held, docs, context)
    late = [one for one in held if one.table in _OF_FINDINGS]
    early = [one for one in held if one.table not in _OF_FINDINGS]
    begun = second.start(check_tables, run, early)

    def finish(run: GateInput) -> Gate:
        checks = second.start(check_tables, run, late).result() + begun.result()
        order = list(TABLES)
        return Gate(sorted(checks, key=lambda check: order.index(check.expectation.table)))

    return finish


def check_tables(
    run: GateInput,
    expectations: Sequence[Expectation],
    docs: Path | None = None,
    context: Path | None = None,
) -> list[Check]:
    """Check some expectations, and write what `run_checks` is asked to write."""
    by_table: dict[str, list[Expectation]] = {}
    for expectation in expectations:
        by_table.setdefault(expectation.table, []).append(expectation)
    runner = GxRunner(docs)
    checks: list[Check] = []
    frames: dict[str, pd.DataFrame] = {}
    for table in TABLES:
        if own := by_table.get(table):
            frame = _frame(table, run)
            if context is not None:
                frames[table] = frame
            release_arrow_memory()
            results = runner.validate(table, frame, own)
            checks += (_check(*pair, frame, run) for pair in zip(own, results, strict=True))
    runner.close()
    if context is not None:
        write_context(context, frames, expectations)
    return checks


def _frame(table: str, run: GateInput) -> pd.DataFrame:
    columns = list(TABLES[table].columns)
    if table in ("archive", "files", "findings") or run.tables.has(table):
        return _MEASURES[table](run)[columns]
    return pd.DataFrame({name: pd.Series([], dtype=float) for name in columns})


def _check(one: Expectation, result: CheckResult, frame: pd.DataFrame, run: GateInput) -> Check:
    if result.passed:
        # Rows that `mostly` lets pass are no failure.
        return Check(one, passed=True, observed=result.observed)
    about = TABLES[one.table].about
    rows = frame.iloc[list(result.rows)]
    names = [_subject(about, row) for row in rows.to_dict("records")]
    shown = [f"{name}: {_short(value)}" for name, value in zip(names, result.values, strict=False)]
    observed = result.observed
    if shown and about != "archive":
        more = len(shown) - _MAX_NAMED
        listed = "; ".join([*shown[:_MAX_NAMED], *([f"and {more:,} more"] if more > 0 else [])])
        observed = f"{observed}: {listed}"
    elif shown:
        observed = _short(next(iter(result.values)))
    if not names or about == "archive":
        return Check(one, passed=False, observed=observed, failed=len(names))
    if one.arguments.get("column") == "fallen_epochs":
        return _check_of_partitions(one, observed, names, run)
    known = frozenset(name for name in names if name)
    return Check(one, passed=False, observed=observed, failed=len(names), about=about, names=known)


def _check_of_partitions(
    one: Expectation, observed: str, files: Sequence[str], run: GateInput
) -> Check:
    """Narrow files down to the partitions whose epochs fell, unless only some of them were kept."""
    accounts = [run.accounts[name] for name in files]
    whole = any(account.fallen > len(account.falls) for account in accounts)
    falls = [(account.file, fall) for account in accounts for fall in account.falls]
    if whole or not falls:
        return Check(one, False, observed, len(files), "files", frozenset(files))
    file, (topic, partition, counter, before, after, line) = falls[0]
    words = counter.replace("_", " ")
    observed += f"; first {topic}-{partition}: {words} {before}, then {after} at {file}:{line}"
    names = frozenset(f"{fall[0]}-{fall[1]}" for _, fall in falls)
    return Check(one, False, observed, len(files), "partitions", names)


def _subject(about: str, row: Mapping[Any, Any]) -> str:
    if about == "partitions":
        return f"{row['topic']}-{row['partition']}"
    if about == "archive":
        return about
    name = row[{"files": "file", "nodes": "node", "findings": "id"}[about]]
    return str(name) if isinstance(name, str) else ""


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return str(value)


# Nothing can be concluded from files that fail in these tables.
_INPUT_TABLES = ("archive", "files", "events")


def downgrade_results(
    results: DetectionResults, gate: Gate, run: GateInput
) -> tuple[DetectionResults, Gate]:
    """Downgrade what failed checks concern; return it, and the gate with the findings it hit."""
    failed = [*gate.failed("close"), *gate.failed("downgrade")]
    if not failed:
        return results, gate
    scope = _Scope(run)
    findings = [_downgrade_finding(finding, failed, scope) for finding in results.findings]
    outcomes = [
        _downgrade_outcome(outcome, failed, results.requirements.get(outcome.detector), scope)
        for outcome in results.outcomes
    ]
    hit: dict[str, list[str]] = {}
    for finding in findings:
        for step in finding.downgraded:
            hit.setdefault(step["check"], []).append(finding.id)
    checks = [replace(check, findings=hit.get(check.expectation.id, ())) for check in gate.checks]
    return replace(results, findings=findings, outcomes=outcomes), Gate(checks)


@dataclass(frozen=True)
class _Scope:
    """Finds out which findings and which files of a detector a check concerns."""

    run: GateInput

    def of_finding(self, check: Check, finding: Finding) -> bool | None:
        """Return whether a finding rests on what failed wholly, or in part; None: not at all."""
        if not check.names:
            # Every finding rests on the whole archive, and on much else.
            return False
        if check.about == "findings":
            return True if finding.id in check.names else None
        if check.about == "partitions":
            all_of_it = set(finding.partitions)
            failed = all_of_it & check.names
        else:
            all_of_it = {line["file"] for line in finding.evidence}
            failed = all_of_it & self.files(check)
        return failed == all_of_it if failed else None

    def files(self, check: Check) -> set[str]:
        """Return the files that a check concerns, by their names or by their nodes."""
        if check.about == "files":
            return set(check.names)
        return {account.file for account in self.run.files if account.node in check.names}

    def of_requirements(
        self, check: Check, requirements: LogRequirements
    ) -> tuple[set[str], set[str]]:
        """Return the files that a detector requires, and those of them that failed."""
        required = {str(row["file"]) for row in self._read if requirements.accepts(row)}
        if check.expectation.table not in _INPUT_TABLES or check.about == "partitions":
            return required, set()
        return required, required & self.files(check) if check.names else required

    @cached_property
    def _read(self) -> Sequence[Mapping[str, object]]:
        return [row for row in self.run.rows.to_pylist() if row["records"]]


def _downgrade_finding(finding: Finding, failed: Sequence[Check], scope: _Scope) -> Finding:
    for check in failed:
        wholly = scope.of_finding(check, finding)
        if wholly is None:
            continue
        name, says = check.expectation.id, check.expectation.otherwise
        before = CONFIDENCES.index(finding.confidence)
        after = CONFIDENCES[0 if wholly else max(0, before - 1)]
        step = {"check": name, "from": finding.confidence, "to": after, "because": says}
        reasons = [finding.reason, f"the check {name} failed: {says}"]
        rests = "it rests on that" if wholly else "it rests on that in part"
        failure = f"{check.expectation.words} {check.failure_text}"
        finding = replace(
            finding,
            confidence=after,
            reason="; ".join(reason for reason in reasons if reason),
            doubts=[*finding.doubts, f"An expectation failed: {failure}; {rests}."],
            downgraded=[*finding.downgraded, step],
        )
    return finding


def _downgrade_outcome(
    outcome: Outcome, failed: Sequence[Check], requirements: LogRequirements | None, scope: _Scope
) -> Outcome:
    if requirements is None or outcome.status not in ("quiet", "fired"):
        return outcome
    left: set[str] | None = None
    reasons = []
    for check in failed:
        required, unusable = scope.of_requirements(check, requirements)
        left = (required if left is None else left) - unusable
        if unusable:
            reasons.append(f"{check.expectation.id}: {check.failure_text}")
    blind = outcome.status == "quiet" and reasons and not left
    status = "not_evaluable" if blind else outcome.status
    return replace(outcome, status=status, reasons=[*reasons, *outcome.reasons])


def apply_gate(document: Mapping[str, Any], gate: Gate, run: GateInput) -> dict[str, Any]:
    """Add the gate to findings.json, and withhold a verdict that is not certain."""
    gated = dict(document) | {"quality": _section(gate)}
    if gate.closed:
        more = "; what was found stands below, with less confidence" if gated["findings"] else ""
        return withhold_verdict(gated, f"The quality gate is closed: {gate.closed[0]}{more}.")
    if gated["verdict"] == CLEAR:
        for check in gate.failed("downgrade"):
            if _may_hide_incidents(check, run):
                summary = f"Nothing was found, but that is not sure: {check.failure_text}."
                return withhold_verdict(gated, summary)
    return gated


def _may_hide_incidents(check: Check, run: GateInput) -> bool:
    """Return True unless a failure concerns clients only: their logs do not prove quiet."""
    if check.about == "nodes":
        accounts = [account for account in run.files if account.node in check.names]
    elif check.about == "files" and check.names:
        accounts = [run.accounts[name] for name in check.names if name in run.accounts]
    else:
        return True
    return any(account.role in ("broker", "controller") for account in accounts)


def _section(gate: Gate) -> dict[str, Any]:
    rows = [check.row() for check in gate.failed()]
    names = ("check", "table", "words", "observed", "consequence", "otherwise", "severity",
             "findings")  # fmt: skip
    return {
        "gate": "closed" if gate.closed else "open",
        "closed": gate.closed,
        "checks": len(gate.checks),
        "failed": [{name: row[name] for name in names} for row in rows],
    }
