"""The tables that expectations may be about: small ones, with a row for each thing that is judged.

None of them grows with the lines of the archive: events are counted by file and kind, and what was
rebuilt is measured by partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["TABLES", "Measured"]


@dataclass(frozen=True)
class Measured:
    """What one row is, which columns name it, what each column means."""

    row: str
    # of what a failed row is told: an archive, files, nodes, partitions or findings
    about: str
    columns: Mapping[str, str]


TABLES: Mapping[str, Measured] = {
    "archive": Measured(
        "the whole archive",
        "archive",
        {
            "files": "how many files were read",
            "nodes": "how many brokers, controllers and clients they are of",
            "lines": "all lines",
            "records": "records in a known layout",
            "parsed_share": "the share of lines in a known layout, 0 to 1",
            "events": "facts read from them",
            "leader_epochs": "leader epochs that were rebuilt",
            "findings": "findings before any was downgraded",
        },
    ),
    "files": Measured(
        "one input file",
        "files",
        {
            "file": "its name, as archive!entry",
            "node": "who wrote it; null: not known",
            "role": "broker, controller or client; null: not known",
            "layout": "the layout of its lines",
            "kafka_version": "the version it names",
            "bytes": "unpacked",
            "lines": "all lines",
            "records": "records in a known layout",
            "continuation_lines": "later lines of records",
            "blank_lines": "lines without a word",
            "unparsed_lines": "lines in no known layout",
            "duplicate_lines": "lines of a file that was there twice",
            "events": "facts read from it",
            "damaged": "what is wrong with it; null: nothing",
            "parsed_share": "the share of lines in a known layout, 0 to 1",
            "stray_share": "the share of lines that belong to no record, by their looks",
            "lines_left_over": "lines that are in none of those five",
            "steps_back": "how often its time goes backwards by 2 s or more, and stays there",
            "farthest_step_back": "the farthest of them, in seconds",
            "first_year": "the earliest year that it names",
            "days_ahead": "how far its latest time is beyond that of all other nodes, in days",
            "odd_levels": "records whose level is none that is known",
            "fallen_epochs": "how often it names a lower epoch of a partition than before",
        },
    ),
    "events": Measured(
        "the events of one kind in one file",
        "files",
        {
            "file": "the name of the file",
            "node": "who wrote it",
            "kind": "the kind of event",
            "events": "how many there are",
            "without_time": "those without a time",
            "without_place": "those without a file or a line",
            "odd_levels": "those whose level is none that is known",
            "negative_partitions": "those that name a partition below 0",
            "negative_epochs": "those that name an epoch below -1, which means none",
            "strange_leaders": "those that name a leader no replica, ISR or registration names",
        },
    ),
    "leadership": Measured(
        "all leader epochs of one partition",
        "partitions",
        {
            "topic": "the topic",
            "partition": "its number",
            "epochs": "how many leader epochs are known",
            "unknown_leaders": "those of which nobody says who led",
            "inferred": "those that follow from others, and that no line tells",
            "doubled_epochs": "epochs that stand there twice",
            "shortest": "the shortest, in seconds; below 0 it ends before it begins",
            "overlap": "how far one reaches into the next, in seconds",
            "without_evidence": "those that are called observed, and name no line",
            "strange_leaders": "those whose leader is none of the replicas",
            "strange_isr": "those whose ISR has a member that is none of the replicas",
        },
    ),
    "isr": Measured(
        "all states of one partition",
        "partitions",
        {
            "topic": "the topic",
            "partition": "its number",
            "states": "how many are known",
            "doubled_epochs": "partition epochs that stand there twice",
            "shortest": "the shortest, in seconds; below 0 it ends before it begins",
            "overlap": "how far one reaches into the next, in seconds",
            "without_evidence": "those that are called observed, and name no line",
            "strange_leaders": "those whose leader is none of the replicas",
            "strange_isr": "those whose ISR has a member that is none of the replicas",
        },
    ),
    "clocks": Measured(
        "one node's clock",
        "nodes",
        {
            "node": "whose it is",
            "offset_ms": "how far it is ahead of the reference; null: not known",
            "uncertainty_ms": "how well that is known",
            "anchors": "how many states tie it to others",
            "zone_shift_minutes": "a wrong time zone",
            "kind": "how it was wrong",
            "drift_ppm": "how much faster it runs",
            "steps": "how often it was set",
        },
    ),
    "lanes": Measured(
        "one stretch of one node's life",
        "nodes",
        {
            "node": "whose it is",
            "role": "broker, controller or client",
            "state": "up, paused, fenced and so on",
            "seconds": "how long it lasts; null: to the end of the logs",
            "overlap": "how far it reaches into the next one of that node and role, in seconds",
            "evidence": "how many lines tell of it",
        },
    ),
    "coverage": Measured(
        "one stretch that a node's log covers, or a hole in it",
        "nodes",
        {
            "node": "whose it is",
            "role": "broker, controller or client",
            "log": "which of its logs; null: all",
            "state": "covered, down, or a hole: silent, missing, rotated, hidden",
            "seconds": "how long it lasts",
            "overlap": "how far it reaches into the next one of that log, in seconds",
            "files": "how many files it rests on",
            "records": "how many records",
        },
    ),
    "findings": Measured(
        "one finding",
        "findings",
        {
            "id": "its id",
            "detector": "who found it",
            "severity": "info to critical",
            "confidence": "possible, likely or confirmed",
            "seconds": "how long it lasts",
            "evidence": "how many lines it quotes",
            "strange_places": "those that are in no file of the archive, or beyond its end",
            "brokers": "how many it names",
            "partitions": "how many it names",
            "clients": "how many it names",
        },
    ),
}
