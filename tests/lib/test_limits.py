"""Limits are written as people write them, and the page about them says what they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from forensics.errors import ForensicsError
from forensics.lib.limits import DEFAULT_LIMITS, LIMIT_NAMES, parse_limits

PAGE = Path(__file__).parents[2] / "docs/running/limits.md"


def test_the_page_says_every_limit_and_its_default() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", PAGE.read_text("utf-8"), re.MULTILINE)

    assert set(LIMIT_NAMES) == {name for name, _ in rows}
    assert parse_limits(f"{name}={value}" for name, value in rows) == DEFAULT_LIMITS


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("entrys=5", "is no limit; did you mean 'entries'"),
        ("entries", "'' is no number"),
        ("entries=many", "'many' is no number"),
        ("entries=-1", "'-1' is no number"),
        ("entries=0", "is out of range"),
        ("spool_bytes=99999999999T", "is out of range"),
    ],
)
def test_what_is_no_limit_is_said(word: str, says: str) -> None:
    with pytest.raises(ForensicsError, match=re.escape(says)):
        parse_limits([word])
