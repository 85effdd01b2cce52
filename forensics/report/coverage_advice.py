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

from forensics.lib.formatting import count, join_names, percent, time_text
from forensics.lib.time_zone import current_zone
from forensics.lib.yaml_with_lines import load_yaml, rules_folder
from forensics.run_output.reader import Row, RunOutput, short_time

# Below this share of understood lines, silence proves nothing.
MIN_PARSED_SHARE = 0.95
# States of the table of coverage that hide what may have happened; who is silent hides nothing.
HIDING_STATES = {"missing": "missing", "rotated": "rotated away", "hidden": "without INFO"}
# Which detectors would have told of a loss.
LOSS_DETECTOR = "unclean-election"


def loss_would_be_visible(run: RunOutput) -> bool:
    """Whether a loss would have been seen: else that none was seen is no comfort."""
    if any(row["damaged"] for row in run.files) or _unread(run) > 1 - MIN_PARSED_SHARE:
        return False
    asked = run.document.get("detectors") or ()
    deaf = any(
        one.get("detector") == LOSS_DETECTOR and one.get("status") in ("not_evaluable", "failed")
        for one in asked
    )
    return not deaf and not _holes(run)


def describe_missing_logs(run: RunOutput) -> str:
    """Say what is missing, where too much is."""
    hurt = sum(1 for row in run.files if row["damaged"])
    unread = _unread(run)
    parts = [f"{count(hurt, 'file')} damaged" if hurt else ""]
    parts += [f"logs of {join_names(nodes, 3)} {words}" for words, nodes in _holes(run).items()]
    if unread > 1 - MIN_PARSED_SHARE:
        whole = sum(row["lines"] for row in run.files)
        lines = sum(row["unparsed_lines"] for row in run.files)
        parts.append(f"{percent(lines, whole)} of the lines in no known layout")
    if not run.count_rows("leadership", ds.field("how") == "observed"):
        parts.append("no line says who led any partition")
    return ", ".join(part for part in parts if part)


def _unread(run: RunOutput) -> float:
    lines = sum(row["lines"] for row in run.files)
    unread = sum(row["unparsed_lines"] for row in run.files)
    return 1.0 if not lines else unread / lines


def _holes(run: RunOutput) -> dict[str, list[str]]:
    """Name the brokers and controllers whose logs are missing, by what is wrong with them."""
    if not run.has_table("coverage"):
        return {}
    here = ds.field("state").isin(list(HIDING_STATES)) & (ds.field("role") != "client")
    found: dict[str, set[str]] = {}
    for row in run.rows("coverage", ("node", "state"), here):
        found.setdefault(HIDING_STATES[row["state"]], set()).add(str(row["node"]))
    return {words: sorted(nodes) for words, nodes in sorted(found.items())}


COLUMNS = ("node", "role", "log", "state", "started_at", "ended_at", "why")
# States of the table of coverage that say that something is not there; `down` is no hole.
HOLE_WORDS = {
    "missing": "missing",
    "rotated": "rotated away",
    "silent": "silent",
    "hidden": "a level hides INFO",
}
MAX_NAMED = 6


@dataclass(frozen=True)
class CollectionAdvice:
    """What to collect, why, and how."""

    what: str
    command: str


def find_log_holes(run: RunOutput) -> list[Row]:
    """Give the holes in the logs, by node and time."""
    rows = run.rows("coverage", COLUMNS, ds.field("state").isin(list(HOLE_WORDS)))
    return sorted(
        rows, key=lambda row: (row["node"] or "", row["started_at"] or 0, row["log"] or "")
    )


def advise_collection(run: RunOutput) -> list[CollectionAdvice]:
    """Say what is worth collecting; empty where nothing is known to be missing."""
    return [*_of_holes(run), *_of_roles(run), *_of_files(run)]


