"""Log directories that failed or filled up: all replicas in them go offline."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, by_time, partition_name
from forensics.detection.kafka_cli import quote
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.lib.node_ids import broker_id
from forensics.lib.text_format import count
from forensics.run_output.findings import Finding

NAME = "disk-failure"
_OWN = ("disk_error", "log_dir_failed", "checkpoint_failed", "replica_offline")
_SEEN = ("broker_dirs_offline", "log_dir_failure_seen")
# The error for a directory that failed before: not an answer of the disk.
_STORAGE = "KAFKA_STORAGE_ERROR"
_MAX_NAMES = 2000
# Messages of the operating system, and Java's for them, by what went wrong.
_REASONS = (
    # Java words it as a file that was not found.
    ("open files", re.compile(r"(?i)too many open files")),
    ("maps", re.compile(r"(?i)map failed|cannot allocate memory")),
    ("full", re.compile(r"(?i)no space left|disk quota|not enough space")),
    ("denied", re.compile(r"(?i)permission denied|accessdenied|access is denied|used by another")),
    ("read-only", re.compile(r"(?i)read-only file system")),
    ("locks", re.compile(r"(?i)no locks available|stale file handle|stale nfs")),
    ("replaced", re.compile(r"(?i)not a directory")),
    ("missing", re.compile(r"(?i)no such file|nosuchfile|filenotfound")),
    ("input/output", re.compile(r"(?i)input/output error|i/o error")),
)


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each directory of a broker, and for each that only others log."""
    if not context.visibility.has_kinds(*_OWN, *_SEEN):
        return
    gap, kind = context.limits[NAME]["gap"], pc.field("kind")
    where = kind.isin(list(_OWN)) & pc.field("log_dir").is_valid()
    by, columns = ["node", "log_dir"], ["error", "detail", "kind", "broker"]
    own = find_sessions(context, where, by, gap, columns)
    names = _partition_names(context, where, own)
    reported: set[int] = set()
    for session in own:
        finding = _own_finding(context, session, names[session.subject])
        reported.update(finding.brokers)
        yield finding
    for session in find_sessions(context, kind.isin(list(_SEEN)), ["broker"], gap, ["detail"]):
        if session.subject[0] is not None and session.subject[0] not in reported:
            yield _controller_finding(context, session)


def _partition_names(
    context: DetectionContext, where: pc.Expression, own: Sequence[EventSession]
) -> Mapping[object, set[str]]:
    """Name partitions of each directory."""
    names: dict[object, set[str]] = {session.subject: set() for session in own}
    where &= pc.field("partition").is_valid()
    for row in context.each("events", where, ["node", "log_dir", "topic", "partition"]):
        known = names.get((row["node"], row["log_dir"]))
        if known is not None and len(known) < _MAX_NAMES:
            known.add(partition_name(row))
    return names


def _own_finding(context: DetectionContext, session: EventSession, names: set[str]) -> Finding:
    node, log_dir = session.subject
    named = session.values("broker")
    broker = named[0] if named else broker_id(node)
    error = _error(session)
    reason = next((name for name, words in _REASONS if words.search(error or "")), "other")
    where = f"Broker {broker}" if broker is not None else str(node)
    # A directory that was taken out of use is used again by the next start, and not before.
    is_out = session.value_counts["kind"]["log_dir_failed"] > 0
    end = session.end
    if is_out and broker is not None:
        start = context.next_start(broker, session.end)
        end = context.logs_end if start is None else start
    still = is_out and end == context.logs_end
    offline = f"; {count(len(names), 'replica')} in it offline to the end of the logs"
    return context.finding(
        NAME,
        context.limits[NAME]["severity"],
        f"{where}: log directory {log_dir} {_TITLES[reason]}{offline if still and names else ''}",
        session.begin,
        end,
        session.first,
        brokers=[] if broker is None else [broker],
        partitions=sorted(names),
        measures={
            "broker": broker,
            "log_dir": log_dir,
            "error": error,
            "reason": reason,
            "lines": session.count,
            "partitions": len(names),
            "still": still,
        },
        explanation=_BEGINS.get(reason, "") + _MECHANISM + _MEANINGS[reason],
        actions=_actions(context, broker, log_dir, reason),
        why=f"{session.count} lines say that {log_dir} cannot be used",
        doubts=[_FIRST],
    )


def _controller_finding(context: DetectionContext, session: EventSession) -> Finding:
    broker = session.subject[0]
    return context.finding(
        NAME,
        context.limits[NAME]["severity"],
        f"Broker {broker}: a log directory failed, as the controller was told",
        session.begin,
        session.end,
        session.first,
        brokers=[broker],
        measures={
            "broker": broker,
            "log_dir": None,
            "error": None,
            "reason": "other",
            "lines": session.count,
            "partitions": 0,
        },
        explanation=_MECHANISM + "The broker's own log, which names the error, is not here.",
        actions=[context.commands.log_dirs(broker), f"Collect the server.log of broker {broker}."],
        why=f"{session.count} lines of the controller say so",
        doubts=[_FIRST],
    )


