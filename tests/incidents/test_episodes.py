"""Episodes of errors: found without holding the errors, and the same as if they were held."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.incidents.episodes import episodes, meet_moves
from tests.incidents.cases import SECOND, case, epoch, event

Row = dict[str, Any]
STALE = ("NOT_LEADER_OR_FOLLOWER",)


def error(second: float, **more: Any) -> Row:
    facts = {"client": "app", "error": STALE[0], "topic": "t", "partition": 0}
    return event(second, "app", "client_error", **(facts | more))


def plainly(seconds: list[int], gap: int) -> list[tuple[int, int, int]]:
    """Go through all errors in order: first, last, how many."""
    found: list[tuple[int, int, int]] = []
    for second in sorted(seconds):
        if found and second - found[-1][1] <= gap:
            found[-1] = found[-1][0], second, found[-1][2] + 1
        else:
            found.append((second, second, 1))
    return found


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 400), min_size=1, max_size=40), st.integers(1, 30))
def test_episodes_end_where_the_gap_is_too_wide(seconds: list[int], gap: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = episodes(case(Path(folder), events=list(map(error, seconds))), STALE, gap)

    wanted = [(a * SECOND, b * SECOND, n) for a, b, n in plainly(seconds, gap)]
    assert wanted == [(one.begin, one.end, one.errors) for one in found]
    assert seconds_of(found) == sorted(seconds)


def seconds_of(found: list[Any]) -> list[int]:
    return [row["at"] // SECOND for one in found for row in one.first]


def test_of_many_errors_the_first_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    events = [error(1000 - number, partition=number % 3) for number in range(1000)]
    [one] = episodes(case(tmp_path, events=events), STALE, 5)

    assert (1000, {"t-0", "t-1", "t-2"}) == (one.errors, one.partitions)
    assert [*range(1, 41)] == seconds_of([one])


def test_a_move_is_told_to_every_episode_near_it(tmp_path: Path) -> None:
    """Of three clients two had errors about it; the third had them too late."""
    events = [error(100, client="a"), error(120, client="b"), error(300, client="c")]
    moved = epoch(1, 2, 110, election="failover", previous_leader=1)
    some = case(tmp_path, events=events, leadership=[moved])
    found = episodes(some, STALE, 5)
    meet_moves(some, found, 30)

    assert [("a", 1), ("b", 1), ("c", 0)] == [(one.client, len(one.moves)) for one in found]
    assert [None, 110 * SECOND, None] == [one.settled for one in found]
    assert [{("failover", 1)}, {("failover", 1)}, set()] == [one.elections for one in found]
