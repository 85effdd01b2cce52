"""Lengths of time in microseconds, in which all moments inside the package are held."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMESTAMP = pa.timestamp("us", tz="UTC")


def to_datetime(micros: int) -> datetime:
    """Return a moment as a datetime in UTC."""
    return EPOCH + timedelta(microseconds=micros)


def to_iso(micros: int) -> str:
    """Write a moment as all output does: in UTC, whole milliseconds.

    >>> to_iso(1_500_999)
    '1970-01-01T00:00:01.500Z'
    """
    return to_datetime(micros).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def to_arrow_timestamp(micros: int | None) -> pa.Scalar:
    """Return a moment as a scalar that columns of moments can be compared with.

    >>> to_arrow_timestamp(1_500_000).as_py().isoformat()
    '1970-01-01T00:00:01.500000+00:00'
    """
    return pa.scalar(micros, TIMESTAMP)
