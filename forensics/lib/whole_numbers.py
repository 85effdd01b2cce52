"""Reads whole numbers out of text that anybody may have written."""

from __future__ import annotations

# A century in milliseconds: no count, id or time-out of a setting is larger. Java's own word for
# "no limit" is, and stands for no number.
LARGEST = 3_155_760_000_000
_MOST_DIGITS = len(str(LARGEST))


def whole_number(text: str | None, most: int = LARGEST) -> int | None:
    """Return the number that a text is; None if it is none, is negative, or is beyond `most`.

    >>> [whole_number(text) for text in ("30000", "-1", "1e3", "9" * 19, "²", "", None)]
    [30000, None, None, None, None, None, None]
    """
    if not text or not text.isdecimal() or len(text) > _MOST_DIGITS:
        return None
    number = int(text)
    return number if number <= most else None
