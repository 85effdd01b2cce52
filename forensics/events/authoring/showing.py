"""Shows text of logs to people, who must not be fooled by it."""

from __future__ import annotations

__all__ = ["plain"]


def plain(text: str) -> str:
    """Show every character that a terminal would obey or hide as its code; log text is hostile.

    >>> plain("red " + chr(27) + "[31m")
    'red <U+001B>[31m'
    """
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else f"<U+{ord(mark):04X}>" for mark in text)