def _error(session: EventSession) -> str | None:
    """Return the first error that the disk answered, and not what came of it."""
    for row in sorted(session.first, key=by_time):
        if row["error"] and row["error"] != _STORAGE:
            return f"{row['error']}: {row['detail']}" if row["detail"] else str(row["error"])
    errors = Counter({name: count for name, count in session.value_counts["error"].items() if name})
    return max(errors, key=lambda name: (errors[name], name), default=None)


def _actions(context: DetectionContext, broker: int | None, log_dir: str, reason: str) -> list[str]:
    look = (
        []
        if broker is None
        else [f"{context.commands.log_dirs(broker)}   # which are offline, once it runs?"]
    )
    free = _free_space(context) if reason == "full" else []
    return [*look, _LOOKS[reason].format(quote(log_dir)), *free, _DO_NOT]


def _free_space(context: DetectionContext) -> list[str]:
    """Return how to free space without touching files."""
    command = context.commands.set_topic_config("TOPIC", "retention.bytes", "BYTES")
    return [_ADD_SPACE, f"{command}   # of the largest topic, for each partition", _ALERT]


_TITLES = {
    "open files": "was given up: the process had too many open files",
    "maps": "was given up: the process may map no more files into memory",
    "full": "is full",
    "denied": "may not be written to",
    "read-only": "is read-only",
    "locks": "lost its locks",
    "replaced": "is no directory any more",
    "missing": "lost a file",
    "input/output": "failed: the disk answers with errors",
    "other": "failed",
}
_MECHANISM = (
    "At the first error of a file a broker takes the whole log directory out of use until it is "
    "started again: all replicas in it go offline, also those whose files are sound. If no other "
    "directory is left, or it holds the metadata, the broker halts. "
)
_BEGINS = {"full": "There was no space left in it, or a quota was used up. "}
_MEANINGS = {
    "open files": "The disk is sound: the process had as many files and connections open as it "
    "may.",
    "maps": "The disk is sound: each index of a segment is mapped into memory, and the system "
    "allows a process only so many maps, or had no memory left.",
    "full": "A start without more space fails the same way.",
    "denied": "A file could not be opened, moved or deleted. On Windows it is enough that a topic "
    "is deleted while its files are open.",
    "read-only": "The file system was mounted read-only, as systems do after errors of the disk.",
    "locks": "The file system is on a network that lost its state: Kafka needs local locks.",
    "replaced": "Something else stands in its place, as where its file system is not mounted.",
    "missing": "Something deleted files below it, such as a cleaner of temporary files.",
    "input/output": "The disk or its controller failed.",
    "other": "The first error names what happened.",
}
_LOOKS = {
    "open files": "ls /proc/PID/fd | wc -l; grep 'open files' /proc/PID/limits   # then raise "
    "LimitNOFILE= or ulimit -n and restart the broker: {0} comes back with it",
    "maps": "wc -l /proc/PID/maps; sysctl vm.max_map_count; free -m   # then raise it and restart "
    "the broker: {0} comes back with it",
    "full": "df -h {0}; df -i {0}   # free or add space before the broker is started again",
    "denied": "ls -ld {0}   # who owns it, and who else has its files open?",
    "read-only": "dmesg | grep -i -e error -e remount   # then check the file system of {0}",
    "locks": "mount | grep -i nfs   # is {0} on a network file system?",
    "replaced": "ls -ld {0}; findmnt --target {0}   # is its file system mounted?",
    "missing": "ls -l {0}   # what deleted files here?",
    "input/output": "dmesg | grep -i -e 'i/o error'   # which disk holds {0}? replace it",
    "other": "dmesg | tail -50   # errors of the disk that holds {0}",
}
_ADD_SPACE = (
    "A broker that halted needs some space first: make the volume larger, or take away what is not "
    "Kafka's. Then start it, and let Kafka delete: find the largest partitions (du or "
    "kafka-log-dirs.sh), and shorten the retention of a topic whose owner agrees; whole segments "
    "go within log.retention.check.interval.ms (5 min)."
)
_ALERT = (
    "Alert when a disk of a broker is 80 % full, and bound topics by retention.bytes: retention by "
    "time alone lets a busy day fill the disk."
)
_DO_NOT = (
    "Do not delete files below the directory by hand, and do not restart other brokers until its "
    "replicas are in sync again."
)
_FIRST = "Errors of one file may be about that file only; the disk need not be broken."
