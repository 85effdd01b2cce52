"""The Arrow schemas of all tables."""

from __future__ import annotations

import pyarrow as pa

from forensics.lib.time_units import TIMESTAMP as TIME

IDS = pa.list_(pa.int32())
EVIDENCE = pa.list_(pa.struct([("file", pa.string()), ("line", pa.int64())]))

# What a rule can read from one line: the names that it may capture.
FACTS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("topic_id", pa.string()),
        ("leader", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("partition_epoch", pa.int32()),
        ("isr", IDS),
        ("replicas", IDS),
        ("broker", pa.int32()),
        ("client", pa.string()),
        ("error", pa.string()),
        ("previous_leader", pa.int32()),
        ("previous_epoch", pa.int32()),
        ("previous_isr", IDS),
        ("elr", IDS),
        ("recovery", pa.string()),
        ("log_end", pa.int64()),
        ("high_watermark", pa.int64()),
        ("cut_to", pa.int64()),
        ("controller", pa.int32()),
        ("controller_epoch", pa.int32()),
        ("broker_epoch", pa.int64()),
        ("from_state", pa.string()),
        ("to_state", pa.string()),
        ("added", IDS),
        ("removed", IDS),
        ("bounced", IDS),
        ("alive", IDS),
        ("epoch_ms", pa.int64()),
        ("count", pa.int64()),
        ("detail", pa.string()),
        # the other node of a line about two
        ("peer", pa.int32()),
        ("group", pa.string()),
        ("generation", pa.int32()),
        ("member", pa.string()),
        ("setting", pa.string()),
        ("value", pa.string()),
        ("log_dir", pa.string()),
        ("position", pa.int64()),
        ("producer_id", pa.int64()),
        ("duration_ms", pa.int64()),
        # what else it is about: `pod NAME`, `container NAME`, `host NAME`
        ("subject", pa.string()),
    ]
)

EVENTS = pa.schema(
    [
        ("kind", pa.string()),
        ("ts", TIME),
        ("node", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("offset", pa.int64()),
        *FACTS,
        # whether Kafka itself retries after that error; null: not known
        ("retriable", pa.bool_()),
        # null: the line is news; else it may repeat an older fact under its own time
        ("telling", pa.string()),
        ("rule", pa.string()),
        ("level", pa.string()),
        ("logger", pa.string()),
        ("text", pa.string()),
    ]
)

LEADERSHIP = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        # of topics of one name that were deleted and created again, the first is 0
        ("incarnation", pa.int32()),
        ("topic_id", pa.string()),
        ("leader_epoch", pa.int32()),
        ("leader", pa.int32()),
        ("started_at", TIME),
        ("ended_at", TIME),
        # observed, open, or unknown: then `ended_at` is the last moment at which it was certain
        ("ended", pa.string()),
        ("how", pa.string()),
        ("election", pa.string()),
        # automatic or manual (unclean), elr, epoch_bump (no election); null: nothing to add
        ("manner", pa.string()),
        ("clean", pa.bool_()),
        ("previous_leader", pa.int32()),
        ("isr", IDS),
        ("previous_isr", IDS),
        ("replicas", IDS),
        ("log_end", pa.int64()),
        ("high_watermark", pa.int64()),
        ("evidence", EVIDENCE),
    ]
)

ISR = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("incarnation", pa.int32()),
        ("topic_id", pa.string()),
        ("partition_epoch", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("leader", pa.int32()),
        ("isr", IDS),
        ("replicas", IDS),
        ("started_at", TIME),
        ("ended_at", TIME),
        # observed, open, or unknown: then `ended_at` is the last moment at which it was certain
        ("ended", pa.string()),
        ("how", pa.string()),
        ("evidence", EVIDENCE),
    ]
)

# One stretch of time in which a partition had nobody who could serve it.
OUTAGES = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("started_at", TIME),
        # null: still so at the end of the logs
        ("ended_at", TIME),
        # the other ends of the brackets in which it began and ended; null: the logs leave none
        ("started_before", TIME),
        ("ended_after", TIME),
        # no_leader, leader_dead, leader_hung, leader_isolated or leader_stopped, as it began
        ("why", pa.string()),
        # who led on paper (null: nobody), and who led last (null: not known)
        ("leader", pa.int32()),
        ("previous_leader", pa.int32()),
        # whether somebody stopped the brokers in order
        ("planned", pa.bool_()),
        ("evidence", EVIDENCE),
    ]
)

