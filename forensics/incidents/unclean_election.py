"""Unclean elections: a leader that was not in sync took over, and what it did not have is gone.

Found in the history, not by a keyword: brokers under ZooKeeper log no word of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.compute as pc

from forensics.incidents.case import Case, Row, name_of, strokes
from forensics.incidents.finding import Finding
from forensics.incidents.losses import LOSS_KINDS, loss

__all__ = ["find"]

NAME = "unclean-election"


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each stroke of unclean elections."""
    unclean = case.rows("leadership", pc.field("clean") == False)  # noqa: E712
    for row in unclean:
        if row["started_at"] is None:
            # Only lines that repeat it are left: it was so at the first of them, at the latest.
            told = [place["at"] for place in case.places(row["evidence"]) if "at" in place]
            row["started_at"] = min(told, default=case.end)
    for group in strokes(unclean, case.limits[NAME]["stroke"]):
        yield _finding(case, group)


def _finding(case: Case, group: list[Row]) -> Finding:
    entries: list[dict[str, Any]] = []
    places: list[Mapping[str, Any]] = []
    for row in sorted(group, key=lambda one: (one["topic"], one["partition"])):
        entry, lines = _loss(case, row)
        entries.append(entry)
        places += case.places(row["evidence"]) + lines
    leaders = {row["leader"] for row in group}
    before = {entry["previous_leader"] for entry in entries if entry["previous_leader"] is not None}
    begin = min(row["started_at"] for row in group)
    return Finding(
        detector=NAME,
        severity=_severity(entries),
        confidence="confirmed",
        title=_title(entries, leaders),
        begin=begin,
        end=max([begin, *(row["started_at"] for row in group)]),
        evidence=places,
        brokers=sorted(leaders | before),
        partitions=[name_of(row) for row in group],
        measures={"partitions": entries},
        explanation=_explanation(entries),
        actions=_actions(entries),
    )


def _loss(case: Case, row: Row) -> tuple[dict[str, Any], list[Mapping[str, Any]]]:
    here = (pc.field("topic") == row["topic"]) & (pc.field("partition") == row["partition"])
    events = case.events(*LOSS_KINDS, where=here)
    before = case.rows("leadership", here & (pc.field("leader_epoch") < row["leader_epoch"]))
    reigns = sorted(before, key=lambda one: one["leader_epoch"], reverse=True)
    previous = next((one["leader"] for one in reigns if (one["leader"] or -1) >= 0), None)
    brokers = {
        one["node"]: int(one["node"].rpartition("-")[2])
        for one in events
        if one["node"] and one["node"].startswith("broker-")
    }
    entry, places = loss(row, previous, events, brokers)
    return entry, list(places)


def _severity(entries: list[dict[str, Any]]) -> str:
    if any(entry["lost_records_max"] is None or entry["lost_records_max"] for entry in entries):
        return "critical"
    return "medium"


def _title(entries: list[dict[str, Any]], leaders: set[int]) -> str:
    who = ", ".join(f"broker {one}" for one in sorted(leaders))
    count = len(entries)
    word = "partition" if count == 1 else "partitions"
    return f"Unclean election of {who} on {count} {word}: {_loss_words(entries)}"


def _loss_words(entries: list[dict[str, Any]]) -> str:
    least = sum(entry["lost_records_min"] for entry in entries)
    most = [entry["lost_records_max"] for entry in entries]
    if None in most:
        return f"at least {least:,} records lost, not bounded above"
    total = sum(most)
    if not total:
        return "no records lost"
    return f"{least:,} records lost" if least == total else f"{least:,} to {total:,} records lost"


def _explanation(entries: list[dict[str, Any]]) -> str:
    hurt = [entry for entry in entries if entry["lost_records_max"] != 0]
    return (
        "No replica of the in-sync set was alive, and a replica outside it became leader. Records "
        "that only the leader before had were cut from its log when it came back to follow. "
        f"{len(hurt)} of {len(entries)} partitions lost records: {_loss_words(entries)}. Producers "
        "may hold acknowledgements for them; consumers that had read on see offsets used again."
    )


def _actions(entries: list[dict[str, Any]]) -> list[str]:
    hurt = [entry for entry in entries if entry["lost_records_max"] != 0] or entries
    topics = sorted({entry["partition"].rpartition("-")[0] for entry in hurt})
    return [_CONFIG.format(topic=topics[0]), _SEND_AGAIN]


_CONFIG = (
    "kafka-configs.sh --bootstrap-server BROKER:9092 --describe --entity-type topics "
    "--entity-name {topic}   # is unclean.leader.election.enable=true meant?"
)
_SEND_AGAIN = (
    "Ask the producers of these partitions to send again what they sent between the last ISR "
    "shrink and the election; consumers' committed offsets beyond lost_from need a reset."
)
