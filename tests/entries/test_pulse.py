"""The longest silences of a file, and its levels: the same wherever the file is split."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.entries.pulse import longest
from tests.archives.scanning import Scanned, scan
from tests.archives.trees import LOGS

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
    kept = longest([(0, 10 * SECOND + n, n) for n in range(100)])

    assert 32 == len(kept)
    assert 68 == min(at for _, _, at in kept)


@settings(max_examples=40)
@given(st.lists(st.integers(0, 3 * DAY), max_size=30), st.integers(40, 3000))
def test_where_a_file_is_split_changes_no_silence(seconds: list[int], split_size: int) -> None:
    text = b"".join(line(second) for second in seconds)

    assert gaps(text) == gaps(text, split_size)


@pytest.mark.parametrize("split_size", [3000, 64 << 10])
def test_real_logs_have_the_same_pulse_at_any_split_size(split_size: int) -> None:
    whole, split = scan(LOGS), scan(LOGS, split_size=split_size)

    assert {name: (one.gaps, one.levels) for name, one in whole.files.items()} == {
        name: (one.gaps, one.levels) for name, one in split.files.items()
    }
    assert any(one.gaps for one in whole.files.values())
