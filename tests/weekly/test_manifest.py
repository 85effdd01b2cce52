"""What is known of logs: by content, under the shortest name, and with nothing left out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from forensics.events.file_accounts import FileAccount
from forensics.lib.time_units import DAY
from forensics.weekly.iso_week import Week
from forensics.weekly.manifest import Container, Log, Manifest, account_json, disambiguate_names
from forensics.weekly.week_builder import clip_account

HOUR = DAY // 24
W46 = Week.parse("2026-W46")


def account(first: int | None, last: int | None, **more: object) -> FileAccount:
    found = FileAccount("logs/server.log", Counter(bytes=9, lines=2), first=first, last=last)
    for name, value in more.items():
        setattr(found, name, value)
    return found


def log(told: FileAccount, **more: object) -> Log:
    return Log("aa", frozenset([("c1", "")]), "rules", account_json(told), **more)  # type: ignore[arg-type]


def test_an_account_is_kept_whole_but_for_its_names(tmp_path: Path) -> None:
    told = account(1, 2, gaps=[(1, 2, 3)], heads={"256": "ff"}, notes=["torn"], node="broker-1",
                   falls=[("t", 0, "leader_epoch", 4, 3, 7)], fallen=1)  # fmt: skip
    known = Manifest(
        {"c1": Container("c1", "logs/a.tgz", 5)},
        {"aa": log(told, weeks=(W46,), superseded_by="bb")},
    )
    known.save(tmp_path / "containers", tmp_path / "logs")
    again = Manifest.load(tmp_path / "containers", tmp_path / "logs")

    assert known == again
    told.file, told.node = "", None
    assert told == again.logs["aa"].parsed_account


def test_the_shortest_name_is_kept_whatever_came_first() -> None:
    names = ["logs/server.log.2026-11-18-11", "logs/server.log", "z/server.log", "logs/serves.log"]
    forth = back = Container("c1", names[0], 5)
    for name in names:
        forth = forth.with_name(name)
    for name in reversed(names):
        back = back.with_name(name)

    assert "z/server.log" == forth.name == back.name


def test_two_logs_of_one_name_are_told_apart_within_a_week() -> None:
    names = dict.fromkeys(("a" * 64, "a" * 63 + "b", "c" * 64), "logs/server.log")
    found = disambiguate_names(names, sorted(names))

    assert "logs/server.log" == found["a" * 64]
    assert 3 == len(set(found.values()))


@pytest.mark.parametrize(
    ("first", "last", "gaps", "weeks"),
    [
        (W46.begin, W46.end - 1, [], [0]),
        (W46.begin, W46.end, [], [0, 1]),
        # Silent from Tuesday of one week to Thursday of the week after next.
        (W46.begin, W46.shift(2).end - 1, [(W46.begin + DAY, W46.shift(2).begin + DAY, 9)], [0, 2]),
        # A clock that begins in 1970, and is then set: no week of 1970 is told of.
        (0, W46.end - 1, [(0, W46.end - HOUR, 2)], [0]),
        # Its time goes backwards: nobody knows what lies between.
        (W46.shift(3).begin, W46.begin, [], [0, 3]),
        (None, None, [], []),
    ],
)
def test_a_log_reaches_into_the_weeks_it_has_lines_in(
    first: int | None, last: int | None, gaps: list[tuple[int, int, int]], weeks: list[int]
) -> None:
    reached = log(account(first, last, gaps=gaps)).weeks_with_lines()

    assert weeks == sorted(week.number - W46.number for week in reached)


def test_an_account_is_clipped_to_some_days() -> None:
    begin, end = W46.padded_range
    silence = (begin - DAY, begin + HOUR, 7)
    told = account(begin - 2 * DAY, end + DAY, gaps=[silence, (end + 1, end + HOUR, 9)])
    found = clip_account(told, begin, end)

    assert (begin, end) == (found.first, found.last)
    assert [(begin, begin + HOUR, 7)] == found.gaps
    assert (2, begin - 2 * DAY) == (len(told.gaps), told.first)


@pytest.mark.parametrize(
    "told",
    [
        account(W46.begin - 9 * DAY, W46.begin - 3 * DAY),
        account(W46.end + 3 * DAY, W46.end + 9 * DAY),
        account(None, None),
        # There, but silent all the time.
        account(0, W46.end + 9 * DAY, gaps=[(HOUR, W46.end + 8 * DAY, 5)]),
    ],
)
def test_a_log_without_a_line_in_some_days_is_not_there(told: FileAccount) -> None:
    assert clip_account(told, *W46.padded_range).first is None
