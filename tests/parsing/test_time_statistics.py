"""The longest silences of a file, and its levels: the same wherever the file is split."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.parsing.time_statistics import longest_gaps
from tests.ingest.sample_archives import LOGS
from tests.ingest.scans import Scanned, scan

SECOND = 1_000_000
DAY = 86_400


def line(second: int, level: str = "INFO") -> bytes:
    days, rest = divmod(second, DAY)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"[2026-11-{18 + days:02} {clock},000] {level} words (kafka.log.Log)\n".encode()


def read(text: bytes, split_size: int = 64 << 20) -> Scanned:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "server.log")
        path.write_bytes(text)
        return scan(path, split_size=split_size)


def gaps(text: bytes, split_size: int = 64 << 20) -> list[tuple[int, int]]:
    found = read(text, split_size).files["server.log"].gaps
    return [((end - begin) // SECOND, at) for begin, end, at in found]


def test_a_silence_is_told_with_the_line_that_ends_it() -> None:
    assert [(10, 3), (600, 5)] == gaps(b"".join(line(n) for n in (0, 9, 19, 19, 619, 620)))


def test_a_silence_of_a_day_is_none_of_nothing() -> None:
    """The time of day may be the same on both sides."""
    assert [(DAY, 2), (DAY + 3, 3)] == gaps(line(5) + line(5 + DAY) + line(8 + 2 * DAY))


def test_a_clock_that_falls_back_is_no_silence() -> None:
    assert [] == gaps(line(500) + line(100) + line(101))


def test_lines_without_a_time_do_not_break_a_silence() -> None:
    assert [(30, 4)] == gaps(
        line(0) + b"java.io.IOException: no\n\tat a.b.c(D.java:1)\n" + line(30)
    )


def test_levels_are_counted_by_their_first_letter() -> None:
    found = read(line(0) + line(1, "WARN") + line(2, "WARN") + line(3, "ERROR"))

    assert {"I": 1, "W": 2, "E": 1} == found.files["server.log"].levels


def test_only_the_longest_silences_are_kept() -> None:
    kept = longest_gaps([(0, 10 * SECOND + n, n) for n in range(100)])

    assert 32 == len(kept)
    assert 68 == min(at for _, _, at in kept)


@settings(max_examples=40)
@given(st.lists(st.integers(0, 3 * DAY), max_size=30), st.integers(40, 3000))
def test_where_a_file_is_split_changes_no_silence(seconds: list[int], split_size: int) -> None:
    text = b"".join(line(second) for second in seconds)

    assert gaps(text) == gaps(text, split_size)


@pytest.mark.slow
@pytest.mark.parametrize("split_size", [3000, 64 << 10])
def test_real_logs_have_the_same_pulse_at_any_split_size(split_size: int) -> None:
    whole, split = scan(LOGS), scan(LOGS, split_size=split_size)

    assert {name: (one.gaps, one.levels) for name, one in whole.files.items()} == {
        name: (one.gaps, one.levels) for name, one in split.files.items()
    }
    assert any(one.gaps for one in whole.files.values())


def steps(text: bytes, split_size: int = 64 << 20) -> tuple[int, list[tuple[int, int]]]:
    found = read(text, split_size).files["server.log"]
    return found.stepped, [((begin - end) // SECOND, at) for begin, end, at in found.steps]


def test_time_that_goes_backwards_is_told_with_its_line() -> None:
    """Two seconds are a step; the next 20 records stay behind, so it is no late comer."""
    forward = [line(1000 + n) for n in range(20)]
    again = [line(517 + n) for n in range(20)]
    assert (1, [(502, 21)]) == steps(b"".join([*forward, *again]))
    assert (1, [(2, 21)]) == steps(b"".join([*forward, *[line(1017)] * 20]))
    assert (0, []) == steps(b"".join([*forward, *[line(1018)] * 20]))
    assert (1, [(DAY, 21)]) == steps(b"".join(forward) + line(1019 - DAY) * 20)


def test_a_few_records_that_come_late_are_no_step() -> None:
    """A thread that hung writes what it had to say; then time goes on where it was."""
    forward = [line(1000 + n) for n in range(20)]
    late = [line(990)] * 3
    assert (0, []) == steps(b"".join([*forward, *late, *[line(1020 + n) for n in range(9)]]))
    # Of the very last record nobody can say.
    assert (0, []) == steps(b"".join([*forward, line(990)]))
    assert (1, [(29, 21)]) == steps(b"".join([*forward, line(990), line(991)]))


def test_a_moment_that_is_none_is_neither_silence_nor_step() -> None:
    wrong = line(60).replace(b"2026-11-18", b"2026-31-18")
    text = line(0) * 3 + wrong + line(1) * 12

    assert ((0, []), []) == (steps(text), gaps(text))


def test_each_fall_of_a_clock_is_counted_and_the_farthest_are_kept() -> None:
    text = b"".join(
        line(1000 * n + second) for n in range(12, 0, -1) for second in range(0, 200, 9)
    )
    count, kept = steps(text)

    assert (11, 8) == (count, len(kept))
    assert kept == sorted(kept, key=lambda step: step[1])


@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(st.integers(0, 900), max_size=12), st.integers(40, 900))
def test_a_step_is_found_wherever_the_blocks_of_a_split_end(starts: list[int], size: int) -> None:
    """Runs of twelve records; at the border of two splits the first record alone decides."""
    text = b"".join(line(10 * start + n) for start in starts for n in range(12))
    whole, split = steps(text), steps(text, size)

    assert [one for one in whole[1] if one not in split[1]] == [] or len(whole[1]) == 8
