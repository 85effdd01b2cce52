"""The gate: every expectation with its answer, whom a failure concerns, and what follows.

What a failed expectation does to what was found: findings are downgraded, detectors fall silent.

A finding all of whose lines are in files that failed is only possible; one that has other lines,
too, goes down by one step. A detector that found nothing, and whose logs all failed, cannot tell.

What findings.json says of the gate, and what becomes of the verdict.
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
from forensics.quality import metrics
from forensics.quality.expectations import TABLES, Expectation
from forensics.quality.gx_runner import CheckResult, GxRunner
from forensics.quality.metrics import GateInput
from forensics.run_output.findings import CONFIDENCES, Finding

CHECKS_SCHEMA = pa.schema(
    [
        ("check", pa.string()),
        ("table", pa.string()),
        # in words, and as Great Expectations has it: its name, and what it was asked with
        ("words", pa.string()),
        ("expectation", pa.string()),
        ("arguments", pa.string()),
        ("success", pa.bool_()),
        ("observed", pa.string()),
        # note, downgrade or close, and what it means, in words
        ("consequence", pa.string()),
        ("otherwise", pa.string()),
        ("severity", pa.string()),
        # the rows that fail, and the findings that were downgraded for it
        ("failed", pa.int64()),
        ("findings", pa.list_(pa.string())),
    ]
)
_FRAMES: Mapping[str, Callable[[GateInput], pd.DataFrame]] = {
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
_SHOWN = 5


@dataclass(frozen=True)
class Check:
    """One expectation and its answer."""

    expectation: Expectation
    passed: bool
    observed: str
    failed: int = 0
    # whom it concerns: names of files, nodes or partitions, or ids of findings
    about: str = "archive"
    names: frozenset[str] = frozenset()
    # the findings that were downgraded for it
    findings: Sequence[str] = ()

    def row(self) -> dict[str, Any]:
        """Give the row of the table of checks."""
        one = self.expectation
        asked = dict(one.arguments) | ({"where": dict(one.where)} if one.where else {})
        return {
            "check": one.id,
            "table": one.table,
            "words": one.words,
            "expectation": one.kind,
            "arguments": json.dumps(asked, ensure_ascii=False, default=str),
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
        """Say in one sentence, without its full stop, that it does not hold."""
        return f"{self.expectation.otherwise} ({self.observed})"


@dataclass(frozen=True)
class Gate:
    """All checks of one run."""

    checks: Sequence[Check] = field(default_factory=tuple)

    def failed(self, consequence: str | None = None) -> list[Check]:
        """Give those that do not hold, all or those with one consequence; the gravest first."""
        return [
            one
            for wanted in ("close", "downgrade", "note")
            for one in self.checks
            if not one.passed
            and one.expectation.consequence == wanted
            and consequence in (None, wanted)
        ]

    @property
    def closed(self) -> list[str]:
        """Say why nothing can be concluded, if so."""
        return [one.failure_text for one in self.failed("close")]

    def table(self) -> pa.Table:
        """Give the table of checks."""
        return pa.Table.from_pylist([one.row() for one in self.checks], schema=CHECKS_SCHEMA)


def run_checks(
    run: GateInput, expectations: Iterable[Expectation], docs: Path | None = None
) -> Gate:
    """Ask all expectations, table by table; `docs` is the folder for Data Docs, if wanted."""
    wanted: dict[str, list[Expectation]] = {}
    for one in expectations:
        wanted.setdefault(one.table, []).append(one)
    runner = GxRunner(docs)
    checks: list[Check] = []
    for table in TABLES:
        if mine := wanted.get(table):
            frame = _frame(table, run)
            # What it was read from grows with the archive.
            release_arrow_memory()
            answers = runner.validate(table, frame, mine)
            checks += [
                _check(one, answer, frame, run) for one, answer in zip(mine, answers, strict=True)
            ]
    runner.close()
    return Gate(checks)


def _frame(table: str, run: GateInput) -> pd.DataFrame:
    columns = list(TABLES[table].columns)
    if table in ("archive", "files", "findings") or run.tables.has(table):
        return _FRAMES[table](run)[columns]
    return pd.DataFrame({name: pd.Series([], dtype=float) for name in columns})


def _check(one: Expectation, answer: CheckResult, frame: pd.DataFrame, run: GateInput) -> Check:
    if answer.passed:
        # What `mostly` lets pass is no failure, and concerns nobody.
        return Check(one, passed=True, observed=answer.observed)
    about = TABLES[one.table].about
    rows = frame.iloc[list(answer.rows)]
    names = [_name(about, row) for row in rows.to_dict("records")]
    shown = [f"{name}: {_short(value)}" for name, value in zip(names, answer.values, strict=False)]
    observed = answer.observed
    if shown and about != "archive":
        more = len(shown) - _SHOWN
        listed = "; ".join([*shown[:_SHOWN], *([f"and {more:,} more"] if more > 0 else [])])
        observed = f"{observed}: {listed}"
    elif shown:
        observed = _short(next(iter(answer.values)))
    if not names or about == "archive":
        return Check(one, passed=False, observed=observed, failed=len(names))
    if one.arguments.get("column") == "fallen_epochs":
        return _of_partitions(one, observed, names, run)
    found = frozenset(name for name in names if name)
    return Check(one, passed=False, observed=observed, failed=len(names), about=about, names=found)


def _of_partitions(one: Expectation, observed: str, files: Sequence[str], run: GateInput) -> Check:
    """Narrow files down to the partitions whose epochs fell; more than were kept are all."""
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


def _name(about: str, row: Mapping[Any, Any]) -> str:
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


# Tables whose failed files nothing can be read from at all.
_OF_FILES = ("archive", "files", "events")


def downgrade_results(
    answers: DetectionResults, gate: Gate, run: GateInput
) -> tuple[DetectionResults, Gate]:
    """Give the answers as far as they can be trusted, and the gate with what it brought about."""
    failed = [*gate.failed("close"), *gate.failed("downgrade")]
    if not failed:
        return answers, gate
    scope = _Scope(run)
    findings = [_finding(one, failed, scope) for one in answers.findings]
    outcomes = [_outcome(one, failed, answers.requirements.get(one.detector), scope)
                for one in answers.outcomes]  # fmt: skip
    touched: dict[str, list[str]] = {}
    for one in findings:
        for step in one.downgraded:
            touched.setdefault(step["check"], []).append(one.id)
    checks = [
        replace(check, findings=touched.get(check.expectation.id, ())) for check in gate.checks
    ]
    return replace(answers, findings=findings, outcomes=outcomes), Gate(checks)


@dataclass(frozen=True)
class _Scope:
    """Says what of a finding or a detector a check concerns."""

    run: GateInput

    def of_finding(self, check: Check, finding: Finding) -> bool | None:
        """Whether a finding rests on what failed, wholly (true) or in part; null: not at all."""
        if not check.names:
            # It is about the whole: everything rests on that, and on much else.
            return False
        if check.about == "findings":
            return True if finding.id in check.names else None
        if check.about == "partitions":
            mine = check.names.intersection(finding.partitions)
            return None if not mine else len(mine) == len(set(finding.partitions))
        places = {place["file"] for place in finding.evidence}
        failed = places & self.files(check)
        return None if not failed else failed == places

    def files(self, check: Check) -> set[str]:
        """Give the files that a check concerns, by their names or by whose they are."""
        if check.about == "files":
            return set(check.names)
        return {one.file for one in self.run.files if one.node in check.names}

    def of_needs(self, check: Check, needs: LogRequirements) -> tuple[set[str], set[str]]:
        """Give the files that a detector needs, and those of them that failed."""
        mine = {str(row["file"]) for row in self._read if needs.accepts(row)}
        if check.expectation.table not in _OF_FILES or check.about == "partitions":
            return mine, set()
        return mine, mine & self.files(check) if check.names else mine

    @cached_property
    def _read(self) -> Sequence[Mapping[str, object]]:
        return [row for row in self.run.rows.to_pylist() if row["records"]]


def _finding(finding: Finding, failed: Sequence[Check], scope: _Scope) -> Finding:
    for check in failed:
        wholly = scope.of_finding(check, finding)
        if wholly is None:
            continue
        before = CONFIDENCES.index(finding.confidence)
        after = CONFIDENCES[0 if wholly else max(0, before - 1)]
        says = check.expectation.otherwise
        step = {
            "check": check.expectation.id,
            "from": finding.confidence,
            "to": after,
            "because": says,
        }
        reasons = [finding.reason, f"the check {check.expectation.id} failed: {says}"]
        finding = replace(
            finding,
            confidence=after,
            reason="; ".join(reason for reason in reasons if reason),
            doubts=[*finding.doubts, _doubt(check, wholly=wholly)],
            downgraded=[*finding.downgraded, step],
        )
    return finding


def _doubt(check: Check, *, wholly: bool) -> str:
    rests = "it rests on that" if wholly else "it rests on that in part"
    return f"An expectation failed: {check.expectation.words} {check.failure_text}; {rests}."


def _outcome(
    outcome: Outcome, failed: Sequence[Check], needs: LogRequirements | None, scope: _Scope
) -> Outcome:
    if needs is None or outcome.status not in ("quiet", "fired"):
        return outcome
    left: set[str] | None = None
    reasons = []
    for check in failed:
        mine, gone = scope.of_needs(check, needs)
        left = (mine if left is None else left) - gone
        if gone:
            reasons.append(f"{check.expectation.id}: {check.failure_text}")
    status = outcome.status
    if status == "quiet" and reasons and not left:
        status = "not_evaluable"
    return replace(outcome, status=status, reasons=[*reasons, *outcome.reasons])


def apply_gate(document: Mapping[str, Any], gate: Gate, run: GateInput) -> dict[str, Any]:
    """Give the document of a run with its gate: what is not sure is not called clear."""
    found = dict(document) | {"quality": _section(gate)}
    closed = gate.closed
    if closed:
        more = "; what was found stands below, with less confidence" if found["findings"] else ""
        return withhold_verdict(found, f"The quality gate is closed: {closed[0]}{more}.")
    if found["verdict"] == CLEAR:
        for check in gate.failed("downgrade"):
            if _counts(check, run):
                says = f"Nothing was found, but that is not sure: {check.failure_text}."
                return withhold_verdict(found, says)
    return found


def _counts(check: Check, run: GateInput) -> bool:
    """Whether what failed may hide something: what only clients write is no proof of quiet."""
    if check.about == "nodes":
        mine = [one for one in run.files if one.node in check.names]
    elif check.about == "files" and check.names:
        mine = [run.accounts[name] for name in check.names if name in run.accounts]
    else:
        return True
    return any(one.role in ("broker", "controller") for one in mine)


def _section(gate: Gate) -> dict[str, Any]:
    rows = [one.row() for one in gate.failed()]
    names = ("check", "table", "words", "observed", "consequence", "otherwise", "severity",
             "findings")  # fmt: skip
    return {
        "gate": "closed" if gate.closed else "open",
        "closed": gate.closed,
        "checks": len(gate.checks),
        "failed": [{name: row[name] for name in names} for row in rows],
    }
