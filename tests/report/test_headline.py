"""The verdict sentence, word for word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forensics.report.data_loss import sum_losses
from forensics.report.finding_text import describe_scope
from forensics.report.headline import verdict_sentence
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import RunOutput, load_run
from tests.report.sample_runs import document, file, finding, lost, save, unclean_findings

Rewrite = Callable[[Path, dict[str, Any]], None]


def saved(out: Path, *findings: dict[str, Any], verdict: str = "incident") -> RunOutput:
    """Open a run that has these findings."""
    write_findings(document(list(findings), verdict), out / "findings.json")
    return load_run(out)


def election(*rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Make an unclean election that took these rows."""
    measures = {"partitions": list(rows)}
    return finding("F-1", "unclean-election", "critical", measures=measures, **more)


@pytest.mark.parametrize(
    ("rows", "confidence", "says"),
    [
        ([lost(0, 1, 845)], "confirmed", "confirmed 845 records on 1 partition"),
        ([lost(0, 1, 900), lost(1, 1, None)], "confirmed", "possible, not bounded"),
        ([lost(0, 1, 0) | {"lost_records_min": 0}], "confirmed", "none seen"),
        ([lost(0, 1, 7) | {"lost_records_min": 0}], "likely", "possible, at most 7 records on 1 p"),
        ([lost(0, 1, 845)], "possible", "possible, at most 845 records on 1 partition"),
        ([], "confirmed", "possible, not bounded"),
    ],
)
def test_loss_is_never_said_surer_than_it_is(
    unclean: Path, rows: list[dict[str, Any]], confidence: str, says: str
) -> None:
    """Bounds, doubt and nothing each have their words."""
    run = saved(unclean, election(*rows, confidence=confidence))

    assert f"; data loss {says}" in verdict_sentence(run)


def test_loss_cannot_be_told_where_a_file_is_damaged(unclean: Path) -> None:
    """The missing lines might have told of an unclean election."""
    run = saved(unclean, finding("F-1", "flapping-broker", "high", brokers=[2]))

    assert verdict_sentence(run) == (
        "Flapping on broker 2, 2026-11-18 11:38:48-11:39:29 UTC (40.7 s); "
        "data loss cannot tell; confidence confirmed."
    )


def test_no_loss_is_seen_where_all_was_read(unclean: Path) -> None:
    """Whole files without an unclean election: none seen."""
    save(unclean, "files", [file("broker-1", "server")])
    run = saved(unclean, finding("F-1", "flapping-broker", "high", brokers=[2]))

    assert "; data loss none seen; " in verdict_sentence(run)


def test_a_clear_day_says_what_it_rests_on(quiet: Path) -> None:
    """Nothing found is said with the window and the share of lines understood."""
    assert verdict_sentence(load_run(quiet)) == (
        "Nothing of level medium or higher found between 2026-11-18 11:37:40 and "
        "2026-11-18 11:40:10 UTC; 99.4 % of 4,000 lines understood."
    )


def test_too_little_coverage_is_not_a_clear_day(unclean: Path) -> None:
    """The sentence says that silence proves nothing here."""
    says = verdict_sentence(saved(unclean, verdict="cannot_tell"))

    assert says.startswith("Cannot tell: nothing of level medium or higher found between ")
    assert says.endswith(" that nothing happened (1 file damaged); 95 % of 4,000 lines understood.")


def test_an_unusable_input_says_so(quiet: Path, rewrite: Rewrite) -> None:
    """No event at all: the input is the problem."""
    rewrite(quiet, {"verdict": "cannot_tell", "archive": {"lines": 10, "events": 0}})

    assert verdict_sentence(load_run(quiet)) == (
        "Cannot tell: nothing in the input could be used as a Kafka log."
    )


def test_an_incident_that_goes_on_has_no_end(unclean: Path) -> None:
    """An open end is said, not invented, whether the finding leaves it out or ends as the logs."""
    for end in (None, document([])["window"]["to"]):
        run = saved(unclean, election(lost(0, 1, 845), to=end))

        assert "11:40:10 UTC (1 min 21 s), to the end of the logs; data loss" in verdict_sentence(
            run
        )


