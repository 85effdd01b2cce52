"""What to collect next time, so that what could not be seen now can be, with the command."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow.dataset as ds

from forensics.report.saved import Row, Saved
from forensics.report.times import short
from forensics.report.words import clock, count, listed
from forensics.report.zones import current

__all__ = ["HOLES", "Advice", "advised", "holes"]

COLUMNS = ("node", "role", "log", "state", "started_at", "ended_at", "why")
# States of the table of coverage that say that something is not there; `down` is no hole.
HOLES = {
    "missing": "missing",
    "rotated": "rotated away",
    "silent": "silent",
    "hidden": "a level hides INFO",
}
NAMED = 6


@dataclass(frozen=True)
class Advice:
    """What to collect, why, and how."""

    what: str
    command: str


def holes(saved: Saved) -> list[Row]:
    """Give the holes in the logs, by node and time."""
    rows = saved.rows("coverage", COLUMNS, ds.field("state").isin(list(HOLES)))
    return sorted(
        rows, key=lambda row: (row["node"] or "", row["started_at"] or 0, row["log"] or "")
    )


def advised(saved: Saved) -> list[Advice]:
    """Say what is worth collecting; empty where nothing is known to be missing."""
    return [*_of_holes(saved), *_of_roles(saved), *_of_files(saved)]


def _of_holes(saved: Saved) -> Iterator[Advice]:
    mine: dict[str, list[Row]] = {}
    for row in holes(saved):
        mine.setdefault(str(row["state"]), []).append(row)
    if "missing" in mine:
        names = _nodes(mine["missing"])
        yield Advice(
            f"The logs of {listed(names, NAMED)}: others name them, but nothing of theirs is here.",
            "\n".join(_pack(name, saved) for name in names[:NAMED]),
        )
    if "rotated" in mine:
        names = _nodes(mine["rotated"])
        yield Advice(
            f"The older logs of {listed(names, NAMED)}, which were rotated away: copy them before "
            "they are deleted, and let log4j keep more (MaxBackupIndex, or max in log4j2).",
            "\n".join(_pack(name, saved) for name in names[:NAMED]),
        )
    if "hidden" in mine:
        names = _nodes(mine["hidden"])
        yield Advice(
            f"INFO lines of {listed(names, NAMED)}: what changes leaders and ISRs is told at INFO. "
            "This lowers the level until the next restart:",
            "kafka-configs.sh --bootstrap-server BROKER:9092 --alter --entity-type broker-loggers "
            "--entity-name BROKER_ID --add-config kafka=INFO,state.change.logger=INFO",
        )
    if "silent" in mine:
        names = _nodes(mine["silent"])
        yield Advice(
            f"What the host of {listed(names, NAMED)} says of the silence: was the process, the "
            "disk or the host stopped?",
            f"journalctl --utc {_between(mine['silent'])}",
        )


def _of_roles(saved: Saved) -> Iterator[Advice]:
    roles = {row["role"] for row in saved.files if row["records"]}
    logs = " ".join(str(row["file"]) for row in saved.files).lower()
    if saved.files and "client" not in roles:
        yield Advice(
            "Logs of the applications: only they tell what clients saw, and for how long.",
            f"kubectl logs --timestamps --since-time={_iso(saved)} POD > POD.log",
        )
    if "broker" in roles and "gc" not in logs:
        yield Advice(
            "The garbage collector's logs of the brokers: they tell a pause from a dead process.",
            "ssh BROKER 'tar czf - \"$KAFKA_LOGS\"/kafkaServer-gc.log*' > BROKER-gc.tgz",
        )
    if "broker" in roles and "controller" not in roles and "controller.log" not in logs:
        yield Advice(
            "The controllers' logs: they alone say why a leader was chosen.",
            'ssh CONTROLLER \'tar czf - "$KAFKA_LOGS"/controller.log* "$KAFKA_LOGS"/server.log*\' '
            "> CONTROLLER.tgz",
        )


def _of_files(saved: Saved) -> Iterator[Advice]:
    hurt = [row for row in saved.files if row["damaged"]]
    if hurt:
        yield Advice(
            f"{count(len(hurt), 'file')} once more, whole: what was read of them ends early.",
            "gzip -t FILE.gz || echo damaged   # check each before it is sent",
        )


def _nodes(rows: list[Row]) -> list[str]:
    return sorted({str(row["node"]) for row in rows if row["node"]})


def _pack(name: str, saved: Saved) -> str:
    host = shlex.quote(name)
    since = f"--newer-mtime={shlex.quote(clock(saved.window[0]))} " if saved.window else ""
    return f"ssh {host} 'tar czf - {since.replace(chr(39), chr(34))}\"$KAFKA_LOGS\"' > {host}.tgz"


def _between(rows: list[Row]) -> str:
    starts = [row["started_at"] for row in rows if row["started_at"] is not None]
    ends = [row["ended_at"] for row in rows if row["ended_at"] is not None]
    words = []
    by = current().offset
    # journalctl is asked in UTC, whatever the zone of the page.
    if starts:
        words.append(f'--since "{clock(min(starts) - by)}"')
    if ends:
        words.append(f'--until "{clock(max(ends) - by)}"')
    return " ".join(words)


def _iso(saved: Saved) -> str:
    by = current().offset
    return clock(saved.window[0] - by).replace(" ", "T") + "Z" if saved.window else "TIME"


def said(saved: Saved, row: Row) -> str:
    """Say one hole in words."""
    log = f" ({row['log']}.log)" if row["log"] not in (None, "all") else ""
    when = f"{short(saved, row['started_at'])} to {short(saved, row['ended_at'])}"
    return f"{row['node']}{log}, {when}: {row['why'] or HOLES.get(row['state'], row['state'])}"
