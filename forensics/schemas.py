"""The Arrow schemas of all tables, with what each column means.

The meanings go into every Parquet file as metadata of its columns, which other tools show. Arrow
takes schemas that differ in metadata alone for equal.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from forensics.lib.time_units import TIMESTAMP as TIME

_MEANING = b"description"
IDS = pa.list_(pa.int32())
EVIDENCE = pa.list_(pa.struct([("file", pa.string()), ("line", pa.int64())]))


def _table(row: str, *columns: tuple[str, pa.DataType, str] | pa.Field) -> pa.Schema:
    """Make a schema of columns by name, type and meaning; a row is `row`."""
    fields = [
        pa.field(one[0], one[1], metadata={_MEANING: one[2]}) if isinstance(one, tuple) else one
        for one in columns
    ]
    return pa.schema(fields, {_MEANING: row})


def describe(part: pa.Schema | pa.Field) -> str:
    """Return what a row of a table is, or what a column means.

    >>> describe(FACTS.field("peer"))
    'the other node, where the line names two'
    """
    return str((part.metadata or {}).get(_MEANING, b"").decode())


def without_meanings(schema: pa.Schema) -> pa.Schema:
    """Return a schema of the same columns, and nothing beside them."""
    return pa.schema([field.remove_metadata() for field in schema])


FACTS = _table(
    "what a rule can read from one line: the names that it may capture",
    ("topic", pa.string(), "the topic"),
    ("partition", pa.int32(), "the number of the partition in its topic"),
    (
        "topic_id",
        pa.string(),
        "the id of the topic, another one after it was deleted and created again",
    ),
    ("leader", pa.int32(), "the broker that leads the partition; -1 where there is none"),
    ("leader_epoch", pa.int32(), "the counter that every change of the partition's leader raises"),
    (
        "partition_epoch",
        pa.int32(),
        (
            "the counter that every change of the partition raises; with ZooKeeper the version of "
            "its znode"
        ),
    ),
    ("isr", IDS, "the brokers that are in sync, after what the line tells"),
    ("replicas", IDS, "the brokers that the partition is assigned to"),
    (
        "broker",
        pa.int32(),
        (
            "the broker that the line is about, most often its writer; for the line of a client "
            "the broker it talked to"
        ),
    ),
    ("client", pa.string(), "the client id"),
    (
        "error",
        pa.string(),
        "the error by Kafka's name of today; what has none stays as it was written",
    ),
    ("previous_leader", pa.int32(), "the leader before; -1 where there was none"),
    ("previous_epoch", pa.int32(), "the leader epoch before; -1 where the writer knew of none"),
    ("previous_isr", IDS, "the brokers that were in sync before"),
    (
        "elr",
        IDS,
        "the eligible leader replicas: not in sync, and known to hold everything committed",
    ),
    (
        "recovery",
        pa.string(),
        (
            "whether the leader was chosen cleanly (RECOVERED), or still has to make up for an "
            "unclean election (RECOVERING)"
        ),
    ),
    ("log_end", pa.int64(), "the offset that the next record of this replica's log gets"),
    ("high_watermark", pa.int64(), "the offset up to which everything is committed"),
    ("cut_to", pa.int64(), "the offset to which a log is cut: what stood from there on is gone"),
    ("controller", pa.int32(), "the controller that the line is about, most often its writer"),
    (
        "controller_epoch",
        pa.int32(),
        "the counter that every change of the active controller raises",
    ),
    (
        "broker_epoch",
        pa.int64(),
        "the number that a broker gets when it registers, a new one at every start",
    ),
    ("from_state", pa.string(), "the state before"),
    ("to_state", pa.string(), "the state after"),
    ("added", IDS, "the nodes that came"),
    ("removed", IDS, "the nodes that went"),
    ("bounced", IDS, "the brokers that went and came back unseen"),
    ("alive", IDS, "the brokers that live"),
    (
        "epoch_ms",
        pa.int64(),
        "a time that the line itself tells, in milliseconds since 1970 in UTC",
    ),
    ("count", pa.int64(), "how many of what the line is about"),
    ("detail", pa.string(), "a short text, such as a reason or an address"),
    ("peer", pa.int32(), "the other node, where the line names two"),
    ("group", pa.string(), "the consumer group, or another group of members"),
    ("generation", pa.int32(), "the counter that every rebalance of the group raises"),
    ("member", pa.string(), "the id of the group's member"),
    ("setting", pa.string(), "the name of a setting"),
    ("value", pa.string(), "the value of the setting"),
    ("log_dir", pa.string(), "the folder that holds a broker's logs"),
    ("position", pa.int64(), "an offset that is neither a log's end nor a high watermark"),
    (
        "producer_id",
        pa.int64(),
        "the id that a broker gave to an idempotent or transactional producer",
    ),
    ("duration_ms", pa.int64(), "how long it took, in milliseconds"),
    ("subject", pa.string(), "what else it is about: `pod NAME`, `container NAME` or `host NAME`"),
)

EVENTS = _table(
    "each fact that a log line states, with file, line and byte offset",
    ("kind", pa.string(), "what happened; docs/rules/kinds.md lists the kinds"),
    ("ts", TIME, "the time of the line as it was logged, in UTC; no clock is corrected here"),
    ("node", pa.string(), "the node whose log holds the line; null where nothing tells"),
    ("file", pa.string(), "the file, with the archives it was found in"),
    (
        "line",
        pa.int64(),
        "the number of the line in its file; of several lines the first, of a setting its own",
    ),
    ("offset", pa.int64(), "where the record begins, in bytes from the start of the unpacked file"),
    *FACTS,
    (
        "retriable",
        pa.bool_(),
        "whether Kafka itself tries again after the error; null where it does not say",
    ),
    (
        "telling",
        pa.string(),
        (
            "null where the line is news; otherwise it may re-tell an older fact under its own "
            "time: fresh, replay or always"
        ),
    ),
    (
        "rule",
        pa.string(),
        "the rule that took the line, and the first version of the wording: id@version",
    ),
    ("level", pa.string(), "the level of the line, such as WARN"),
    ("logger", pa.string(), "the last part of the logger's name"),
    (
        "text",
        pa.string(),
        "the first line of the record as it was logged, cut where it is very long",
    ),
)

LEADERSHIP = _table(
    "each leader epoch of each partition",
    ("topic", pa.string(), "the topic"),
    ("partition", pa.int32(), "the number of the partition in its topic"),
    (
        "incarnation",
        pa.int32(),
        "of topics of one name that were deleted and created again, which one; the first is 0",
    ),
    ("topic_id", pa.string(), "the id of the topic, where a log names it"),
    ("leader_epoch", pa.int32(), "the counter that Kafka raises with every change of the leader"),
    ("leader", pa.int32(), "the broker that leads; -1: there is none; null: not known"),
    ("started_at", TIME, "since when, on the reference clock"),
    (
        "started_before",
        TIME,
        (
            "where `started_at` is not known: by when it had begun, as the first line that names "
            "it or a later one shows; else null"
        ),
    ),
    ("ended_at", TIME, "until when; null: still so at the end of the logs"),
    (
        "ended",
        pa.string(),
        "observed, open, or unknown: then `ended_at` is the last moment at which it was certain",
    ),
    ("how", pa.string(), "observed: a line states it; inferred: it follows from others"),
    (
        "election",
        pa.string(),
        "initial, failover, controlled_shutdown, preferred, reassignment, unclean or unknown",
    ),
    (
        "manner",
        pa.string(),
        "automatic or manual (unclean), elr, or epoch_bump (no election); null: nothing to add",
    ),
    ("clean", pa.bool_(), "whether the new leader was in sync; null: nobody can tell"),
    ("previous_leader", pa.int32(), "who led before; -1: nobody; null: not known"),
    ("isr", IDS, "the brokers that are in sync as the epoch begins; null: not known"),
    ("previous_isr", IDS, "the brokers that were in sync before it; null: not known"),
    ("replicas", IDS, "the brokers that the partition is assigned to; null: not known"),
    (
        "log_end",
        pa.int64(),
        "where the new leader's log ended as the epoch began; null: not logged",
    ),
    (
        "high_watermark",
        pa.int64(),
        "the offset up to which everything was committed then; null: not logged",
    ),
    ("evidence", EVIDENCE, "the lines that state it"),
)

ISR = _table(
    "each version of each partition's in-sync replicas",
    ("topic", pa.string(), "the topic"),
    ("partition", pa.int32(), "the number of the partition in its topic"),
    (
        "incarnation",
        pa.int32(),
        "of topics of one name that were deleted and created again, which one; the first is 0",
    ),
    ("topic_id", pa.string(), "the id of the topic, where a log names it"),
    (
        "partition_epoch",
        pa.int32(),
        (
            "the counter that Kafka raises with every change of the partition (KRaft), or the "
            "version of its znode; null: not logged"
        ),
    ),
    ("leader_epoch", pa.int32(), "the leader epoch that it belongs to"),
    ("leader", pa.int32(), "the broker that leads; -1: there is none; null: not known"),
    ("isr", IDS, "the brokers that are in sync; null: not known"),
    ("replicas", IDS, "the brokers that the partition is assigned to; null: not known"),
    ("started_at", TIME, "since when, on the reference clock"),
    ("ended_at", TIME, "until when; null: still so at the end of the logs"),
    (
        "ended",
        pa.string(),
        "observed, open, or unknown: then `ended_at` is the last moment at which it was certain",
    ),
    ("how", pa.string(), "observed: a line states it; inferred: it follows from others"),
    ("evidence", EVIDENCE, "the lines that state it"),
)

OUTAGES = _table(
    "each stretch of time in which nobody could serve a partition",
    ("topic", pa.string(), "the topic"),
    ("partition", pa.int32(), "the number of the partition in its topic"),
    ("started_at", TIME, "since when, on the reference clock"),
    ("ended_at", TIME, "until when; null: still so at the end of the logs"),
    (
        "started_before",
        TIME,
        "the other end of the bracket in which it began; null: the logs leave none",
    ),
    (
        "ended_after",
        TIME,
        "the other end of the bracket in which it ended; null: the logs leave none",
    ),
    (
        "why",
        pa.string(),
        "no_leader, leader_dead, leader_hung, leader_isolated or leader_stopped, as it began",
    ),
    ("leader", pa.int32(), "who led on paper; null: nobody"),
    ("previous_leader", pa.int32(), "who led last; null: not known"),
    ("planned", pa.bool_(), "whether somebody stopped the brokers in order"),
    ("evidence", EVIDENCE, "the lines that state it"),
)

CUTS = _table(
    "each truncation of a replica's log for a new leader: the records that only it held are lost",
    ("topic", pa.string(), "the topic"),
    ("partition", pa.int32(), "the number of the partition in its topic"),
    ("leader_epoch", pa.int32(), "the leader epoch that the replica follows now"),
    ("leader", pa.int32(), "the leader that it follows now"),
    ("kept", pa.int64(), "where that leader's log ended at first: what stood there stays"),
    ("broker", pa.int32(), "the broker that cut its log"),
    ("started_at", TIME, "when, on the reference clock"),
    ("cut_to", pa.int64(), "the offset to which the log was cut"),
    ("log_end", pa.int64(), "where the log ended before"),
    (
        "high_watermark",
        pa.int64(),
        "the offset up to which everything was committed, by this replica",
    ),
    ("unclean", pa.bool_(), "whether an unclean leader made it necessary; null: not known"),
    ("written_from", TIME, "the earliest moment at which the lost records were written"),
    ("written_to", TIME, "the latest one"),
    ("evidence", EVIDENCE, "the lines that state it"),
)

BREACHES = _table(
    "lines that contradict what Kafka promises of every partition",
    ("topic", pa.string(), "the topic"),
    ("partition", pa.int32(), "the number of the partition in its topic"),
    ("invariant", pa.string(), "the promise that is broken"),
    ("detail", pa.string(), "how, in words"),
    ("leader_epoch", pa.int32(), "the leader epoch that the line names"),
    ("partition_epoch", pa.int32(), "the partition epoch that the line names"),
    ("started_at", TIME, "when, on the reference clock"),
    ("count", pa.int64(), "how often this partition breaks it; only a few are kept"),
    ("alone", pa.bool_(), "whether only a node that hung or was away logged it"),
    ("evidence", EVIDENCE, "the lines that contradict each other"),
)

FILES = _table(
    "each input file: what it is, who wrote it, and where each of its lines went",
    ("file", pa.string(), "the file, with the archives it was found in"),
    ("node", pa.string(), "who wrote it; null: not known"),
    ("role", pa.string(), "broker, controller or client; null: not known"),
    ("layout", pa.string(), "the layout of its lines"),
    ("kafka_version", pa.string(), "the version of Kafka that it names"),
    ("first_ts", TIME, "its first time, as logged, in UTC"),
    ("last_ts", TIME, "its last time, as logged, in UTC"),
    ("bytes", pa.int64(), "its size, unpacked"),
    ("lines", pa.int64(), "all lines: the sum of the five counts below"),
    ("records", pa.int64(), "lines that begin a record in a known layout"),
    ("continuation_lines", pa.int64(), "later lines of records"),
    ("blank_lines", pa.int64(), "lines without a word"),
    ("unparsed_lines", pa.int64(), "lines in no known layout"),
    ("duplicate_lines", pa.int64(), "lines that another file has, too"),
    ("events", pa.int64(), "facts that were read from it"),
    ("damaged", pa.string(), "what is wrong with it; null: nothing"),
    ("sha256", pa.string(), "the digest of its content, unpacked"),
    ("duplicate_of", pa.string(), "the file that it is a copy of; null: none"),
)

CONTAINERS = _table(
    "each folder, archive and compressed file: what was found in it, what was read, and what "
    "was left out and why",
    ("container", pa.string(), "its path, with the archives it was found in"),
    ("inside", pa.string(), "the container that it is an entry of; null: it was named by the user"),
    (
        "format",
        pa.string(),
        'folder, tar, zip, or what was opened one after the other, as in "gzip, tar"',
    ),
    ("how", pa.string(), "how it was read: member by member, by its directory, in order"),
    ("bytes", pa.int64(), "its size on disk; null where it came out of a stream"),
    ("entries", pa.int64(), "how many were found: they were read, or left out"),
    ("read", pa.int64(), "how many were read"),
    ("left_out", pa.int64(), "how many were left out"),
    (
        "reasons",
        pa.list_(
            pa.struct(
                [
                    ("reason", pa.string()),
                    ("entries", pa.int64()),
                    ("examples", pa.list_(pa.string())),
                ]
            )
        ),
        "why entries were left out: how many for each reason, and a few of their names",
    ),
    ("damaged", pa.string(), "what is wrong with it; null: nothing"),
    ("limits", pa.list_(pa.string()), "the limits that were met"),
)

LAYOUTS = _table(
    "which layout read which lines of each log; lines of other layouts may lie between",
    ("file", pa.string(), "the file, with the archives it was found in"),
    ("first_line", pa.int64(), "the first line that the layout reads"),
    ("last_line", pa.int64(), "the last line that it reads"),
    ("records", pa.int64(), "how many records it reads"),
    ("layout", pa.string(), "the layout"),
    (
        "found",
        pa.string(),
        "known, inferred (from the lines), pasted (by the user), or configuration (of the bundle)",
    ),
)

CLOCKS = _table(
    "each node's clock against a reference node, and its time zone",
    ("node", pa.string(), "whose clock it is"),
    (
        "offset_ms",
        pa.int64(),
        "how far it is ahead of the reference, in milliseconds; null: not known",
    ),
    ("uncertainty_ms", pa.int64(), "half the width of what the offset may be"),
    ("anchors", pa.int32(), "how many moments tie it to other clocks"),
    ("zone_shift_minutes", pa.int32(), "how far its time zone is off, told apart from drift"),
    ("reference", pa.bool_(), "whether it is the reference"),
    (
        "kind",
        pa.string(),
        "how it was wrong: not at all, by an offset, a zone, a drift, a step; null: not known",
    ),
    ("drift_ppm", pa.float64(), "how much faster it runs, in millionths"),
    (
        "steps",
        pa.list_(pa.struct([("at", TIME), ("ms", pa.int64())])),
        "when the clock was set anew, on the reference clock, and by how much",
    ),
    (
        "stretches",
        pa.list_(
            pa.struct(
                [
                    ("since", TIME),
                    ("at", TIME),
                    ("offset_ms", pa.float64()),
                    ("drift_ppm", pa.float64()),
                ]
            )
        ),
        (
            "what to subtract from the node's times, including its zone: since when (as logged; "
            "null: from the beginning), the offset at one moment (as logged), and the drift from "
            "there"
        ),
    ),
)

COVERAGE = _table(
    "each stretch of time that a kind of log of a node covers, and the holes",
    ("node", pa.string(), "whose log it is"),
    ("role", pa.string(), "broker, controller or client"),
    ("log", pa.string(), "the kind of log; null: all logs of the node"),
    (
        "state",
        pa.string(),
        "covered, down (the process was away), or a hole: silent, missing, rotated, hidden",
    ),
    ("started_at", TIME, "since when, on the reference clock"),
    ("ended_at", TIME, "until when"),
    ("why", pa.string(), "what is missing, in words; null where nothing is"),
    ("files", pa.int64(), "how many files it rests on"),
    ("records", pa.int64(), "how many records"),
    ("evidence", EVIDENCE, "the lines at its edges"),
)

LANES = _table(
    "each stretch of a node's life; who was the active controller",
    ("node", pa.string(), "whose life it is"),
    ("role", pa.string(), "broker, controller or client"),
    ("broker", pa.int32(), "the id of the broker or controller; null for clients"),
    (
        "state",
        pa.string(),
        (
            "of a broker: starting, recovering, up, paused, isolated, fenced, stopping, stopped, "
            "crashed, unknown; of a client: healthy, stale, disconnected"
        ),
    ),
    ("started_at", TIME, "since when, on the reference clock"),
    ("ended_at", TIME, "until when; null: still so at the end of the logs"),
    (
        "started_after",
        TIME,
        (
            "the earliest moment at which it may have begun, where `started_at` is an estimate; "
            "else null"
        ),
    ),
    ("started_before", TIME, "the latest such moment; else null"),
    ("evidence", EVIDENCE, "the lines that state it"),
)

CHECKS = _table(
    "what the tables were checked for, whether it holds, and what follows if not",
    ("check", pa.string(), "the id of the check"),
    ("table", pa.string(), "the table that was measured for it"),
    ("words", pa.string(), "what must hold, in words"),
    ("expectation", pa.string(), "the same as Great Expectations has it: its name"),
    ("arguments", pa.string(), "and its arguments, as JSON"),
    ("success", pa.bool_(), "whether it holds"),
    ("observed", pa.string(), "what was seen"),
    ("consequence", pa.string(), "what follows if it fails: note, downgrade or close"),
    ("otherwise", pa.string(), "what a failure means, in words"),
    ("severity", pa.string(), "info, warning or critical"),
    ("failed", pa.int64(), "how many rows fail"),
    ("findings", pa.list_(pa.string()), "the ids of findings that were downgraded for it"),
)

# The tables of an output folder by name.
TABLES: Mapping[str, pa.Schema] = {
    "events": EVENTS,
    "leadership": LEADERSHIP,
    "isr": ISR,
    "outages": OUTAGES,
    "cuts": CUTS,
    "breaches": BREACHES,
    "files": FILES,
    "layouts": LAYOUTS,
    "containers": CONTAINERS,
    "clocks": CLOCKS,
    "coverage": COVERAGE,
    "lanes": LANES,
    "checks": CHECKS,
}
