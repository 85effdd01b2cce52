"""Log directories that failed or filled up: all replicas in them go offline."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, by_time
from forensics.detection.kafka_cli import quote
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.run_output.findings import Finding

NAME = "disk-failure"
_OWN = ("disk_error", "log_dir_failed", "checkpoint_failed", "replica_offline")
_SEEN = ("broker_dirs_offline", "log_dir_failure_seen")
# What a broker says of a directory that failed before, and not of the disk.
_STORAGE = "KAFKA_STORAGE_ERROR"
_NAMES = 2000
# The words of the operating system, and of Java for them, which tell what to look for.
_REASONS = (
    ("full", re.compile(r"(?i)no space left|disk quota|not enough space")),
    ("denied", re.compile(r"(?i)permission denied|accessdenied|access is denied|used by another")),
    ("read-only", re.compile(r"(?i)read-only file system")),
    ("locks", re.compile(r"(?i)no locks available|stale file handle|stale nfs")),
    ("missing", re.compile(r"(?i)no such file|nosuchfile|filenotfound")),
    ("input/output", re.compile(r"(?i)input/output error|i/o error")),
)


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each directory of a broker, and for each that only others tell of."""
    if not context.visibility.has_kinds(*_OWN, *_SEEN):
        return
    gap = context.limits[NAME]["gap"]
    where = pc.field("kind").isin(list(_OWN)) & pc.field("log_dir").is_valid()
    own = find_sessions(
        context, where, ["node", "log_dir"], gap, ["error", "detail", "kind", "broker"]
    )
    names = _partitions(context, own)
    told: set[int] = set()
    for one in own:
        finding = _failed(context, one, names[one.subject])
        told.update(finding.brokers)
        yield finding
    for one in find_sessions(
        context, pc.field("kind").isin(list(_SEEN)), ["broker"], gap, ["detail"]
    ):
        if one.subject[0] is not None and one.subject[0] not in told:
            yield _seen(context, one)


def _partitions(
    context: DetectionContext, own: Sequence[EventSession]
) -> Mapping[object, set[str]]:
    """Name partitions of each directory."""
    found: dict[object, set[str]] = {one.subject: set() for one in own}
    where = pc.field("kind").isin(list(_OWN)) & pc.field("log_dir").is_valid()
    where &= pc.field("partition").is_valid()
    for row in context.each("events", where, ["node", "log_dir", "topic", "partition"]):
        mine = found.get((row["node"], row["log_dir"]))
        if mine is not None and len(mine) < _NAMES:
            mine.add(f"{row['topic']}-{row['partition']}")
    return found


def _failed(context: DetectionContext, one: EventSession, names: set[str]) -> Finding:
    node, log_dir = one.subject
    broker = _broker(node, one)
    error = _error(one)
    reason = next((name for name, words in _REASONS if words.search(error or "")), "other")
    where = f"Broker {broker}" if broker is not None else str(node)
    return context.finding(
        NAME,
        context.limits[NAME]["severity"],
        f"{where}: log directory {log_dir} {_TITLES[reason]}",
        one.begin,
        one.end,
        one.first,
        brokers=[] if broker is None else [broker],
        partitions=sorted(names),
        measures={
            "broker": broker,
            "log_dir": log_dir,
            "error": error,
            "reason": reason,
            "lines": one.count,
            "partitions": len(names),
        },
        explanation=_MECHANISM + _MEANINGS[reason],
        actions=_actions(context, broker, log_dir, reason),
        why=f"{one.count} lines tell that {log_dir} cannot be used",
        doubts=[_FIRST],
    )


def _seen(context: DetectionContext, one: EventSession) -> Finding:
    broker = one.subject[0]
    return context.finding(
NAME,
context.limits[NAME]["severity"],
f"Broker {broker}: a log directory failed, as the controller was told",
one.begin,
one.end,
one.first,
brokers=[broker],
measures={"broker": broker, "log_dir": None, "error": None, "reason": "other",
                  "lines": one.count, "partitions": 0},
explanation=_MECHANISM + "The broker's own log, which names the error, is not here.",
actions=[context.commands.log_dirs(broker), f"Collect the server.log of broker {broker}."],
why=f"{one.count} lines of the controller tell of it",
doubts=[_FIRST],
)  # fmt: skip


def _broker(node: str | None, one: EventSession) -> int | None:
    named = one.values("broker")
    digits = (node or "").rpartition("broker-")[2]
    return named[0] if named else int(digits) if digits.isdecimal() else None


def _error(one: EventSession) -> str | None:
    """Give the first error that the disk answered, and not what came of it."""
    for row in sorted(one.first, key=by_time):
        if row["error"] and row["error"] != _STORAGE:
            return f"{row['error']}: {row['detail']}" if row["detail"] else str(row["error"])
    errors = Counter({name: count for name, count in one.value_counts["error"].items() if name})
    return max(errors, key=lambda name: (errors[name], name), default=None)


def _actions(context: DetectionContext, broker: int | None, log_dir: str, reason: str) -> list[str]:
    look = (
        []
        if broker is None
        else [f"{context.commands.log_dirs(broker)}   # which are offline now?"]
    )
    return [*look, _LOOKS[reason].format(quote(log_dir)), _DO_NOT]


_TITLES = {
    "full": "is full",
    "denied": "may not be written to",
    "read-only": "is read-only",
    "locks": "lost its locks",
    "missing": "lost a file",
    "input/output": "failed: the disk answers with errors",
    "other": "failed",
}
_MECHANISM = (
    "At the first error of a file a broker takes the whole log directory out of use until it is "
    "started again: all replicas in it go offline, also those whose files are sound. If no other "
    "directory is left, or it holds the metadata, the broker halts. "
)
_MEANINGS = {
    "full": "There was no space left, or a quota was used up. A start without more space fails the "
    "same way.",
    "denied": "A file could not be opened, moved or deleted. On Windows it is enough that a topic "
    "is deleted while its files are open.",
    "read-only": "The file system was mounted read-only, as systems do after errors of the disk.",
    "locks": "The file system is on a network that lost its state: Kafka needs local locks.",
    "missing": "Something deleted files below it, such as a cleaner of temporary files.",
    "input/output": "The disk or its controller failed.",
    "other": "The first error names what happened.",
}
_LOOKS = {
    "full": "df -h {0}; df -i {0}   # free or add space before the broker is started again",
    "denied": "ls -ld {0}   # who owns it, and who else has its files open?",
    "read-only": "dmesg | grep -i -e error -e remount   # then check the file system of {0}",
    "locks": "mount | grep -i nfs   # is {0} on a network file system?",
    "missing": "ls -l {0}   # what deleted files here?",
    "input/output": "dmesg | grep -i -e 'i/o error'   # which disk holds {0}? replace it",
    "other": "dmesg | tail -50   # errors of the disk that holds {0}",
}
_DO_NOT = (
    "Do not delete files below the directory by hand, and do not restart other brokers until its "
    "replicas are in sync again."
)
_FIRST = "Errors of one file may be about that file only; the disk need not be broken."
