"""Clocks that change to or from summer time while a log is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from forensics.events.file_accounts import FileAccount
from forensics.events.undated_times import settle_midnights
from forensics.events.zone_changes import settle_zone_changes
from forensics.lib.time_units import HOUR, MINUTE, SECOND
from forensics.sandbox import run_lines

LINE = "[{}] INFO [KafkaServer id={}] started (kafka.server.KafkaServer)\n"
BACK, FORWARD = "2026-10-25", "2026-03-29"


def at(text: str) -> int:
    """Return a moment in microseconds."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


def log(
    name: str, begin: str, end: str, servers: Sequence[str] = ("1",), *, lines: int = 10
) -> FileAccount:
    """Return the account of a log whose time goes from one moment to another, in its middle."""
    one = FileAccount(name)
    one.counts.update(lines=2 * lines, records=2 * lines)
    low, high = at(begin), at(end)
    one.first, one.last = low - MINUTE, high + MINUTE
    named = [Counter({f"broker:{server}": 5}) for server in servers]
    one.writers = sum(named, Counter[str]())
    if high < low:
        one.cuts = [(lines + 1, low, high, lines, 0, 0)]
        one.stretches = [named[0], named[-1]]
        one.steps, one.stepped = [(low, high, lines + 1)], 1
    else:
        one.gaps = [(low, high, lines + 1)]
    return one


def test_times_go_on_where_a_zone_of_the_world_changes() -> None:
    one = log("a/server.log", f"{BACK} 02:59:58", f"{BACK} 02:00:03")

    (change,) = settle_zone_changes([one])

    assert change.by == -HOUR
    assert (one.cuts, one.steps, one.stepped, len(one.stretches)) == ([], [], 0, 1)
    assert one.last == at(f"{BACK} 03:01:03")


def test_the_same_on_another_day_is_proved_by_a_second_broker() -> None:
    times = "2026-11-18 11:41:54", "2026-11-18 10:41:56"
    one, other = log("a/server.log", *times), log("b/server.log", *times, ["2"])

    assert settle_zone_changes([log("a/server.log", *times)]) == []
    assert len(settle_zone_changes([one, other])) == 1
    assert one.last == other.last == at("2026-11-18 11:42:56")


def test_two_logs_of_one_broker_prove_nothing() -> None:
    times = "2026-11-18 11:41:54", "2026-11-18 10:41:56"
    quiet = log("a/log-cleaner.log", *times)
    quiet.writers.clear()

    assert settle_zone_changes([log("a/server.log", *times), quiet]) == []


@pytest.mark.parametrize("why", ["other servers write behind it", "epochs fall, too"])
def test_a_log_that_was_put_behind_another_is_left_alone(why: str) -> None:
    times = f"{BACK} 02:59:58", f"{BACK} 02:00:03"
    one = log("all.log", *times, ["1", "2"] if "servers" in why else ["1"])
    one.fallen = int("epochs" in why)

    assert settle_zone_changes([one]) == []
    assert len(one.cuts) == 1