def test_a_broker_that_flaps_is_the_scope_and_not_what_it_led(unclean: Path) -> None:
    """Detectors of processes name brokers first, those of clients clients."""
    names = [f"orders-v2-{number}" for number in range(4)]
    both = {"brokers": [2], "partitions": names, "clients": ["app"]}
    found = [finding("F-1", "flapping-broker", "high", **both),
             finding("F-2", "stale-metadata", "high", **both),
             finding("F-3", "somebody-elses", "high", **both)]  # fmt: skip

    said = [describe_scope(one) for one in saved(unclean, *found).findings]

    assert said == ["broker 2", "app", "4 partitions of orders-v2"]


def test_what_could_not_be_looked_for_is_counted_where_nothing_was_found(
    quiet: Path, rewrite: Rewrite
) -> None:
    """A clear day says how many kinds of trouble nobody could have seen."""
    answers = [{"detector": "a", "status": "quiet"}, {"detector": "b", "status": "not_evaluable"}]
    rewrite(quiet, {"detectors": answers})

    assert verdict_sentence(load_run(quiet)).endswith(
        "; 1 kind of trouble looked for, 1 could not be."
    )


def test_the_worst_finding_speaks(unclean: Path) -> None:
    """Level first, then time."""
    run = saved(unclean, *reversed(unclean_findings()))

    assert [found.id for found in run.findings] == ["F-3f2a91c0", "F-1b", "F-4e", "F-2c", "F-5f"]


def test_scope_names_few_and_counts_many(unclean: Path) -> None:
    """Four partitions or more are counted by topic."""
    names = [f"orders-v2-{number}" for number in range(4)]
    run = saved(unclean, finding("F-1", "offline-partitions", "high", partitions=names))

    assert describe_scope(run.findings[0]) == "4 partitions of orders-v2"


def test_the_sum_counts_what_has_no_bound(unclean: Path) -> None:
    """A row without an upper bound is counted as such and never added."""
    taken = sum_losses(saved(unclean, election(lost(0, 1, 900), lost(1, 1, None))).findings)

    assert taken is not None
    assert (taken.at_least, taken.at_most, taken.unbounded) == (1690, 900, 1)


@pytest.mark.parametrize(
    ("state", "role", "says"),
    [
        ("missing", "broker", "cannot tell"),
        ("rotated", "controller", "cannot tell"),
        ("hidden", "broker", "cannot tell"),
        ("silent", "broker", "none seen"),
        ("missing", "client", "none seen"),
    ],
)
def test_no_loss_is_seen_only_where_one_would_have_been(
    unclean: Path, state: str, role: str, says: str
) -> None:
    """A broker whose log is not here may have lost anything."""
    save(unclean, "files", [file("broker-1", "server")])
    save(unclean, "coverage", [{"node": "broker-4", "role": role, "state": state}])
    run = saved(unclean, finding("F-1", "flapping-broker", "high", brokers=[2]))

    assert f"; data loss {says}; " in verdict_sentence(run)


def test_no_loss_is_seen_only_where_somebody_looked(unclean: Path, rewrite: Rewrite) -> None:
    save(unclean, "files", [file("broker-1", "server")])
    saved(unclean, finding("F-1", "flapping-broker", "high", brokers=[2]))
    for status, says in (("quiet", "none seen"), ("not_evaluable", "cannot tell")):
        rewrite(unclean, {"detectors": [{"detector": "unclean-election", "status": status}]})

        assert f"; data loss {says}; " in verdict_sentence(load_run(unclean))


@pytest.mark.parametrize(
    ("kind", "says"), [("crash", "Crash on broker 2"), ("unknown", "Restart on broker 2")]
)
def test_a_broker_that_died_was_not_just_restarted(unclean: Path, kind: str, says: str) -> None:
    one = finding("F-1", "broker-restart", "medium", brokers=[2], measures={"kind": kind})

    assert verdict_sentence(saved(unclean, one)).startswith(f"{says}, ")
