"""The kinds of events that rules may tell of, from rules/kinds/."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from forensics.yamls import read, shipped

__all__ = ["ROUTINE", "kinds"]

# Lines that are known and tell nothing. They are claimed, so that what nobody knows stands out.
ROUTINE = "routine"


@functools.cache
def kinds() -> Mapping[str, str]:
    """Give every kind with what it means."""
    pages = [read(path) for path in shipped("kinds")]
    found = {str(kind): str(means) for page in pages for kind, means in page.items()}
    return found | {ROUTINE: "a line that is known and tells nothing"}
