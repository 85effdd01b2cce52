"""What a process says while it starts is old news, and a start does not last for ever."""

from __future__ import annotations

from forensics.history.nodes.startup_windows import StartupWindows
from tests.history.log_lines import SECOND, event


def windows(*events: tuple[float, str]) -> StartupWindows:
    return StartupWindows.from_events(event(second, "n", kind) for second, kind in events)


def test_a_broker_is_starting_until_half_a_minute_after_it_says_started() -> None:
    """Under ZooKeeper it says so before the controller tells it what it holds."""
    found = windows((10, "process_starting"), (20, "process_started"))

    assert [False, True, True, True, False] == [
        found.is_starting("n", int(second * SECOND)) for second in (9.9, 10, 20, 49.999, 50)
    ]


def test_a_controller_replays_until_it_has_caught_up() -> None:
    """Two of its threads read the log, and the one that says so may be two seconds ahead."""
    found = windows(
        (10, "process_starting"), (11, "replaying"), (15, "caught_up"), (16, "process_started")
    )

    assert [False, True, True, True, False] == [
        found.is_replaying("n", int(second * SECOND)) for second in (9.9, 10, 15, 16.999, 17)
    ]


def test_a_controller_without_its_server_log_replays_for_a_while() -> None:
    """Its controller.log does not say when it has read everything."""
    alone = windows((10, "controller_created"))
    known = windows((5, "process_starting"), (10, "controller_created"), (15, "caught_up"))

    assert [False, True, True, False] == [
        alone.is_replaying("n", int(second * SECOND)) for second in (9.9, 10, 39.9, 40)
    ]
    assert not known.is_replaying("n", 20 * SECOND)


def test_a_controller_that_takes_office_has_read_everything() -> None:
    found = windows(
        (10, "process_starting"), (15, "caught_up"), (16, "controller_elected"),
        (16.5, "controller_elected"), (90, "controller_elected"),
    )  # fmt: skip

    assert [True, True, False, False] == [
        found.is_replaying("n", int(second * SECOND)) for second in (15.5, 15.999, 16, 90)
    ]


def test_a_start_that_no_line_ends_does_not_silence_what_follows() -> None:
    found = windows((10, "process_starting"))

    assert found.is_starting("n", 600 * SECOND)
    assert not found.is_starting("n", 1000 * SECOND)


def test_an_end_that_comes_too_late_does_not_lengthen_a_start() -> None:
    found = windows((10, "process_starting"), (5000, "process_started"))

    assert not found.is_starting("n", 1000 * SECOND)


def test_every_start_counts() -> None:
    found = windows(
        (10, "process_starting"),
        (12, "process_started"),
        (100, "process_starting"),
        (110, "process_started"),
    )

    assert [True, False, True] == [found.is_starting("n", n * SECOND) for n in (11, 90, 105)]


def test_a_node_that_never_started_here_is_not_starting() -> None:
    assert not windows((10, "process_started")).is_starting("n", 10 * SECOND)
    assert not windows((10, "process_starting")).is_starting("other", 11 * SECOND)
