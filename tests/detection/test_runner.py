"""Every detector's answer is kept: fired, quiet, or that it cannot tell; and what was accepted."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from forensics.detection import runner
from forensics.detection.context import DetectionContext
from forensics.detection.detectors import detectors
from forensics.detection.requirements import BROKERS, CLIENTS, LogRequirements, Visibility
from forensics.detection.runner import Detector, run_detectors
from forensics.detection.thresholds import find_expired_suppressions, load_limits
from forensics.errors import RuleError
from forensics.lib.second_process import open_second_process
from forensics.lib.yaml_with_lines import FileText
from forensics.run_output.findings import Finding
from forensics.run_output.reader import Tables
from tests.detection.cases import SECOND, case, event, logs, row

NAME = "flapping-broker"
DAY = datetime(2026, 11, 18, 12, tzinfo=UTC)
PLACE = {"file": "broker-1/server.log", "line": 7, "text": "x", "at": 5}


def finding(**about: Any) -> Finding:
    begin = int(DAY.timestamp()) * SECOND
    return Finding(NAME, "high", "confirmed", "It flaps", begin, begin, [PLACE], **about)


def asked(one: DetectionContext, *found: Finding, needs: LogRequirements = BROKERS) -> Any:
    return run_detectors(one, [Detector(NAME, lambda _: iter(found), needs, "about")])


def accepting(one: DetectionContext, **what: Any) -> DetectionContext:
    told = {"reason": "known", "until": "2026-11-18", **what}
    return replace(one, limits={**one.limits, NAME: {**one.limits[NAME], "suppress": [told]}})


@pytest.mark.parametrize(
    ("what", "shown"),
    [
        ({"brokers": [2]}, 0),
        ({"brokers": [2, 3]}, 0),
        ({"brokers": [3]}, 1),
        ({"topics": ["orders*"]}, 0),
        ({"topics": ["order"]}, 1),
        ({"partitions": ["orders-1"], "brokers": [2]}, 0),
        # only a part of what the finding is about was accepted
        ({"partitions": ["orders-2"]}, 1),
        # it is about no client at all
        ({"clients": ["*"]}, 1),
        ({"brokers": [2], "until": "2026-11-17"}, 1),
    ],
)
def test_what_was_accepted_is_counted_and_not_shown(
    what: Mapping[str, Any], shown: int, tmp_path: Path
) -> None:
    one = accepting(case(tmp_path), **what)

    answers = asked(one, finding(brokers=[2], partitions=["orders-1"]))

    assert shown == len(answers.findings)
    assert 1 - shown == len(answers.suppressed) == answers.outcomes[0].suppressed
    assert "fired" == answers.outcomes[0].status
    for gone in answers.suppressed:
        assert ("known", "It flaps") == (gone.reason, gone.document()["title"])


def test_what_is_suppressed_for_too_long_is_a_problem() -> None:
    text = f"{NAME}:\n  suppress:\n    - {{brokers: [2], reason: x, until: 2026-11-17}}\n"
    page = FileText("mine/limits.yaml", text.encode())

    assert [] == list(find_expired_suppressions([page], date(2026, 11, 17)))
    (problem,) = find_expired_suppressions([page], date(2026, 11, 18))
    assert "mine/limits.yaml:3: flapping-broker: suppressed until 2026-11-17, which is over" == str(
        problem
    )


def test_limits_of_packs_lie_over_the_shipped_ones() -> None:
    page = FileText("limits.yaml", b"flapping-broker: {cycles: 5}")

    assert 5 == load_limits([page])[NAME]["cycles"]
    assert load_limits()[NAME]["window"] == load_limits([page])[NAME]["window"]
    with pytest.raises(RuleError):
        load_limits([FileText("limits.yaml", b"flapping-broker: {cycles: -1}")])


@pytest.mark.parametrize(
    ("needs", "reason"),
    [
        (CLIENTS, "there is no clients' log in the archive"),
        (
            LogRequirements(("broker",), ("controller",)),
            "there is no brokers' log (controller.log) in the a",
        ),
        (LogRequirements(("broker",), ("server",)), None),
        (
            LogRequirements(("broker",), (), ("gc_pause", "long_gc")),
            "no line mentions gc pause or long gc",
        ),
        (LogRequirements(("broker",), (), ("gc_pause", "node_seen")), None),
    ],
)
def test_silence_without_the_logs_that_would_tell_is_no_answer(
    needs: LogRequirements, reason: str | None, tmp_path: Path
) -> None:
    file = logs("broker-1", 100, role="broker", records=9)
    one = case(tmp_path, files=[file], events=[event(1, "broker-1", "node_seen")])

    outcome = asked(one, needs=needs).outcomes[0]

    if reason is None:
        assert ("quiet", []) == (outcome.status, list(outcome.reasons))
    else:
        assert "not_evaluable" == outcome.status
        assert outcome.reasons[0].startswith(reason)


def hole(node: str, begin: int, end: int, **more: Any) -> dict[str, Any]:
    plain = {"role": "broker", "state": "missing", "why": "2 rotated files missing", **more}
    return row("coverage", node=node, started_at=begin * SECOND, ended_at=end * SECOND, **plain)


def test_a_quiet_detector_names_what_it_did_not_see(tmp_path: Path) -> None:
    holes = [
        hole("broker-1", 60, 3660, log="server"),
        hole("controller-1", 1, 2, role="controller"),
    ]
    file = logs("broker-1", 9000, role="broker", records=9)
    one = case(tmp_path, files=[file], coverage=holes)

    outcome = asked(one).outcomes[0]

    assert "quiet" == outcome.status
    assert ["broker-1's server.log 00:01:00 to 01:01:00: 2 rotated files missing"] == list(
        outcome.reasons
    )
    assert ["broker-1"] == [
        one["node"] for one in Visibility(Tables(tmp_path)).gaps(50 * SECOND, 99 * SECOND)
    ]
    assert [] == list(Visibility(Tables(tmp_path)).gaps(3661 * SECOND, 3662 * SECOND))
    assert [] == list(Visibility(Tables(tmp_path)).gaps(0, 9 * SECOND, ["broker-2"]))


def test_only_some_of_many_holes_are_named(tmp_path: Path) -> None:
    file = logs("broker-1", 9000, role="broker", records=9)
    holes = [hole("broker-1", at, at + 1) for at in range(8)]

    outcome = asked(case(tmp_path, files=[file], coverage=holes)).outcomes[0]

    assert (6, "and 3 more") == (len(outcome.reasons), outcome.reasons[-1])


def told(*nodes: str) -> list[dict[str, Any]]:
    return [{"file": f"{node}/server.log", "line": 1, "text": "x", "rule": None} for node in nodes]


@pytest.mark.parametrize(
    ("nodes", "stated", "holes", "word", "because"),
    [
        (("broker-1",), True, (), "confirmed", "Stated in the log of one node"),
        (("broker-1", "broker-2"), False, (), "likely", "Inferred from the logs of 2 nodes"),
        (("broker-1",), False, (), "possible", "Inferred from the log of one node"),
        (("broker-1",), True, ("broker-1",), "likely", "the logs of broker-1 have a hole then"),
        (("broker-1",), True, ("broker-2",), "confirmed", "Stated in the log of one node"),
        (("broker-1",), False, ("broker-1",), "possible", "have a hole then"),
    ],
)
def test_how_sure_a_finding_is_follows_rules(  # noqa: PLR0917
    nodes: tuple[str, ...], stated: bool, holes: tuple[str, ...], word: str, because: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    files = [logs(node, 9000, role="broker", records=9) for node in ("broker-1", "broker-2")]
    one = case(tmp_path, files=files, coverage=[hole(node, 50, 60) for node in holes])

    said, reason = one.confidence(40 * SECOND, 55 * SECOND, told(*nodes), stated=stated)

    assert word == said
    assert because in reason


def test_an_order_that_unknown_clocks_cannot_tell_takes_a_step_away(tmp_path: Path) -> None:
    files = [logs(node, 9000, role="broker", records=9) for node in ("broker-1", "broker-2")]
    one = case(tmp_path, files=files)

    said, reason = one.confidence(0, 9, told("broker-1", "broker-2"), stated=True, apart=5000)

    assert "likely" == said
    assert "5 ms, and the clocks are not known" in reason
    own, _ = one.confidence(0, 9, told("broker-1"), stated=True, apart=5000)
    assert "confirmed" == own


def test_detectors_are_found_by_being_there() -> None:
    found = [one.name for one in detectors()]

    assert {"flapping-broker", "stale-metadata", "unclean-election"} <= set(found)
    assert len(found) == len(set(found))


def test_a_shipped_detector_that_fails_is_not_hidden(tmp_path: Path) -> None:
    def fails(_: DetectionContext) -> Iterator[Finding]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_detectors(case(tmp_path), [Detector(NAME, fails)])


def test_two_processes_ask_the_shipped_detectors_and_this_one_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_MANY_EVENTS", 0)
    one, asked_in = case(tmp_path), list[int]()

    def find(_: DetectionContext) -> Iterator[Finding]:
        asked_in.append(os.getpid())
        yield finding()

    def fails(_: DetectionContext) -> Iterator[Finding]:
        raise ZeroDivisionError("by nothing")

    others = [
        Detector("their-own", find, is_third_party=True),
        Detector("unfit", fails, is_third_party=True),
    ]
    alone = run_detectors(one, [*detectors(), *others])
    with open_second_process() as second:
        both = run_detectors(one, [*detectors(), *others], second)
        assert second.is_there or second.pid is None

    assert [os.getpid()] * 2 == asked_in
    assert replace(alone, seconds={}) == replace(both, seconds={})
    assert {"failed"} == {one.status for one in both.outcomes if one.detector == "unfit"}
    assert list(alone.seconds) == list(both.seconds)


def test_a_shipped_detector_that_fails_in_the_second_process_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_MANY_EVENTS", 0)
    # What a partial lacks is an error wherever it is called.
    fails: Any = partial(int, base=10)
    unfit = [Detector(f"{NAME}-{number}", fails) for number in range(2)]

    with open_second_process() as second, pytest.raises(TypeError, match="explicit base"):
        run_detectors(case(tmp_path), unfit, second)
