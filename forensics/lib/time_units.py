"""Lengths of time in microseconds, in which all moments inside the package are held."""

from __future__ import annotations

MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
