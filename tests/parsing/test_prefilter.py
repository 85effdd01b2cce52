"""The sieve of the shipped rules: every line that a rule needs passes, noise does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.events.log_reader import LogReader
from forensics.events.rules import Rule
from forensics.ingest.record_splitter import RecordSplitter

SAMPLE = Path(__file__).parents[2] / "sample_logs/430-unclean/logs"
NOISE = [
    "[2026-11-18 11:31:58,423] INFO Nobody has a rule for this (kafka.log.LogCleaner)",
    "[2026-11-18 11:31:58,423] INFO [GroupCoordinator 1]: x (kafka.coordinator.group.Coordinator)",
    "[2026-11-18T11:24:42.957+0000][gc          ] Nobody has a rule for this",
    "2026-11-18 11:38:17.373 INFO  [main] a.b.AbstractConfig - nobody has a rule for this",
]


def test_every_line_that_a_rule_needs_passes(book: LogReader, rules: tuple[Rule, ...]) -> None:
    lines = [one.line for rule in rules for wording in rule.wordings for one in wording.examples]
    cut = book.split_records(lines)

    assert cut is not None
    passed = set(book.prefiltered(cut)["line"].to_pylist())
    assert passed == {int(line) for line in cut.lines}


def test_noise_does_not_pass(book: LogReader) -> None:
    cut = book.split_records(NOISE)

    assert cut is not None
    assert len(cut.starts) == len(NOISE)
    assert len(book.prefiltered(cut)) == 0


@pytest.mark.parametrize("path", sorted(SAMPLE.glob("*/*.log")), ids=lambda path: path.parent.name)
def test_the_sieve_loses_no_event_of_a_recording(path: Path, book: LogReader) -> None:
    cut = RecordSplitter(book.signatures).feed(path.read_bytes(), final=True)
    if cut is not None:
        assert book.read_events(cut).equals(book.matcher.match(book.parse_all(cut)))
