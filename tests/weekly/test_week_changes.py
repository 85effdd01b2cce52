"""What changed is said as what it is: that no line names something is not that it is gone."""

from __future__ import annotations

from typing import Any

from forensics.weekly.week_summary import WeekSummary
from forensics.weekly.week_verdict import find_changes
from tests.weekly.sample_summaries import make_week


def changes(now: WeekSummary, then: WeekSummary | None) -> list[tuple[str, ...]]:
    return [tuple(change) for change in find_changes(now, then)]


def topics(**partitions: int) -> dict[str, Any]:
    return {"partitions": partitions, "topics": len(partitions), "all_partitions": 0}


def test_the_same_week_again_has_no_changes() -> None:
    assert changes(make_week("2026-W46"), make_week("2026-W45")) == []


def test_versions_that_moved_together_are_told_together() -> None:
    old = {f"broker-{at}": ["4.2.0"] for at in (1, 2, 3)}
    new = old | {"broker-1": ["4.3.0"], "broker-2": ["4.3.0"], "broker-4": ["4.3.0"]}
    actual = changes(make_week("2026-W46", versions=new), make_week("2026-W45", versions=old))

    assert actual == [("Version", "broker-1, broker-2: Kafka 4.2.0, now 4.3.0")]


def test_rules_that_changed_are_named_with_their_hashes() -> None:
    new = [["kafka-forensics", "b" * 64], ["ours", "c" * 64]]
    actual = changes(make_week("2026-W46", rules=new), make_week("2026-W45"))

    assert actual == [("Rules", "the pack kafka-forensics changed (aaaaaaaa to bbbbbbbb)"),
                    ("Rules", "the pack ours is new")]  # fmt: skip


def test_brokers_and_topics_that_nobody_names_are_not_called_gone() -> None:
    now = make_week("2026-W46", brokers=[1, 2, 4], topics=topics(orders=6, audit=1))
    actual = changes(now, make_week("2026-W45", topics=topics(orders=6, payments=3)))

    assert ("Broker", "named for the first time, or again: 4") in actual
    assert ("Broker", "named the week before, and by no line now: 3") in actual
    assert ("Logs", "had logs the week before, and has none now: broker-3") in actual
    assert ("Topic", "named now, and by no line the week before: audit") in actual
    assert ("Topic", "named the week before, and by no line now: payments") in actual


def test_what_the_logs_say_was_deleted_is_told_even_of_the_first_week() -> None:
    turns = {"created": [], "deleted": ["payments"]}

    assert changes(make_week("2026-W46", topic_turns=turns), None) == [
        ("Topic", "deleted according to the logs: payments")
    ]


def test_files_that_were_read_by_older_rules_are_told_of() -> None:
    actual = changes(make_week("2026-W46", older_rules=["a.log", "b.log"]), make_week("2026-W45"))

    assert actual == [("Rules", "2 files of this week read by older rules: a.log, b.log")]


def test_topics_without_number_are_counted_and_not_compared_by_name() -> None:
    """A summary names some of very many topics; who is missing there may still be there."""
    many = {"partitions": {"a": 1}, "topics": 5000, "all_partitions": 9}
    more = {"partitions": {"b": 1}, "topics": 5001, "all_partitions": 9}

    assert changes(make_week("2026-W46", topics=more), make_week("2026-W45", topics=many)) == [
        ("Topic", "5,001 topics named, 5,000 the week before")
    ]
