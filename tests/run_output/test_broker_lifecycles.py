"""Absences of brokers, read off the saved lanes, and what each cost the broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forensics.run_output.broker_lifecycles import (
    BrokerAbsence,
    find_broker_absences,
    read_lifecycles,
)
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import load_run
from tests.report.sample_runs import (
    at,
    document,
    isr,
    lanes,
    leadership,
    save,
    unclean_findings,
)


def test_a_broker_lost_its_leaders_as_it_left_and_got_them_back_later(tmp_path: Path) -> None:
    """Broker 1 led five partitions when it crashed; two came back by a preferred election."""
    rows = [
        row | {"previous_leader": before}
        for row, before in zip(leadership(), _previous_leaders(leadership()), strict=True)
    ]
    save(tmp_path, "leadership", rows)
    save(tmp_path, "isr", isr())
    save(tmp_path, "lanes", lanes())
    write_findings(document(unclean_findings()), tmp_path / "findings.json")
    brokers = {broker.broker: broker for broker in read_lifecycles(load_run(tmp_path))}

    assert brokers[1].absences == [
        BrokerAbsence(_ms(59_900), _ms(106_000), "crash", "", leaders=(6, 2), isrs=(3, 3))
    ]
    assert [absence.kind for absence in brokers[2].absences] == ["crash"]
    assert not brokers[3].absences


def _previous_leaders(rows: list[dict[str, Any]]) -> list[int | None]:
    last: dict[tuple[str, int], int] = {}
    before = []
    for row in rows:
        key = row["topic"], row["partition"]
        before.append(last.get(key))
        last[key] = row["leader"]
    return before


def _ms(after: int) -> int:
    moment = at(after)
    assert moment is not None
    return moment // 1000


@pytest.mark.parametrize(
    ("states", "absences"),
    [
        ("up stopping stopped starting up", [("clean shutdown", 1, 4)]),
        ("up crashed starting up", [("crash", 1, 3)]),
        # Killed while it stopped: what began in order did not end so.
        ("up stopping crashed", [("crash", 1, None)]),
        ("up fenced up crashed up", [("fenced", 1, 2), ("crash", 3, 4)]),
        ("up paused fenced up", [("pause", 1, 3)]),
        # It was asked to stop, as the detectors see it too.
        ("up fenced stopping stopped starting up", [("clean shutdown", 1, 5)]),
        # Behind a hole in the logs all may be well; it neither begins nor ends an absence.
        ("up unknown up", []),
        ("up unknown starting up", [("not known", 2, 3)]),
        ("up fenced unknown up", [("fenced", 1, 3)]),
        # A first start is no return.
        ("stopped starting up", []),
        ("unknown starting up", []),
    ],
)
def test_absences_are_read_off_the_states_of_a_lane(
    states: str, absences: list[tuple[str, int, int | None]]
) -> None:
    rows = [{"state": state, "started_at": index, "evidence": None}
            for index, state in enumerate(states.split())]  # fmt: skip

    assert [(one.kind, one.left_at, one.back_at) for one in find_broker_absences(rows)] == absences
