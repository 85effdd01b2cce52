"""Sizes, durations, plurals and suggestions read as they always did."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forensics.errors import did_you_mean
from forensics.lib.text_format import count, format_bytes, pluralize


@given(st.integers(0, 10**13))
def test_sizes_are_what_progress_used_to_write(size: int) -> None:
    left = float(size)
    expected = None
    for unit in ("B", "kB", "MB"):
        if left < 1000:
            expected = f"{left:.0f} {unit}" if unit == "B" else f"{left:.1f} {unit}"
            break
        left /= 1000
    assert format_bytes(size) == (expected or f"{left:.1f} GB")


@given(st.integers(0, 5000))
def test_counts_and_nouns_agree(number: int) -> None:
    assert count(number, "node") == f"{number:,} {pluralize('node', number)}"
    assert pluralize("node", number) == f"node{'' if number == 1 else 's'}"
    assert pluralize("", number) == ""


def test_a_suggestion_is_the_nearest_name() -> None:
    assert did_you_mean("min_isrs", ["max_isr", "min_isr"]) == "; did you mean 'min_isr'?"
    assert did_you_mean(7, ["min_isr"]) == ""
