"""Times that have no date, or no year, are placed by what lies around their file."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from forensics.events.file_accounts import FileAccount
from forensics.events.undated_times import place_undated, settle_midnights
from forensics.lib.time_units import DAY, SECOND, to_datetime
from tests.ingest.sample_archives import write
from tests.ingest.whole_runs import Run, read
from tests.ingest.written_logs import PLAIN, Record, records_as

MIDNIGHT = int(datetime(1976, 1, 1, tzinfo=UTC).timestamp()) * SECOND
NO_DATE, NO_YEAR = "%H:%M:%S,%L", "%b %d %H:%M:%S,%L"


def written(form: str, name: str) -> Mapping[str, bytes]:
    """Write one of the logs with another form of time, and the others as they are."""

    def render(one: Record) -> str:
        return f"[{one.at(form)}] {one.level} {one.message} ({one.logger}){one.trace}"

    return {**PLAIN, name: records_as(render)[name]}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return read(write(tmp_path_factory.mktemp("plain") / "logs", PLAIN))


@pytest.mark.parametrize("name", ["broker-2/server.log", "controller-1/controller.log"])
@pytest.mark.parametrize("form", [NO_DATE, NO_YEAR])
def test_a_log_without_dates_is_placed_by_those_of_other_nodes(
    form: str, name: str, plain: Run, tmp_path: Path
) -> None:
    found = read(write(tmp_path / "logs", written(form, name)))

    assert found.facts() == plain.facts()
    what = "date" if form == NO_DATE else "year"
    assert any(f"{name}: its times have no {what}; it begins in 2026" in one for one in found.said)
    assert found.notes() == []


@pytest.mark.parametrize("form", [NO_DATE, NO_YEAR])
def test_where_nothing_tells_a_date_events_have_no_time_and_the_file_says_why(
    form: str, plain: Run, tmp_path: Path
) -> None:
    name = "broker-2/server.log"
    found = read(write(tmp_path / "logs", {name: written(form, name)[name]}))

    own = [row for row in plain.rows if row["file"].endswith(name)]
    assert found.facts(dated=False) == Run(own, [], []).facts(dated=False)
    assert all(row["ts"] is None for row in found.rows)
    (file,) = found.files
    assert (file["first_ts"], file["last_ts"]) == (None, None)
    assert "put the day into the file's name, such as server.log.2026-11-18" in file["damaged"]


def test_a_log_that_fits_on_several_days_is_placed_on_none(tmp_path: Path) -> None:
    """The other log goes on for days."""
    name, long = "broker-2/server.log", "broker-1/server.log"
    tree = dict(written(NO_DATE, name))
    for day in (b"-17", b"-19"):
        tree[long] += PLAIN[long].replace(b"[2026-11-18", b"[2026-11" + day)
    tree[long] = b"".join(sorted(tree[long].splitlines(keepends=True)))
    found = read(write(tmp_path / "logs", {key: tree[key] for key in (name, long)}))

    file = next(one for one in found.files if one["file"].endswith(name))
    assert "they fit on 2 days of the logs there" in file["damaged"]
    assert all(row["ts"] is None for row in found.rows if row["file"] == file["file"])


def test_a_start_tells_the_day_where_the_log_holds_it(tmp_path: Path) -> None:
    start = "[{}] INFO Kafka startTimeMs: {} (org.apache.kafka.common.utils.AppInfoParser)\n"
    more = "".join(
        f"[11:{minute}:00,000] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)\n"
        for minute in range(31, 59)
    )
    # 18 November, 11:30 in UTC
    log = start.format("11:30:00,000", 1_795_001_400_000) + more
    found = read(write(tmp_path / "logs", {"server.log": log.encode()}))

    assert {row["ts"].strftime("%F") for row in found.rows if row["ts"]} == {"2026-11-18"}
    assert "its lines that tell the time since 1970" in " ".join(found.said)


def account(name: str, first: str, last: str) -> FileAccount:
    """Return the account of a log that reaches from one moment to another."""
    moments = [datetime.fromisoformat(one).replace(tzinfo=UTC) for one in (first, last)]
    one = FileAccount(name)
    one.first, one.last = (round(moment.timestamp()) * SECOND for moment in moments)
    one.layouts["record"] = one.counts["records"] = one.counts["lines"] = 10
    if one.first < 300_000_000 * SECOND:
        one.forms["%d{dd:dd:dd} %p %m" if moments[0].month == 1 else "%d{MMM dd} %m"] = 10
    return one


def day_of(one: FileAccount) -> str | None:
    return None if one.first is None else to_datetime(one.first).strftime("%F %H")


def test_a_part_of_a_log_follows_the_others_of_it() -> None:
    """The part of yesterday covers these hours, so they are those of today."""
    yesterday = account("a/server.log.2026-11-17", "2026-11-17 00:00", "2026-11-17 23:59")
    today = account("a/server.log", "1976-01-01 00:01", "1976-01-01 10:00")

    (placed,) = place_undated([today, yesterday])

    assert day_of(today) == "2026-11-18 00"
    assert "which is a part of the same log" in str(placed)


def test_logs_of_the_same_folder_go_before_those_of_others() -> None:
    long = account("b/server.log", "2026-11-10 00:00", "2026-11-20 00:00")
    beside = account("a/controller.log", "2026-11-18 09:00", "2026-11-18 12:00")
    log = account("a/server.log", "1976-01-01 08:00", "1976-01-01 11:00")

    place_undated([log, beside, long])

    assert day_of(log) == "2026-11-18 08"


@pytest.mark.parametrize(("year", "day"), [(2027, "2027-03-01 00"), (2028, "2028-03-01 00")])
def test_the_last_of_february_is_that_of_the_year(year: int, day: str) -> None:
    other = account("b/server.log", f"{year}-02-27 00:00", f"{year}-03-02 00:00")
    log = account("a/server.log", "1976-02-28 00:00", "1976-03-01 00:00")

    place_undated([log, other])

    assert log.last is not None
    assert to_datetime(log.last).strftime("%F %H") == day


def test_a_year_ends_in_the_middle_of_a_log() -> None:
    other = account("b/server.log", "2026-12-30 00:00", "2027-01-03 00:00")
    log = account("a/server.log", "1976-12-31 00:00", "1976-01-02 00:00")
    log.forms.clear()
    before, behind = (
        round(datetime.fromisoformat(one).replace(tzinfo=UTC).timestamp()) * SECOND
        for one in ("1976-12-31 23:59", "1976-01-01 00:01")
    )
    log.cuts, log.stretches = [(5, before, behind, 5, 0, 0)], [log.writers, log.writers]

    settle_midnights([log])
    place_undated([log, other])

    assert log.span is not None
    assert [to_datetime(one).strftime("%F") for one in log.span] == ["2026-12-31", "2027-01-02"]
    assert log.cuts == []


def test_lines_without_a_date_among_others_have_no_time() -> None:
    log = account("a/server.log", "1976-01-01 08:00", "2026-11-18 11:00")
    log.gaps = [(log.first or 0, log.last or 0, 5)]

    assert place_undated([log]) == []

    assert (day_of(log), log.gaps) == ("2026-11-18 11", [])
    assert "some of its times have no date" in log.notes[0]


def test_many_logs_without_dates_are_placed_in_little_time() -> None:
    """Each is compared with all others: in pure Python these took 6 seconds."""
    day, files = 20_000 * DAY, []
    for number in range(1_500):
        dated = FileAccount(f"logs/d{number}/server.log")
        dated.first, dated.last = day + number * SECOND, day + (3600 + number) * SECOND
        undated = FileAccount(f"logs/u{number}/server.log")
        undated.first, undated.last = MIDNIGHT, MIDNIGHT + 600 * SECOND
        undated.forms, undated.layouts = Counter({"%d{dd:dd:dd}": 9}), Counter({"found": 9})
        files += [dated, undated]
    for file in files:
        file.counts["records"] = 9
    begun = time.process_time()

    placed = place_undated(files)

    assert time.process_time() - begun < 3
    assert len(placed) == 1_500
    assert {one.begins // DAY for one in placed} == {20_000}
