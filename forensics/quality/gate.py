"""The gate: every expectation with its answer, whom a failure concerns, and what follows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from forensics.quality import claiming, reading, rebuilding
from forensics.quality.columns import TABLES
from forensics.quality.given import Given
from forensics.quality.running import Answer, Runner
from forensics.quality.suites import Expectation
from forensics.tables import give_back

__all__ = ["CHECKS", "Check", "Gate", "check"]

CHECKS = pa.schema(
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
_FRAMES: Mapping[str, Callable[[Given], pd.DataFrame]] = {
    "archive": reading.archive,
    "files": reading.files,
    "events": reading.events,
    "leadership": rebuilding.leadership,
    "isr": rebuilding.isr,
    "clocks": rebuilding.clocks,
    "lanes": rebuilding.lanes,
    "coverage": rebuilding.coverage,
    "findings": claiming.findings,
}
_SHOWN = 5


@dataclass(frozen=True)
class Check:
    """One expectation and its answer."""

    expectation: Expectation
    holds: bool
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
            "success": self.holds,
            "observed": self.observed,
            "consequence": one.consequence,
            "otherwise": one.otherwise,
            "severity": one.severity,
            "failed": self.failed,
            "findings": list(self.findings),
        }

    @property
    def says(self) -> str:
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
            if not one.holds
            and one.expectation.consequence == wanted
            and consequence in (None, wanted)
        ]

    @property
    def closed(self) -> list[str]:
        """Say why nothing can be concluded, if so."""
        return [one.says for one in self.failed("close")]

    def table(self) -> pa.Table:
        """Give the table of checks."""
        return pa.Table.from_pylist([one.row() for one in self.checks], schema=CHECKS)


def check(given: Given, expectations: Iterable[Expectation], docs: Path | None = None) -> Gate:
    """Ask all expectations, table by table; `docs` is the folder for Data Docs, if wanted."""
    wanted: dict[str, list[Expectation]] = {}
    for one in expectations:
        wanted.setdefault(one.table, []).append(one)
    runner = Runner(docs)
    checks: list[Check] = []
    for table in TABLES:
        if mine := wanted.get(table):
            frame = _frame(table, given)
            # What it was read from grows with the archive.
            give_back()
            answers = runner.ask(table, frame, mine)
            checks += [
                _check(one, answer, frame, given) for one, answer in zip(mine, answers, strict=True)
            ]
    runner.close()
    return Gate(checks)


def _frame(table: str, given: Given) -> pd.DataFrame:
    columns = list(TABLES[table].columns)
    if table in ("archive", "files", "findings") or given.has(table):
        return _FRAMES[table](given)[columns]
    return pd.DataFrame({name: pd.Series([], dtype=float) for name in columns})


def _check(one: Expectation, answer: Answer, frame: pd.DataFrame, given: Given) -> Check:
    if answer.holds:
        # What `mostly` lets pass is no failure, and concerns nobody.
        return Check(one, holds=True, observed=answer.observed)
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
        return Check(one, holds=False, observed=observed, failed=len(names))
    if one.arguments.get("column") == "fallen_epochs":
        return _of_partitions(one, observed, names, given)
    found = frozenset(name for name in names if name)
    return Check(one, holds=False, observed=observed, failed=len(names), about=about, names=found)


def _of_partitions(one: Expectation, observed: str, files: Sequence[str], given: Given) -> Check:
    """Narrow files down to the partitions whose epochs fell; more than were kept are all."""
    accounts = [given.accounts[name] for name in files]
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
