"""What the logs do not show: whether they reach far enough, what to collect, what to alert on."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow.dataset as ds

from forensics.detection.kafka_cli import read_cli
from forensics.detection.requirements import TOO_OLD
from forensics.detection.verdict import MIN_PARSED_SHARE_FOR_LOSS, is_damaged, is_silence_conclusive
from forensics.history.log_coverage import ENDS_EARLY
from forensics.lib.text_format import count, join_names, percent, time_text
from forensics.lib.time_zone import current_zone
from forensics.lib.yaml_with_lines import load_yaml, rules_folder
from forensics.run_output.reader import Row, RunOutput, short_time

# States of the table of coverage that hide what may have happened; silence hides nothing.
HIDING_STATES = {"missing": "missing", "rotated": "rotated away", "hidden": "without INFO"}
# Said of a node some of whose logs are here, but not to the end.
ENDING_EARLY = "ending early"
# States that say that something is not there; `down` is no hole.
HOLE_WORDS = {
    "missing": "missing",
    "rotated": "rotated away",
    "silent": "silent",
    "hidden": "a level hides INFO",
}
HOLE_COLUMNS = ("node", "role", "log", "state", "started_at", "ended_at", "why")
MAX_NAMED = 6


@dataclass(frozen=True)
class CollectionAdvice:
    """What to collect, and why, and how."""

    what: str
    command: str


def unanswered_detectors(run: RunOutput) -> list[dict[str, Any]]:
    """Return the detectors that could not look, or failed: their silence says nothing."""
    rows = run.document.get("detectors") or ()
    return [dict(row) for row in rows if row.get("status") in ("not_evaluable", "failed")]


def answerable_detectors(run: RunOutput) -> list[dict[str, Any]]:
    """Return those of them that other logs would have answered: for these somebody can act."""
    return [
        row
        for row in unanswered_detectors(run)
        if not any(str(reason).startswith(TOO_OLD) for reason in row.get("reasons") or ())
    ]


def count_lines(run: RunOutput) -> tuple[int, int]:
    """Count the lines of all files, and those in no known layout."""
    return sum(row["lines"] for row in run.files), sum(row["unparsed_lines"] for row in run.files)


def loss_would_be_visible(run: RunOutput) -> bool:
    """Return True if a loss would have been seen: else that none was seen is no comfort."""
    unanswered = {row.get("detector") for row in unanswered_detectors(run)}
    return "unclean-election" not in unanswered and is_silence_conclusive(
        run.files,
        knows_leaders=True,
        lacks_logs=bool(list_hidden_nodes(run)),
        min_parsed_share=MIN_PARSED_SHARE_FOR_LOSS,
    )


def describe_missing_logs(run: RunOutput) -> str:
    """Say what is missing, where too much is."""
    damaged = sum(is_damaged(row["damaged"]) for row in run.files)
    lines, unparsed = count_lines(run)
    parts = [f"{count(damaged, 'file')} damaged"] if damaged else []
    hidden = list_hidden_nodes(run)
    parts += [f"logs of {join_names(nodes, 3)} {words}" for words, nodes in hidden.items()]
    if not lines or unparsed > lines * (1 - MIN_PARSED_SHARE_FOR_LOSS):
        parts.append(f"{percent(unparsed, lines)} of the lines in no known layout")
    if not run.count_rows("leadership", ds.field("how") == "observed"):
        parts.append("no line says who led any partition")
    return ", ".join(parts)


def list_hidden_nodes(run: RunOutput) -> dict[str, list[str]]:
    """Name the brokers and controllers whose logs are missing, by what is wrong with them."""
    if not run.tables.has("coverage"):
        return {}
    is_hiding = ds.field("state").isin(list(HIDING_STATES)) & (ds.field("role") != "client")
    nodes: dict[str, set[str]] = {}
    for row in run.rows("coverage", ("node", "state", "why"), is_hiding):
        words = ENDING_EARLY if row["why"] == ENDS_EARLY else HIDING_STATES[row["state"]]
        nodes.setdefault(words, set()).add(str(row["node"]))
    return {words: sorted(names) for words, names in sorted(nodes.items())}


def find_log_holes(run: RunOutput) -> list[Row]:
    """Return the holes in the logs, by node and time."""
    rows = run.rows("coverage", HOLE_COLUMNS, ds.field("state").isin(list(HOLE_WORDS)))
    return sorted(
        rows, key=lambda row: (row["node"] or "", row["started_at"] or 0, row["log"] or "")
    )


def describe_hole(run: RunOutput, row: Row) -> str:
    """Say which hole this is: whose, of which log, from when to when, and why."""
    log = f" ({row['log']}.log)" if row["log"] not in (None, "all") else ""
    when = f"{short_time(run, row['started_at'])} to {short_time(run, row['ended_at'])}"
    return f"{row['node']}{log}, {when}: {row['why'] or HOLE_WORDS.get(row['state'], row['state'])}"


def advise_collection(run: RunOutput) -> list[CollectionAdvice]:
    """Say what is worth collecting; empty where nothing is known to be missing."""
    return [*_for_holes(run), *_for_roles(run), *_for_damaged_files(run)]


def _for_holes(run: RunOutput) -> Iterator[CollectionAdvice]:
    holes: dict[str, list[Row]] = {}
    for row in find_log_holes(run):
        holes.setdefault(str(row["state"]), []).append(row)
    nodes = {state: sorted({str(row["node"]) for row in rows if row["node"]})
             for state, rows in holes.items()}  # fmt: skip
    named = {state: join_names(names, MAX_NAMED) for state, names in nodes.items()}
    cli = read_cli(run.tables, kraft=False)
    if "missing" in holes:
        yield CollectionAdvice(
            f"The logs of {named['missing']}: others name them, but nothing of theirs is here.",
            _pack_commands(nodes["missing"], run),
        )
    if "rotated" in holes:
        yield CollectionAdvice(
            f"The older logs of {named['rotated']}, which were rotated away: copy them before "
            "they are deleted, and let log4j keep more (MaxBackupIndex, or max in log4j2).",
            _pack_commands(nodes["rotated"], run),
        )
    if "hidden" in holes:
        yield CollectionAdvice(
            f"INFO lines of {named['hidden']}: what changes leaders and ISRs is told at INFO.",
            cli.adapt([cli.raise_log_level("BROKER_ID")])[0],
        )
    if "silent" in holes:
        yield CollectionAdvice(
            f"What the host of {named['silent']} says of the silence: was the process, the "
            "disk or the host stopped?",
            cli.adapt([f"journalctl --utc {_journal_window(holes['silent'])}"])[0],
        )


def _for_roles(run: RunOutput) -> Iterator[CollectionAdvice]:
    roles = {row["role"] for row in run.files if row["records"]}
    logs = " ".join(str(row["file"]) for row in run.files).lower()
    if run.files and "client" not in roles:
        since = _utc(run.window[0]).replace(" ", "T") + "Z" if run.window else "TIME"
        yield CollectionAdvice(
            "Logs of the applications: only they tell what clients saw, and for how long.",
            f"kubectl logs --timestamps --since-time={since} POD > POD.log",
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


def _for_damaged_files(run: RunOutput) -> Iterator[CollectionAdvice]:
    if damaged := sum(1 for row in run.files if row["damaged"]):
        yield CollectionAdvice(
            f"{count(damaged, 'file')} once more, whole: what was read of them ends early.",
            "gzip -t FILE.gz || echo damaged   # check each before it is sent",
        )


def _pack_commands(nodes: Sequence[str], run: RunOutput) -> str:
    since = f'--newer-mtime="{time_text(run.window[0])}" ' if run.window else ""
    hosts = map(shlex.quote, nodes[:MAX_NAMED])
    return "\n".join(
        f"ssh {host} 'tar czf - {since}\"$KAFKA_LOGS\"' > {host}.tgz" for host in hosts
    )


def _journal_window(rows: Sequence[Row]) -> str:
    starts = [row["started_at"] for row in rows if row["started_at"] is not None]
    ends = [row["ended_at"] for row in rows if row["ended_at"] is not None]
    options = [f'--since "{_utc(min(starts))}"'] if starts else []
    options += [f'--until "{_utc(max(ends))}"'] if ends else []
    return " ".join(options)


def _utc(moment: int) -> str:
    """Format a time for a command: in UTC, whatever the zone of the page."""
    return time_text(moment - current_zone().offset)


def find_alert(detector: str) -> str:
    """Say which metric shows what a detector finds, and when to be told; empty if Kafka has none.

    >>> find_alert("offline-partitions"), find_alert("truncation")
    ('OfflinePartitionsCount above 0', '')
    """
    alert = load_alerts().get(detector)
    if not isinstance(alert, Mapping):
        return ""
    # The name alone is what people search their dashboards for.
    return f"{alert['metric'].rpartition('name=')[2]} {alert['alert']}"


@cache
def load_alerts() -> Mapping[str, Any]:
    """Read rules/alerts.yaml: the metric and the alert for each detector."""
    alerts: Mapping[str, Any] = load_yaml(rules_folder() / "alerts.yaml")["alerts"]
    return alerts
