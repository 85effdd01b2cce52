"""Times are read for many lines at once, and mean what datetime says they mean."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.ingest.record_starts import PADDING
from forensics.parsing.timestamps import NO_TIME, TimeFormat, TimeFormatError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = st.datetimes(
    datetime(1970, 1, 1),  # noqa: DTZ001
    datetime(2199, 12, 31),  # noqa: DTZ001
    timezones=st.just(UTC),
)
# Each format with how datetime writes it, and the finest part it holds in microseconds.
FORMATS = {
    "yyyy-MM-dd HH:mm:ss,SSS": ("{:%Y-%m-%d %H:%M:%S},{ms:03}", 1000),
    "yyyy-MM-dd'T'HH:mm:ss.SSS": ("{:%Y-%m-%dT%H:%M:%S}.{ms:03}", 1000),
    "dd/MM/yyyy HH.mm.ss.SSSSSS": ("{:%d/%m/%Y %H.%M.%S.%f}", 1),
    "yyyyMMddHHmmss": ("{:%Y%m%d%H%M%S}", 1_000_000),
    "yyyy-MM-dd HH:mm": ("{:%Y-%m-%d %H:%M}", 60_000_000),
    "yyyy-MM-dd HH:mm:ss.SSSSSSSSS": ("{:%Y-%m-%d %H:%M:%S.%f}789", 1),
}


def read(form: str, *texts: str) -> list[int]:
    """Read times that stand somewhere in a buffer, as lines do."""
    raw = "".join(f"..{text}\n" for text in texts).encode()
    data = np.zeros(len(raw) + PADDING, np.uint8)
    data[: len(raw)] = np.frombuffer(raw, np.uint8)
    lengths = np.array([len(text) + 3 for text in texts], np.int64)
    places = np.concatenate([[2], 2 + np.cumsum(lengths)[:-1]])
    return [int(value) for value in TimeFormat.parse(form).read(data, places)]


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def written(moment: datetime, form: str) -> str:
    # Some C libraries write the year 33 as "33".
    text = form.replace("%Y", f"{moment.year:04}")
    return text.format(moment, ms=moment.microsecond // 1000)


@pytest.mark.parametrize("form", FORMATS)
@given(moments=st.lists(MOMENTS, min_size=1, max_size=5))
def test_any_moment_is_read_as_datetime_reads_it(form: str, moments: list[datetime]) -> None:
    pattern, finest = FORMATS[form]
    texts = [written(moment, pattern) for moment in moments]

    expected = [micros(moment) // finest * finest for moment in moments]

    assert read(form, *texts) == expected


@given(st.lists(st.integers(1_000_000_000_000, 7_258_118_399_999), min_size=1, max_size=5))
def test_seconds_of_the_epoch_are_read_with_their_milliseconds(values: list[int]) -> None:
    texts = [f"{value // 1000}.{value % 1000:03}" for value in values]

    assert read("epoch.SSS", *texts) == [value * 1000 for value in values]


@given(
    st.datetimes(datetime(1970, 1, 3), datetime(2199, 12, 30)),  # noqa: DTZ001
    st.integers(-14 * 60, 14 * 60),
    st.booleans(),
)
def test_a_zone_is_taken_off(local: datetime, minutes: int, colon: bool) -> None:
    sign, (hours, rest) = "+-"[minutes < 0], divmod(abs(minutes), 60)
    text = f"{local:%Y-%m-%dT%H:%M:%S}{sign}{hours:02}{':' * colon}{rest:02}"
    moment = local.replace(microsecond=0, tzinfo=timezone(timedelta(minutes=minutes)))

    assert read("yyyy-MM-dd'T'HH:mm:ssZ", text) == [micros(moment)]


@pytest.mark.parametrize(
    ("zone", "hour"), [("Z", 12), ("+0530", 6.5), ("-07:00", 19), ("+00:00", 12), ("-0000", 12)]
)
def test_zones_are_written_in_several_ways(zone: str, hour: float) -> None:
    moment = datetime(2026, 11, 18, tzinfo=UTC) + timedelta(hours=hour)

    assert read("yyyy-MM-dd HH:mmZ", f"2026-11-18 12:00{zone}") == [micros(moment)]


@pytest.mark.parametrize(
    "text",
    [
        "2026-13-18 11:31:58",
        "2026-00-18 11:31:58",
        "2026-11-32 11:31:58",
        "2026-11-00 11:31:58",
        "2026-11-18 24:31:58",
        "2026-11-18 11:60:58",
        "2026-11-18 11:31:61",
        "2026-02-29 11:31:58",
        "2026-02-30 11:31:58",
        "2100-02-29 11:31:58",
        "2026-04-31 11:31:58",
        "0000-00-00 00:00:00",
        "3000-13-45 00:00:00",
        "0001-01-01 00:00:00",
        "9999-12-31 23:59:59",
    ],
)
def test_nonsense_is_no_time_and_spoils_no_other(text: str) -> None:
    good = "2026-11-18 11:31:58"

    before, nonsense, after = read("yyyy-MM-dd HH:mm:ss", good, text, good)

    assert nonsense == NO_TIME
    assert before == after == micros(datetime(2026, 11, 18, 11, 31, 58, tzinfo=UTC))


def test_a_leap_second_is_the_second_after() -> None:
    after = datetime(2017, 1, 1, tzinfo=UTC)

    assert read("yyyy-MM-dd HH:mm:ss", "2016-12-31 23:59:60") == [micros(after)]


@pytest.mark.parametrize("form", ["yyyy-MM-dd hh:mm", "Zyyyy", "yyyy EEE", "yyyy'open"])
def test_a_letter_without_a_meaning_is_refused(form: str) -> None:
    with pytest.raises(TimeFormatError, match="cannot read"):
        TimeFormat.parse(form)
