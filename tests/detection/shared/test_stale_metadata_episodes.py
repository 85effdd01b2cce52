"""Episodes of errors: found without holding the errors, and the same as if they were held."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.detection.shared.stale_metadata_episodes import Episode, EpisodeLimits, find_episodes
from tests.detection.cases import SECOND, case, epoch, event

Row = dict[str, Any]
STALE_ERRORS = ("NOT_LEADER_OR_FOLLOWER",)


def error(second: float, **more: Any) -> Row:
    facts = {"client": "app", "error": STALE_ERRORS[0], "topic": "t", "partition": 0}
    return event(second, "app", "client_error", **(facts | more))


def reach(gap: float) -> EpisodeLimits:
    return EpisodeLimits(gap, late=30, ahead=2, stroke=5, near=30, fresh=15)


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
        found = find_episodes(
            case(Path(folder), events=list(map(error, seconds))), STALE_ERRORS, reach(gap)
        )

    wanted = [(a * SECOND, b * SECOND, n) for a, b, n in plainly(seconds, gap)]
    assert wanted == [(one.begin, one.end, one.errors) for one in found]
    assert seconds_of(found) == sorted(seconds)


def seconds_of(found: list[Any]) -> list[int]:
    return [row["at"] // SECOND for one in found for row in one.first]


def test_of_many_errors_the_first_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    events = [error(1000 - number, partition=number % 3) for number in range(1000)]
    [one] = find_episodes(case(tmp_path, events=events), STALE_ERRORS, reach(5))

    assert (1000, {"t-0", "t-1", "t-2"}) == (one.errors, one.partitions)
    assert [*range(1, 41)] == seconds_of([one])


def test_a_move_is_told_to_every_process_that_stumbles_over_it(tmp_path: Path) -> None:
    """Of three processes two had errors about it; the third had them too late."""
    seconds = {"a": 111, "b": 120, "c": 300}
    events = [error(second) | {"node": name} for name, second in seconds.items()]
    moved = epoch(1, 2, 110, election="failover", previous_leader=1)
    found = find_episodes(case(tmp_path, events=events, leadership=[moved]), STALE_ERRORS, reach(5))

    assert [(one.node, len(one.moves)) for one in found] == [("a", 1), ("b", 1), ("c", 0)]
    assert [one.settled_at for one in found] == [110 * SECOND, 110 * SECOND, None]
    assert [one.elections for one in found] == [{("failover", 1)}, {("failover", 1)}, set()]
    assert [one.stale for one in found] == [SECOND, 10 * SECOND, None]


def test_the_clients_of_a_process_share_an_episode(tmp_path: Path) -> None:
    events = [error(111, client="a"), error(112, client="b"), error(300, client="a"),
              error(301, client="c")]  # fmt: skip
    moved = epoch(1, 2, 110, election="failover", previous_leader=1)
    found = find_episodes(case(tmp_path, events=events, leadership=[moved]), STALE_ERRORS, reach(5))

    assert [sorted(one.clients) for one in found] == [["a", "b"], ["a", "c"]]
    assert [one.application for one in found] == ["app", "app"]


def test_what_befalls_several_leaders_at_once_is_one_move(tmp_path: Path) -> None:
    """A rack is lost, or an operator gives leadership back; who led before does not matter."""
    events = [error(111), error(112, partition=1)]
    moves = [epoch(1, 3, 110, election="failover", previous_leader=1),
             epoch(1, 3, 110, election="failover", previous_leader=2, partition=1)]  # fmt: skip
    [one] = find_episodes(
        case(tmp_path, events=events, leadership=moves), STALE_ERRORS, reach(gap=5)
    )
    assert one.elections == {("failover", 1), ("failover", 2)}

    moves[1]["election"] = "preferred"
    (tmp_path / "two").mkdir()
    two = case(tmp_path / "two", events=events, leadership=moves)
    assert len(find_episodes(two, STALE_ERRORS, reach(5))) == 2


def test_an_error_before_the_move_was_logged_is_not_without_a_leader(tmp_path: Path) -> None:
    moved = epoch(1, 2, 110, election="failover", previous_leader=1)
    found = find_episodes(
        case(tmp_path, events=[error(109)], leadership=[moved]), STALE_ERRORS, reach(5)
    )

    assert [(one.leaderless, len(one.moves)) for one in found] == [(0, 1)]


def test_a_client_that_asks_seldom_is_late_by_its_own_setting(tmp_path: Path) -> None:
    moved = epoch(1, 2, 110, election="failover", previous_leader=1)
    built = case(tmp_path, events=[error(200)], leadership=[moved])
    late = EpisodeLimits(5, 30, 2, 5, 30, 15, {"app": 90})

    assert [len(one.moves) for one in find_episodes(built, STALE_ERRORS, late)] == [1]
    assert [len(one.moves) for one in find_episodes(built, STALE_ERRORS, reach(5))] == [0]


MOVES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 200), st.sampled_from([-1, 1, 2, 3])), max_size=30
)
ERRORS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 300)), min_size=1, max_size=30)


@settings(max_examples=40, deadline=None)
@given(MOVES, ERRORS)
def test_every_error_is_behind_the_last_move_of_its_own_partition(
    moves: list[tuple[int, int, int]], errors: list[tuple[int, int]]
) -> None:
    """Whatever the order and the number of partitions, as one looks it up by hand."""
    epochs = list(led(moves))
    with tempfile.TemporaryDirectory() as folder:
        events = [error(second, partition=partition) for partition, second in errors]
        found = find_episodes(
            case(Path(folder), events=events, leadership=epochs), STALE_ERRORS, reach(gap=1000)
        )

    wanted = {start for one in errors if (start := last_before(epochs, *one)) is not None}
    assert len(errors) == sum(one.errors for one in found)
    assert wanted >= {start for one in found for _, start in one.moves}
    loose = sum(last_before(epochs, *one) is None for one in errors)
    assert loose == sum(one.errors for one in found if not one.moves)


def led(moves: list[tuple[int, int, int]]) -> Any:
    """Make the leader epochs of partitions out of moves in any order; a move may move nobody."""
    known: dict[int, tuple[int, int]] = {}
    for partition, second, leader in sorted(moves, key=lambda move: move[1]):
        number, before = known.get(partition, (0, 9))
        if leader != before:
            facts = {"partition": partition, "previous_leader": before}
            yield epoch(number + 1, leader, second, election="failover", **facts)
            known[partition] = number + 1, leader


def last_before(epochs: list[Row], partition: int, second: int) -> int | None:
    """Look a move up as `reach` allows: 15 s before, two seconds after, or half a minute before."""
    mine = sorted(row["started_at"] for row in epochs if row["partition"] == partition)
    past = [at for at in mine if (second - 30) * SECOND <= at <= second * SECOND]
    after = [at for at in mine if second * SECOND < at <= (second + 2) * SECOND]
    if past and (past[-1] >= (second - 15) * SECOND or not after):
        return int(past[-1])
    return int(after[0]) if after else None


def test_who_had_time_to_hear_of_the_last_move_stumbles_over_the_next_one(tmp_path: Path) -> None:
    """The old leader gives up its place a little before a broker that is left logs the new one."""
    moves = [(0, 10, 1), (0, 41, 2)]
    errors = [error(second) for second in (11, 12, 24, 40)]
    first, second = find_episodes(
        case(tmp_path, events=errors, leadership=list(led(moves))), STALE_ERRORS, reach(gap=30)
    )

    assert (3, 24 * SECOND) == (first.errors, first.end)
    assert (1, {(("t", 0), 41 * SECOND)}) == (second.errors, second.moves)


def test_joined_episodes_hold_what_both_held() -> None:
    one = Episode("app", 5, 9, 2, {"c"}, {"a"}, {"a-1"}, settled_at=7, stale=2)
    one.merge(Episode("app", 1, 6, 3, {"d"}, {"b"}, {"b-1"}, created_at=4, leaderless=1, stale=1))

    assert (
        one.begin, one.end, one.errors, one.clients, one.topics, one.partitions, one.settled_at,
        one.created_at, one.leaderless, one.stale,
    ) == (1, 9, 5, {"c", "d"}, {"a", "b"}, {"a-1", "b-1"}, 7, 4, 1, 2)  # fmt: skip
