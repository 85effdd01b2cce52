"""The headline and the verdict sentence, word for word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forensics.report.data_loss import sum_losses
from forensics.report.finding_text import describe_scope
from forensics.report.headline import (
    headline,
    page_title,
    verdict_sentence,
)
from forensics.report.incident_span import (
    OpenEnds,
    describe_others,
    incident_span,
    outages_without_end,
)
from forensics.report.summary import list_impact
from forensics.report.summary_actions import list_unknown
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import RunOutput, load_run
from tests.report.sample_runs import (
    BACK,
    END,
    at,
    document,
    file,
    finding,
    iso,
    lost,
    reign,
    save,
    unclean_findings,
)

Rewrite = Callable[[Path, dict[str, Any]], None]
NONE = "No data loss found."
UNTOLD = "Whether records were lost cannot be told from these logs."


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
        ([lost(0, 1, 845)], "confirmed", "845 records lost on 1 partition."),
        ([lost(0, 1, 900), lost(1, 1, None)], "confirmed", "how many at most is not known."),
        ([lost(0, 1, 0) | {"lost_records_min": 0}], "confirmed", "No data loss found."),
        ([lost(0, 1, 7) | {"lost_records_min": 0}], "likely", "At most 7 records lost on 1 partit"),
        ([lost(0, 1, 845)], "possible", "At most 845 records lost on 1 partition."),
        ([], "confirmed", "Records may be lost; how many is not known."),
    ],
)
def test_loss_is_never_said_surer_than_it_is(
    unclean: Path, rows: list[dict[str, Any]], confidence: str, says: str
) -> None:
    """Bounds, doubt and nothing each have their words."""
    run = saved(unclean, election(*rows, confidence=confidence))

    assert says in verdict_sentence(run)


@pytest.mark.parametrize(
    ("rows", "confidence", "says"),
    [
        ([lost(0, 1, 845)], "confirmed", "845 records lost in metrics-firehose after an unclean"),
        ([lost(0, 1, 900), lost(1, 1, None)], "confirmed", "At least 1,690 records lost in metri"),
        ([lost(0, 1, 0) | {"lost_records_min": 0}], "confirmed", "Unclean leader election; no re"),
        ([lost(0, 1, 845)], "possible", "Up to 845 records lost in metrics-firehose after an"),
    ],
)
def test_the_headline_names_what_was_lost_and_where(
    unclean: Path, rows: list[dict[str, Any]], confidence: str, says: str
) -> None:
    assert headline(saved(unclean, election(*rows, confidence=confidence))).startswith(says)


def crash(name: str, broker: int, after: int, **more: Any) -> dict[str, Any]:
    """Make a crash of a broker, ten seconds long."""
    measures = {"kind": "crash", "away_s": 10.0}
    title = f"Broker {broker} crashed; back in service 10 s later"
    times = {"from": iso(after), "to": iso(after + 10_000)}
    plain = {"title": title, "brokers": [broker], "measures": measures} | times
    severity = more.pop("severity", "medium")
    return finding(name, "broker-restart", severity, **plain | more)


def test_what_happened_in_turn_is_told_as_one_story(unclean: Path) -> None:
    """The worst single finding is not what somebody would say had happened."""
    hit = finding("F-0", "offline-partitions", "high", title="Three partitions unavailable",
                  **{"from": iso(10_000), "to": iso(60_000)})  # fmt: skip
    run = saved(unclean, hit, *(crash(f"F-{n}", n, 10_000 * n) for n in (1, 2, 3)),
                crash("F-4", 1, 50_000))  # fmt: skip

    assert headline(run) == (
        "Brokers 1 (twice), 2 and 3 crashed one after the other within 40 s; "
        "3 partitions unavailable for up to 40 s"
    )


def test_one_broker_that_crashed_twice_is_named_once(unclean: Path) -> None:
    run = saved(unclean, finding("F-0", "offline-partitions", "high", title="Unavailable"),
                crash("F-1", 2, 10_000), crash("F-2", 2, 73_000))  # fmt: skip

    assert headline(run).startswith("Broker 2 crashed twice within 1 min 3 s; ")


def test_what_begins_within_a_second_is_told_as_one_moment(unclean: Path) -> None:
    run = saved(unclean, finding("F-0", "offline-partitions", "high", title="Unavailable"),
                crash("F-2", 2, 10_000), crash("F-3", 3, 10_057))  # fmt: skip

    assert headline(run).startswith("Brokers 2 and 3 crashed at the same time; ")


def test_a_process_that_says_why_it_ended_is_told_so(unclean: Path) -> None:
    one = crash("F-1", 2, 10_000, title="Broker 2 ended: it was out of memory; back later")

    assert headline(saved(unclean, one)).startswith("Broker 2 ended: it was out of memory; 3 part")


def test_a_broker_froze_at_least_as_often_as_is_known(unclean: Path) -> None:
    """Short freezes leave few lines; one whose own log says nothing only lost its session."""
    measures = {"how": "pause", "cycles": 4, "freezes_min": 5}
    one = finding("F-1", "flapping-broker", "high", brokers=[3], measures=measures,
                  title="Broker 3 froze at least 5 times and lost its session 4 times")  # fmt: skip
    assert headline(saved(unclean, one)).startswith("Broker 3 froze at least 5 times; ")

    lost = one | {"title": "Broker 3 lost its session 4 times", "measures": {
        "how": "pause", "cycles": 4}}  # fmt: skip
    assert headline(saved(unclean, lost)).startswith("Broker 3 lost its session 4 times; ")


def test_a_freeze_is_as_long_in_the_headline_as_elsewhere(unclean: Path) -> None:
    """13.497 s are 13.5 in tenths, of which everything else makes 14."""
    measures = {"pauses": 1, "longest_ms": 13_497}
    one = finding("F-1", "long-pause", "high", brokers=[3], measures=measures,
                  title="broker-3 froze for about 14 s")  # fmt: skip

    assert headline(saved(unclean, one)).startswith("Broker 3 froze for about 14 s; ")


def test_a_headline_counts_what_it_has_no_room_for(unclean: Path) -> None:
    titles = ("a disk failed", "it was out of memory", "it was killed", "a port was taken")
    ends = (crash(f"F-{n}", n, 10_000 * n, title=f"Broker {n} ended: {title}; back later")
            for n, title in enumerate(titles, 1))  # fmt: skip

    told = headline(saved(unclean, *ends)).split("; ")

    assert told[:3] == [
        "Broker 1 ended: a disk failed", "Broker 2 ended: it was out of memory",
        "and 2 more, told below"]  # fmt: skip


def test_several_clients_with_one_trouble_are_one_headline(unclean: Path) -> None:
    found = [finding(f"F-{name}", "offset-reset", "medium", clients=[name]) for name in "ab"]

    assert headline(saved(unclean, *found)) == "2 consumers lost their positions: a, b"


def test_loss_cannot_be_told_where_a_file_is_damaged(unclean: Path) -> None:
    """The missing lines might have told of an unclean election."""
    run = saved(unclean, finding("F-1", "flapping-broker", "high", brokers=[2]))

    assert verdict_sentence(run) == (
        "Broker 2 left and came back again and again; 3 partitions unavailable for up to 40 s. "
        "Wed 2026-11-18, 11:38:48 \u2013 11:39:29 UTC (40.7 s), over. "
        "Whether records were lost cannot be told from these logs. "
        "Confidence in what happened: confirmed."
    )


def test_no_loss_is_seen_where_all_was_read(unclean: Path) -> None:
    """Whole files without an unclean election: none seen."""
    save(unclean, "files", [file("broker-1", "server")])
    run = saved(unclean, finding("F-1", "flapping-broker", "high", brokers=[2]))

    assert " No data loss found. Confidence in what happened: confirmed." in verdict_sentence(run)


def test_a_clear_day_says_what_it_rests_on(quiet: Path) -> None:
    """Nothing found is said with the window and the share of lines understood."""
    assert verdict_sentence(load_run(quiet)) == (
        "No incident in these logs between 2026-11-18 11:37:40 and "
        "2026-11-18 11:40:10 UTC; 99.4 % of 4,000 lines understood."
    )


@pytest.mark.parametrize(
    ("verdict", "fatal", "says"),
    [
        ("clear", 0, ("No incident that rules know in these logs, but 3 error messages of broker 2 "
         "that no rule reads")),
        ("cannot_tell", 1, ("Cannot tell: no incident that rules know, but 3 error messages of "
         "broker 2 that no rule reads, some at FATAL")),
    ],
)  # fmt: skip
def test_errors_that_no_rule_reads_are_said(
    quiet: Path, verdict: str, fatal: int, says: str
) -> None:
    """Nobody calls a day clear over errors that are not understood."""
    measures = {"node": "broker-2", "errors": 3, "fatal": fatal}
    run = saved(quiet, finding("F-1", "unread-errors", "low", measures=measures), verdict=verdict)

    assert headline(run) == says


def test_too_little_coverage_is_not_a_clear_day(unclean: Path) -> None:
    """The sentence says that silence proves nothing here."""
    says = verdict_sentence(saved(unclean, verdict="cannot_tell"))

    assert says.startswith("Cannot tell: no incident found, but the logs cover too little to ")
    assert says.endswith(" rule one out (1 file damaged); 95 % of 4,000 lines understood.")


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

        said = "11:38:48 UTC; not over when the logs end at 11:40:10 (1 min 21 s later)"
        assert said in verdict_sentence(run)


def test_what_ends_with_the_logs_of_its_clients_is_not_called_over(unclean: Path) -> None:
    """Errors end where logs end; only a log that goes on without one tells that it is over."""
    found = [finding(f"F-{name}", "record-too-large", "medium", clients=[f"{name}#producer-1"])
             for name in ("app-a", "app-b")]  # fmt: skip
    run = saved(unclean, *found)
    untold = "(40.7 s); whether it is over cannot be told: the logs of app-a end at 11:39:34, too"

    save(unclean, "files", [file("app-a", "client", role="client", last_ts=at(BACK + 5_000)),
                            file("app-b", "client", role="client")])  # fmt: skip
    assert untold in verdict_sentence(load_run(unclean))
    span = incident_span(load_run(unclean))
    assert span is not None
    assert span.is_over is None

    save(unclean, "files", [file(name, "client", role="client") for name in ("app-a", "app-b")])
    assert "11:39:29 UTC (40.7 s), over. " in verdict_sentence(load_run(run.folder))


def test_errors_at_long_intervals_need_a_longer_quiet(unclean: Path) -> None:
    """Three errors in 40 s are 20 s apart: 40 s without one tell that it is over."""
    for often, quiet, is_over in ((3, 39_000, None), (3, 42_000, True), (30, 31_000, True)):
        one = finding("F-1", "record-too-large", "medium", clients=["app-a"],
                      measures={"records": often})  # fmt: skip
        run = saved(unclean, one)
        save(unclean, "files", [file("app-a", "client", role="client", last_ts=at(BACK + quiet))])

        span = incident_span(load_run(run.folder))
        assert span is not None
        assert span.is_over == is_over


def test_a_client_without_a_name_is_compared_with_who_told_of_it(unclean: Path) -> None:
    """The last line of all logs may be that of a clock far ahead."""
    told = file("broker-1", "server", last_ts=at(BACK + 5_000))
    ahead = file("app-b", "client", role="client", last_ts=at(BACK + 3_600_000))
    lines = [{"file": told["file"], "line": 7, "text": "refused"}]
    run = saved(unclean, finding("F-1", "authentication-failures", "medium", evidence=lines))
    save(unclean, "files", [told, ahead])

    assert "is over cannot be told: the logs of broker-1 end at" in verdict_sentence(
        load_run(run.folder)
    )


def test_what_a_client_never_came_back_from_is_not_called_over(unclean: Path) -> None:
    """Its own verdict says so; brokers that came back later do not end it."""
    measures = {"verdict": "stuck"}
    stuck = finding("F-1", "stale-metadata", "medium", clients=["app-a"], measures=measures)
    settled = stuck | {"measures": {"verdict": "sustained"}}
    save(unclean, "files", [file("app-a", "client", role="client", last_ts=at(BACK + 5_000))])

    said = verdict_sentence(saved(unclean, stuck, crash("F-2", 2, 110_000)))
    assert "whether it is over cannot be told: the logs of app-a end at 11:39:34" in said
    assert ", over. " in verdict_sentence(saved(unclean, settled, crash("F-2", 2, 110_000)))


def test_one_member_that_stays_tells_that_its_group_is_quiet(unclean: Path) -> None:
    """Members come and go in a storm: a log that ends is no sign of its end or of its going on."""
    storm = finding("F-1", "rebalance-storm", "medium", clients=["app-a", "app-b"])
    run = saved(unclean, storm)
    gone = file("app-a", "client", role="client", last_ts=at(BACK))
    for last, says in ((END, ", over. "), (BACK + 1_000, "the logs of app-a, app-b end by ")):
        save(unclean, "files", [gone, file("app-b", "client", role="client", last_ts=at(last))])

        assert says in verdict_sentence(load_run(run.folder))


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

    assert verdict_sentence(load_run(quiet)).endswith("; 1 check run, 1 could not run.")


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
        ("missing", "broker", UNTOLD),
        ("rotated", "controller", UNTOLD),
        ("hidden", "broker", UNTOLD),
        ("silent", "broker", NONE),
        ("missing", "client", NONE),
    ],
)
def test_no_loss_is_seen_only_where_one_would_have_been(
    unclean: Path, state: str, role: str, says: str
) -> None:
    """A broker whose log is not here may have lost anything."""
    save(unclean, "files", [file("broker-1", "server")])
    save(unclean, "coverage", [{"node": "broker-4", "role": role, "state": state}])
    run = saved(unclean, finding("F-1", "flapping-broker", "high", brokers=[2]))

    assert f" {says} " in verdict_sentence(run)


def test_no_loss_is_seen_only_where_somebody_looked(unclean: Path, rewrite: Rewrite) -> None:
    save(unclean, "files", [file("broker-1", "server")])
    saved(unclean, finding("F-1", "flapping-broker", "high", brokers=[2]))
    for status, says in (("quiet", NONE), ("not_evaluable", UNTOLD)):
        rewrite(unclean, {"detectors": [{"detector": "unclean-election", "status": status}]})

        assert f" {says} " in verdict_sentence(load_run(unclean))


@pytest.mark.parametrize(
    ("kind", "says"), [("crash", "Broker 2 crashed; "), ("unknown", "Broker 2 went away; ")]
)
def test_a_broker_that_died_was_not_just_restarted(unclean: Path, kind: str, says: str) -> None:
    one = finding("F-1", "broker-restart", "medium", brokers=[2], measures={"kind": kind},
                  title="Broker 2 crashed")  # fmt: skip

    assert headline(saved(unclean, one)).startswith(says)


def test_the_title_of_a_tab_tells_six_of_them_apart(unclean: Path, quiet: Path) -> None:
    cluster = "cluster MkU3"

    assert page_title(saved(unclean, election(lost(0, 1, 845))), cluster) == (
        "845 records lost in metrics-firehose after an unclean leader election \u00b7 2026-11-18 "
        "\u00b7 cluster MkU3"
    )
    assert page_title(load_run(quiet), "") == "No incident in these logs \u00b7 2026-11-18"


def test_incidents_hours_apart_are_not_one_interval(unclean: Path, rewrite: Rewrite) -> None:
    """The interval is that of the incident that the headline is about; the other is named."""
    early, late = crash("F-1", 1, 0), crash("F-2", 2, 4 * 3_600_000, severity="high")
    saved(unclean, early, late)
    rewrite(unclean, {"window": {"from": iso(0), "to": iso(6 * 3_600_000)}})
    span = incident_span(load_run(unclean))

    assert span is not None
    assert [one.id for one in span.findings] == ["F-2"]
    assert describe_others(span) == "1 more incident in these logs, at 11:37:40"


@pytest.mark.parametrize(
    ("ended", "after", "known"),
    [
        (60_000, None, OpenEnds(1)), (60_000, 95_000, OpenEnds(0, 1, 35_000)),
        # The next leader could serve at last.
        (95_000, None, OpenEnds(0)),
    ],
)  # fmt: skip
def test_an_outage_without_an_end_is_bounded_by_its_next_leader(
    ended: int, after: int | None, known: OpenEnds, unclean: Path
) -> None:
    lost = [one | {"ended": "unknown"} for one in reign("t", 0, (4, -1, 60_000, 60_000))]
    save(unclean, "leadership", lost)
    row = {"topic": "t", "partition": 0, "started_at": at(50_000), "ended_at": at(ended),
           "ended_after": None if after is None else at(after), "why": "leader_dead",
           "planned": False, "evidence": []}  # fmt: skip
    save(unclean, "outages", [row])

    assert outages_without_end(saved(unclean, crash("F-1", 2, 50_000))) == known


def test_a_number_that_is_a_lower_bound_says_so(unclean: Path, rewrite: Rewrite) -> None:
    """No line says who led five more: whether they were unavailable is not known."""
    run = saved(unclean, crash("F-1", 2, 50_000), crash("F-2", 3, 51_000))
    gap = {"partitions": 5, "names": ["t-1", "t-2"], "leaders": [2],
           "from": iso(50_000), "to": iso(90_000)}  # fmt: skip
    impact = {"partitions_unavailable": 10, "longest_s": 33.5, "unknown_leaders": gap}
    rewrite(unclean, {"impact": run.document["impact"] | impact})
    told = load_run(unclean)

    assert "; at least 10 partitions unavailable for up to 33.5 s" in headline(told)
    assert any(line.text.startswith("At least 10 of ") for line in list_impact(told))
    [line] = [one.text for one in list_unknown(told) if "who led" in one.text]
    assert line.startswith("Whether 5 more partitions were unavailable: broker 2 led them")

    rewrite(unclean, {"impact": run.document["impact"] | impact | {"partitions_unavailable": 0}})
    told = load_run(unclean)
    assert "5 partitions may have been unavailable" in headline(told)
    assert not any("No partition" in line.text for line in list_impact(told))


def test_clients_that_ended_keep_the_incident_open(unclean: Path) -> None:
    ended = [
        finding(
            f"F-{number}",
            "client-ended",
            "medium",
            clients=[name],
            **{"from": iso(50_000 + number), "to": iso(END)},
        )
        for number, name in ((2, "app-a"), (3, "app-b"))
    ]
    run = saved(unclean, crash("F-1", 2, 50_000), *ended)

    assert "app-a, app-b closed with an error and were not started again" in headline(run)
    assert ": app-a, app-b are not running again" in verdict_sentence(run)
