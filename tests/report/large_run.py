"""The saved tables of a large cluster on a bad day, made without logs and without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from forensics import schemas
from forensics.history.partitions.outages import build_outages
from forensics.lib.arrow_io import write_table
from forensics.run_output.findings import write_findings
from tests.report.sample_runs import START, Row, file, finding, iso, proof, save

HOUR = 3_600_000
DAY = 24 * HOUR
BROKERS, EACH = 30, 100
Columns = dict[str, Any]
Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


def large(
    out: Path, partitions: int = 10_000, brokers: int = BROKERS, findings: int = 200,
    *, worst: bool = False,
) -> Path:  # fmt: skip
    """Save a day on which brokers crash now and then, and half the partitions flap besides.

    At `worst` no two partitions move at the same times, and each finding quotes 40 long lines.
    """
    rng = np.random.default_rng(7)
    crashes = np.sort(rng.integers(HOUR, DAY - HOUR, 40))
    broken = rng.integers(0, brokers, len(crashes))
    led, synced = _turns(partitions, brokers, crashes, broken, 7919 if worst else 700)
    _put(out, "leadership", led)
    write_table(build_outages(out / "tables/leadership", ()), out / "tables/outages")
    _put(out, "isr", synced)
    save(out, "lanes", _lives(brokers, crashes, broken))
    save(out, "files", [file(f"broker-{n}", f"server.log.{h}", first_ts=_at(h * HOUR),
                             last_ts=_at((h + 1) * HOUR))
                        for n in range(brokers) for h in range(24)])  # fmt: skip
    save(out, "clocks", [
        {"node": f"broker-{n}", "offset_ms": n * 3, "uncertainty_ms": 9, "anchors": 40,
         "zone_shift_minutes": 0, "reference": n == 0} for n in range(brokers)
    ])  # fmt: skip
    save(out, "coverage", _covered(brokers))
    _put(out, "events", _told(brokers))
    whole = {"window": {"from": iso(0), "to": iso(DAY)}, "schema": 1, "verdict": "incident",
             "summary": "A bad day.", "archive": {"files": brokers * 24, "bytes": 1, "lines": 1,
             "events": 1}}  # fmt: skip
    lines = _long_lines(findings) if worst else [[proof(1, n, "x" * 150) for n in range(40)]]
    write_findings(
        whole | {"findings": list(_findings(findings, brokers, lines))}, out / "findings.json"
    )
    return out


def _at(ms: int) -> int:
    return (START + int(ms)) * 1000


def _turns(
    partitions: int, brokers: int, crashes: Ints, broken: Ints, apart: int
) -> tuple[Columns, Columns]:
    """Move what a broken broker leads to the next replica; each second partition moves back."""
    led: list[tuple[int, int, int, int, int]] = []
    synced: list[tuple[int, int, list[int], list[int], int, int]] = []
    for number in range(partitions):
        replicas = [(number + step) % brokers for step in range(3)]
        leader, epoch, since, version, alike = replicas[0], 0, 0, 0, 0
        for moment, gone in zip(crashes.tolist(), broken.tolist(), strict=True):
            if gone not in replicas:
                continue
            # Controllers write what happens at once a little apart.
            at = moment + number * (1 if apart == 700 else moment % 13 + 1) % apart
            synced.append((number, version, sorted(replicas), replicas, alike, at))
            left = sorted(set(replicas) - {gone})
            synced.append((number, version + 1, left, replicas, at, at + 90_000))
            version, alike = version + 2, at + 90_000
            if gone == leader:
                led.append((number, epoch, leader, since, at))
                led.append((number, epoch + 1, -1, at, at + 2000))
                leader = next(one for one in replicas if one != gone)
                epoch, since = epoch + 2, at + 2000
        led.append((number, epoch, leader, since, -1))
        synced.append((number, version, sorted(replicas), replicas, alike, -1))
    return _led(led), _synced(synced)


def _led(rows: list[tuple[int, int, int, int, int]]) -> Columns:
    number, epoch, leader, start, end = (np.array(one) for one in zip(*rows, strict=True))
    unclean = (leader >= 0) & (epoch > 0) & (number % 997 == 5)
    return {
        "topic": [f"topic-{one // EACH}" for one in number], "partition": number % EACH,
        "leader_epoch": epoch, "leader": leader, **_times(start, end),
        "how": ["observed"] * len(rows), "clean": ~unclean,
        "election": np.where(unclean, "unclean", "failover"),
    }  # fmt: skip


def _synced(rows: list[tuple[int, int, list[int], list[int], int, int]]) -> Columns:
    number = np.array([row[0] for row in rows])
    return {
        "topic": [f"topic-{one // EACH}" for one in number], "partition": number % EACH,
        "partition_epoch": [row[1] for row in rows], "isr": [row[2] for row in rows],
        "replicas": [row[3] for row in rows],
        **_times(np.array([row[4] for row in rows]), np.array([row[5] for row in rows])),
        "how": ["observed"] * len(rows),
    }  # fmt: skip


def _times(start: Ints, end: Ints) -> Columns:
    over = pa.array((START + end) * 1000, mask=end < 0)
    return {"started_at": (START + start) * 1000, "ended_at": over}


def _put(out: Path, name: str, columns: Columns) -> None:
    schema = getattr(schemas, name.upper())
    rows = len(next(iter(columns.values())))
    arrays = [
        pa.array(columns[field.name]).cast(field.type)
        if field.name in columns
        else pa.nulls(rows, field.type)
        for field in schema
    ]
    folder = out / "tables" / name
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(arrays, schema=schema), folder / "part-0.parquet")


def _lives(brokers: int, crashes: Ints, broken: Ints) -> list[Row]:
    rows: list[Row] = []
    for broker in range(brokers):
        mine = {"node": f"broker-{broker}", "role": "broker", "broker": broker}
        since = 0
        for moment in crashes[broken == broker].tolist():
            # Two strokes on one broker may overlap: the second finds it away already.
            if moment <= since:
                continue
            for state, start, end in (("up", since, moment), ("crashed", moment, moment + 60_000),
                                      ("starting", moment + 60_000, moment + 80_000)):  # fmt: skip
                rows.append(mine | {"state": state, "started_at": _at(start), "ended_at": _at(end)})
            since = moment + 80_000
        rows.append(mine | {"state": "up", "started_at": _at(since), "ended_at": None})
    office = {"node": "controller-1", "role": "controller", "broker": 100, "state": "active"}
    return [*rows, office | {"started_at": _at(0), "ended_at": None}]


def _covered(brokers: int) -> list[Row]:
    rows: list[Row] = [
        {"node": f"broker-{n}", "role": "broker", "log": log, "state": "covered",
         "started_at": _at(0), "ended_at": _at(DAY), "files": 24, "records": 9000}
        for n in range(brokers) for log in ("server", "state-change", "controller")
    ]  # fmt: skip
    silent = {"node": "broker-4", "role": "broker", "log": None, "state": "rotated",
              "why": "older files are gone"}  # fmt: skip
    return [*rows, silent | {"started_at": _at(2 * HOUR), "ended_at": _at(3 * HOUR)}]


def _told(brokers: int, many: int = 100_000) -> Columns:
    rng = np.random.default_rng(11)
    kinds = np.where(np.arange(many) % 20 == 0, "client_error", "partition_state")
    return {
        "kind": kinds, "ts": (START + np.sort(rng.integers(0, DAY, many))) * 1000,
        "node": [f"broker-{n % brokers}" for n in range(many)],
        "file": ["a"] * many, "line": np.arange(many),
        "client": [f"app-{n % 40}" if n % 20 == 0 else None for n in range(many)],
    }  # fmt: skip


def _long_lines(findings: int) -> list[list[Row]]:
    """Quote 40 lines a finding, each of 420 characters that no other line has."""
    rng = np.random.default_rng(13)
    marks = np.array(list("0123456789abcdef"))
    return [
        [proof(1, number, "[2026-11-18 11:38:51,318] " + "".join(text))
         for number, text in enumerate(marks[rng.integers(0, 16, (40, 394))])]
        for _ in range(findings)
    ]  # fmt: skip


def _findings(many: int, brokers: int, lines: list[list[Row]]) -> list[Row]:
    kinds = ("offline-partitions", "flapping-broker", "stale-metadata", "isr-storm")
    return [
        finding(
            f"F-{number:08x}", kinds[number % 4], "high" if number % 3 else "medium",
            evidence=lines[number % len(lines)][: 10 if len(lines) == 1 and number % 2 else 40],
            brokers=[number % brokers],
            clients=[f"app-{number % 40}"] if number % 4 == 2 else [],
            partitions=[f"topic-{number % 100}-{at}" for at in range(50)],
            **{"from": iso(number * 400_000), "to": iso(number * 400_000 + 90_000)},
        )
        for number in range(many)
    ]  # fmt: skip