def _of_holes(run: RunOutput) -> Iterator[CollectionAdvice]:
    mine: dict[str, list[Row]] = {}
    for row in find_log_holes(run):
        mine.setdefault(str(row["state"]), []).append(row)
    if "missing" in mine:
        names = _nodes(mine["missing"])
        yield CollectionAdvice(
            f"The logs of {join_names(names, MAX_NAMED)}: "
            "others name them, but nothing of theirs is here.",
            "\n".join(_pack(name, run) for name in names[:MAX_NAMED]),
        )
    if "rotated" in mine:
        names = _nodes(mine["rotated"])
        yield CollectionAdvice(
            f"The older logs of {join_names(names, MAX_NAMED)}, which were rotated away: copy them "
            "before they are deleted, and let log4j keep more (MaxBackupIndex, or max in log4j2).",
            "\n".join(_pack(name, run) for name in names[:MAX_NAMED]),
        )
    if "hidden" in mine:
        names = _nodes(mine["hidden"])
        yield CollectionAdvice(
            f"INFO lines of {join_names(names, MAX_NAMED)}: what changes leaders and ISRs is told "
            "at INFO. This lowers the level until the next restart:",
            "kafka-configs.sh --bootstrap-server BROKER:9092 --alter --entity-type broker-loggers "
            "--entity-name BROKER_ID --add-config kafka=INFO,state.change.logger=INFO",
        )
    if "silent" in mine:
        names = _nodes(mine["silent"])
        yield CollectionAdvice(
            f"What the host of {join_names(names, MAX_NAMED)} says of the silence: was the "
            "process, the disk or the host stopped?",
            f"journalctl --utc {_between(mine['silent'])}",
        )


def _of_roles(run: RunOutput) -> Iterator[CollectionAdvice]:
    roles = {row["role"] for row in run.files if row["records"]}
    logs = " ".join(str(row["file"]) for row in run.files).lower()
    if run.files and "client" not in roles:
        yield CollectionAdvice(
            "Logs of the applications: only they tell what clients saw, and for how long.",
            f"kubectl logs --timestamps --since-time={_iso(run)} POD > POD.log",
        )
    if "broker" in roles and "gc" not in logs:
        yield CollectionAdvice(
            "The garbage collector's logs of the brokers: they tell a pause from a dead process.",
            "ssh BROKER 'tar czf - \"$KAFKA_LOGS\"/kafkaServer-gc.log*' > BROKER-gc.tgz",
        )
    if "broker" in roles and "controller" not in roles and "controller.log" not in logs:
        yield CollectionAdvice(
            "The controllers' logs: they alone say why a leader was chosen.",
            'ssh CONTROLLER \'tar czf - "$KAFKA_LOGS"/controller.log* "$KAFKA_LOGS"/server.log*\' '
            "> CONTROLLER.tgz",
        )


def _of_files(run: RunOutput) -> Iterator[CollectionAdvice]:
    hurt = [row for row in run.files if row["damaged"]]
    if hurt:
        yield CollectionAdvice(
            f"{count(len(hurt), 'file')} once more, whole: what was read of them ends early.",
            "gzip -t FILE.gz || echo damaged   # check each before it is sent",
        )


def _nodes(rows: list[Row]) -> list[str]:
    return sorted({str(row["node"]) for row in rows if row["node"]})


def _pack(name: str, run: RunOutput) -> str:
    host = shlex.quote(name)
    since = f"--newer-mtime={shlex.quote(time_text(run.window[0]))} " if run.window else ""
    return f"ssh {host} 'tar czf - {since.replace(chr(39), chr(34))}\"$KAFKA_LOGS\"' > {host}.tgz"


def _between(rows: list[Row]) -> str:
    starts = [row["started_at"] for row in rows if row["started_at"] is not None]
    ends = [row["ended_at"] for row in rows if row["ended_at"] is not None]
    words = []
    by = current_zone().offset
    # journalctl is asked in UTC, whatever the zone of the page.
    if starts:
        words.append(f'--since "{time_text(min(starts) - by)}"')
    if ends:
        words.append(f'--until "{time_text(max(ends) - by)}"')
    return " ".join(words)


def _iso(run: RunOutput) -> str:
    by = current_zone().offset
    return time_text(run.window[0] - by).replace(" ", "T") + "Z" if run.window else "TIME"


def describe_hole(run: RunOutput, row: Row) -> str:
    """Say one hole in words."""
    log = f" ({row['log']}.log)" if row["log"] not in (None, "all") else ""
    when = f"{short_time(run, row['started_at'])} to {short_time(run, row['ended_at'])}"
    return f"{row['node']}{log}, {when}: {row['why'] or HOLE_WORDS.get(row['state'], row['state'])}"


def find_alert(detector: str) -> str:
    """Say which metric shows it and when to be told; empty: none that Kafka has.

    >>> alert("offline-partitions"), alert("truncation")
    ('OfflinePartitionsCount above 0', '')
    """
    one = load_alerts().get(detector)
    if not isinstance(one, Mapping):
        return ""
    # The name alone is what people search their dashboards for.
    return f"{one['metric'].rpartition('name=')[2]} {one['alert']}"


@cache
def load_alerts() -> Mapping[str, Any]:
    """Give what is known of each detector."""
    found: Mapping[str, Any] = load_yaml(rules_folder() / "alerts.yaml")["alerts"]
    return found
