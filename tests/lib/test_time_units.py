"""Moments are written in one way: UTC, whole milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from forensics.lib.time_units import EPOCH, to_arrow_timestamp, to_iso

# from 1900 to 2200
moments = st.integers(-2_208_988_800_000_000, 7_258_118_400_000_000)


@given(moments)
def test_iso_is_what_findings_used_to_write(micros: int) -> None:
    moment = datetime.fromtimestamp(micros // 1000 / 1000, UTC)
    text = moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{micros // 1000 % 1000:03d}Z"

    assert to_iso(micros) == text


@given(moments)
def test_iso_is_read_again_to_the_millisecond(micros: int) -> None:
    read = datetime.fromisoformat(to_iso(micros)) - EPOCH

    assert (
        read.days * 86_400_000 + read.seconds * 1000 + read.microseconds // 1000 == micros // 1000
    )


@given(moments)
def test_scalars_are_of_the_type_of_the_tables(micros: int) -> None:
    scalar = to_arrow_timestamp(micros)

    assert (scalar.type, scalar.value) == (pa.timestamp("us", tz="UTC"), micros)


def test_milliseconds_are_cut_and_not_rounded() -> None:
    assert to_iso(1_795_001_905_007_999) == "2026-11-18T11:38:25.007Z"
    assert to_iso(1_795_001_905_999_999) == "2026-11-18T11:38:25.999Z"