# One truncation of a replica's log for a new leader: the records that only it held are lost.
CUTS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        # the epoch and the leader that it follows now, and where that leader's log ended at first
        ("leader_epoch", pa.int32()),
        ("leader", pa.int32()),
        ("kept", pa.int64()),
        ("broker", pa.int32()),
        ("started_at", TIME),
        ("cut_to", pa.int64()),
        ("log_end", pa.int64()),
        ("high_watermark", pa.int64()),
        # whether an unclean leader made it necessary; null: not known
        ("unclean", pa.bool_()),
        # between which moments the records were written
        ("written_from", TIME),
        ("written_to", TIME),
        ("evidence", EVIDENCE),
    ]
)

# One violation of an invariant of Kafka's, by two lines or within one.
BREACHES = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("invariant", pa.string()),
        ("detail", pa.string()),
        ("leader_epoch", pa.int32()),
        ("partition_epoch", pa.int32()),
        ("started_at", TIME),
        # how often this partition breaks it; only a few are kept
        ("count", pa.int64()),
        # whether only a node that hung or was away logged it
        ("alone", pa.bool_()),
        ("evidence", EVIDENCE),
    ]
)

FILES = pa.schema(
    [
        ("file", pa.string()),
        ("node", pa.string()),
        ("role", pa.string()),
        ("layout", pa.string()),
        ("kafka_version", pa.string()),
        ("first_ts", TIME),
        ("last_ts", TIME),
        ("bytes", pa.int64()),
        ("lines", pa.int64()),
        ("records", pa.int64()),
        ("continuation_lines", pa.int64()),
        ("blank_lines", pa.int64()),
        ("unparsed_lines", pa.int64()),
        ("duplicate_lines", pa.int64()),
        ("events", pa.int64()),
        ("damaged", pa.string()),
        ("sha256", pa.string()),
        ("duplicate_of", pa.string()),
    ]
)

# One folder, archive or compressed file: what was found in it, read, and left out, and why.
CONTAINERS = pa.schema(
    [
        ("container", pa.string()),
        # the container that it is an entry of; null: it was named by the user
        ("inside", pa.string()),
        # folder, tar, zip, or what was opened one after the other, as in "gzip, tar"
        ("format", pa.string()),
        # how it was read: member by member, by its directory, in order
        ("how", pa.string()),
        # its size on disk; null where it came out of a stream
        ("bytes", pa.int64()),
        # those that were found: they were read, or left out
        ("entries", pa.int64()),
        ("read", pa.int64()),
        ("left_out", pa.int64()),
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
        ),
        ("damaged", pa.string()),
        # the limits that were met
        ("limits", pa.list_(pa.string())),
    ]
)

# The lines of a file that one layout reads, from the first to the last; others may lie between.
LAYOUTS = pa.schema(
    [
        ("file", pa.string()),
        ("first_line", pa.int64()),
        ("last_line", pa.int64()),
        ("records", pa.int64()),
        ("layout", pa.string()),
        # known, inferred (from the lines), pasted (by the user), or configuration (of the bundle)
        ("found", pa.string()),
    ]
)

CLOCKS = pa.schema(
    [
        ("node", pa.string()),
        ("offset_ms", pa.int64()),
        ("uncertainty_ms", pa.int64()),
        ("anchors", pa.int32()),
        ("zone_shift_minutes", pa.int32()),
        ("reference", pa.bool_()),
        # how it was wrong: not at all, by an offset, a zone, a drift, a step; null: not known
        ("kind", pa.string()),
        ("drift_ppm", pa.float64()),
        # when the clock was stepped, on the reference clock, and by how much
        ("steps", pa.list_(pa.struct([("at", TIME), ("ms", pa.int64())]))),
        # what to subtract from the node's times, including its zone: since when (as logged; null:
        # from the beginning), the offset at one moment (as logged), and the drift from there
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
        ),
    ]
)

# One interval that a kind of log of a node covers, or a hole in the node's logs.
COVERAGE = pa.schema(
    [
        ("node", pa.string()),
        ("role", pa.string()),
        # null: all logs of the node
        ("log", pa.string()),
        # covered, down (the process was away), or a hole: silent, missing, rotated, hidden
        ("state", pa.string()),
        ("started_at", TIME),
        ("ended_at", TIME),
        # what is missing, in words; null where nothing is
        ("why", pa.string()),
        ("files", pa.int64()),
        ("records", pa.int64()),
        ("evidence", EVIDENCE),
    ]
)

# One interval of a node's state; times are corrected by CLOCKS.
LANES = pa.schema(
    [
        ("node", pa.string()),
        ("role", pa.string()),
        ("broker", pa.int32()),
        ("state", pa.string()),
        ("started_at", TIME),
        ("ended_at", TIME),
        # between which moments it began, where `started_at` is an estimate; else null
        ("started_after", TIME),
        ("started_before", TIME),
        ("evidence", EVIDENCE),
    ]
)