@pytest.mark.parametrize(("offset", "found"), [(-60, 1), (0, 0)])
def test_starts_tell_whether_it_was_the_zone(offset: int, found: int) -> None:
    one = log("a/server.log", "2026-11-18 11:41:54", "2026-11-18 10:41:56")
    before, behind = at("2026-11-18 11:41:00"), at("2026-11-18 10:43:00")
    one.clocks = [
        (3, before, before // 1000), (15, behind, (behind - offset * MINUTE) // 1000),
    ]  # fmt: skip

    assert len(settle_zone_changes([one])) == found


def test_a_missing_hour_is_none_if_another_log_of_the_broker_has_lines_in_it() -> None:
    times = f"{FORWARD} 01:59:50", f"{FORWARD} 03:00:10"
    busy = log("a/controller.log", *times)
    busy.gaps = []

    assert settle_zone_changes([log("a/server.log", *times), busy]) == []
    (change,) = settle_zone_changes([one := log("a/server.log", *times)])
    assert (change.by, one.gaps) == (HOUR, [(at(times[0]), at(f"{FORWARD} 02:00:10"), 11)])


@pytest.mark.parametrize(
    "why", ["an odd rest", "a start behind it", "another broker logs", "a gap by UTC"]
)
def test_an_hour_without_a_line_that_may_be_an_outage_is_said_to_be_either(why: str) -> None:
    odd = why in {"an odd rest", "a gap by UTC"}
    times = f"{FORWARD} 01:59:50", f"{FORWARD} {'03:03:10' if odd else '03:00:10'}"
    one = log("a/server.log", *times)
    others = []
    if why == "a start behind it":
        one.clocks = [(12, one.gaps[0][1] + SECOND, 1774746012000)]
    elif why == "another broker logs":
        others = [log("b/server.log", f"{FORWARD} 00:59:50", f"{FORWARD} 02:20:00", ["2"])]
    elif why == "a gap by UTC":
        others = [_collections(f"{FORWARD} 00:59:00", f"{FORWARD} 02:03:00")]
    before = one.first, one.last, list(one.gaps)

    (change,) = settle_zone_changes([one, *others])

    assert (one.first, one.last, one.gaps) == before
    assert str(change).startswith("cannot tell whether clocks went forward by 60 min at 2026-03-29")
    assert one.notes == [str(change)]


def _collections(*times: str) -> FileAccount:
    """A log of garbage collections, by times with their offset, with a gap between two of them."""
    gc = FileAccount("a/gc.log", first=at("2026-03-28 00:00:00"), last=at(f"{FORWARD} 09:00:00"))
    gc.zoned, gc.layouts["gc"] = 900, 900
    gc.gaps = [(at(times[0]), at(times[1]), 400)] if times else []
    return gc


def test_collections_that_go_on_by_utc_prove_that_the_zone_changed() -> None:
    one = log("a/server.log", f"{FORWARD} 01:59:50", f"{FORWARD} 03:03:10")

    (change,) = settle_zone_changes([one, _collections()])

    assert (change.is_proved, change.by, one.notes) == (True, HOUR, [])
    assert one.gaps == [(at(f"{FORWARD} 01:59:50"), at(f"{FORWARD} 02:03:10"), 11)]


@pytest.mark.parametrize("times", [("00:30:00", "01:30:30"), ("02:00:05", "03:00:05")])
def test_an_hour_of_silence_at_another_time_of_that_day_stays_one(times: tuple[str, str]) -> None:
    one = log("a/server.log", *(f"{FORWARD} {time}" for time in times))

    assert settle_zone_changes([one]) == []


def test_logs_with_an_offset_of_their_own_are_left_alone() -> None:
    one = log("a/server.log", f"{BACK} 02:59:58", f"{BACK} 02:00:03")
    one.zoned = 20

    assert settle_zone_changes([one]) == []


def test_events_are_told_by_one_offset_and_doubtful_ones_without_a_time(tmp_path: Path) -> None:
    busy = ["02:58:00", "02:59:58", "02:00:03", "02:59:00", "03:00:00"]
    quiet = ["01:00:00", "02:30:00", "03:30:00"]
    logs = {
        name: "".join(LINE.format(f"{BACK} {time},000", 1) for time in times)
        for name, times in (("a/server.log", busy), ("a/other.log", quiet))
    }

    run = run_lines(logs, tmp_path)

    rows = run.tables.read("events", ["file", "line", "ts"]).to_pylist()
    told: dict[str, list[str | None]] = {"server.log": [], "other.log": []}
    for row in sorted(rows, key=lambda row: (row["file"], row["line"])):
        time = row["ts"] and row["ts"].strftime("%H:%M:%S")
        told[row["file"].rpartition("/")[2]].append(time)
    assert told["server.log"] == ["02:58:00", "02:59:58", "03:00:03", "03:59:00", "04:00:00"]
    assert told["other.log"] == ["01:00:00", None, "04:30:00"]
    notes = [note for file in run.files.values() for note in file.notes]
    assert len(notes) == 1
    assert "02:00:03 to 2026-10-25 02:59:58" in notes[0]


CLOCK = "{} INFO [KafkaServer id=1] started (kafka.server.KafkaServer)\n"


def test_times_without_a_date_go_on_behind_midnight(tmp_path: Path) -> None:
    times = [f"{hour % 24:02}:{minute:02}:{minute:02},000"
             for hour in range(20, 50) for minute in range(0, 60, 6)]  # fmt: skip
    log = "".join(map(CLOCK.format, times))

    run = run_lines({"a/server.log.2026-11-18": log}, tmp_path)

    rows = run.tables.read("events", ["line", "ts"]).to_pylist()
    told = [row["ts"] for row in sorted(rows, key=lambda row: row["line"])]
    assert told == sorted(told)
    assert (told[0].day, told[41].day, told[-1].day) == (18, 19, 20)


def test_where_lines_are_out_of_order_at_midnight_days_are_said_to_be_unsure() -> None:
    one = log("a/server.log.2026-11-18", "2026-11-18 23:59:59", "2026-11-18 00:00:00")
    one.forms, one.layouts = Counter({"%d{dd:dd:dd} %p %m": 20}), Counter({"record": 20})
    one.gaps = [(at("2026-11-18 00:00:00"), at("2026-11-18 23:59:59"), 9)]

    settle_midnights([one])

    assert one.shifts == []
    assert "days may be off" in one.notes[0]


def test_a_server_that_is_named_without_its_role_is_what_other_lines_say(tmp_path: Path) -> None:
    said = "Kafka Server started (kafka.server.KafkaRaftServer)\n"
    raft = "[{}] INFO [KafkaRaftServer nodeId={}] " + said
    logs = {"broker-2/server.log": LINE.format("2026-11-18 11:00:00,000", 2),
            "broker-1/part.log": raft.format("2026-11-18 11:00:01,000", 2),
            "broker-3/part.log": raft.format("2026-11-18 11:00:01,000", 7)}  # fmt: skip

    files = run_lines(logs, tmp_path).files

    nodes = {name.partition("/")[2]: file.node for name, file in files.items()}
    assert nodes["broker-1/part.log"] == "broker-2"
    assert nodes["broker-3/part.log"] == "broker-3"
