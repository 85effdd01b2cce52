"""What to collect next time, so that what could not be seen now can be, with the command.

Whether the logs reach far enough for their silence to mean something.

Which metric would have shown what a detector finds: read from rules/alerts.yaml.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow.dataset as ds

from forensics.lib.formatting import clock, count, listed, share
from forensics.lib.time_zone import current
from forensics.lib.yaml_with_lines import read, root
from forensics.run_output.reader import Row, Saved, short

# Below this share of understood lines, silence proves nothing.
ENOUGH = 0.95
# States of the table of coverage that hide what may have happened; who is silent hides nothing.
LACKING = {"missing": "missing", "rotated": "rotated away", "hidden": "without INFO"}
# Which detectors would have told of a loss.
LOSS = "unclean-election"


def tells_of_loss(saved: Saved) -> bool:
    """Whether a loss would have been seen: else that none was seen is no comfort."""
    if any(row["damaged"] for row in saved.files) or _unread(saved) > 1 - ENOUGH:
        return False
    asked = saved.document.get("detectors") or ()
    deaf = any(
        one.get("detector") == LOSS and one.get("status") in ("not_evaluable", "failed")
        for one in asked
    )
    return not deaf and not _holes(saved)


def lacks(saved: Saved) -> str:
    """Say what is missing, where too much is."""
    hurt = sum(1 for row in saved.files if row["damaged"])
    unread = _unread(saved)
    parts = [f"{count(hurt, 'file')} damaged" if hurt else ""]
    parts += [f"logs of {listed(nodes, 3)} {words}" for words, nodes in _holes(saved).items()]
    if unread > 1 - ENOUGH:
        whole = sum(row["lines"] for row in saved.files)
        lines = sum(row["unparsed_lines"] for row in saved.files)
        parts.append(f"{share(lines, whole)} of the lines in no known layout")
    if not saved.count("leadership", ds.field("how") == "observed"):
        parts.append("no line says who led any partition")
    return ", ".join(part for part in parts if part)


def _unread(saved: Saved) -> float:
    lines = sum(row["lines"] for row in saved.files)
    unread = sum(row["unparsed_lines"] for row in saved.files)
    return 1.0 if not lines else unread / lines


def _holes(saved: Saved) -> dict[str, list[str]]:
    """Name the brokers and controllers whose logs are missing, by what is wrong with them."""
    if not saved.has("coverage"):
        return {}
    here = ds.field("state").isin(list(LACKING)) & (ds.field("role") != "client")
    found: dict[str, set[str]] = {}
    for row in saved.rows("coverage", ("node", "state"), here):
        found.setdefault(LACKING[row["state"]], set()).add(str(row["node"]))
    return {words: sorted(nodes) for words, nodes in sorted(found.items())}


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


def alert(detector: str) -> str:
    """Say which metric shows it and when to be told; empty: none that Kafka has.

    >>> alert("offline-partitions"), alert("truncation")
    ('OfflinePartitionsCount above 0', '')
    """
    one = known().get(detector)
    if not isinstance(one, Mapping):
        return ""
    # The name alone is what people search their dashboards for.
    return f"{one['metric'].rpartition('name=')[2]} {one['alert']}"


@cache
def known() -> Mapping[str, Any]:
    """Give what is known of each detector."""
    found: Mapping[str, Any] = read(root() / "alerts.yaml")["alerts"]
    return found
