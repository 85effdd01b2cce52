"""What every wrapper can do: say if a line may be wrapped, and take the wrapper off many lines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from forensics.errors import Problem
from forensics.ingest.text_buffer import TextBuffer

# Begins what stood before a line and may name its writer, or something else, such as a thread.
GUESSED = "?"


@dataclass(frozen=True)
class Wrapper(ABC):
    """One wrapper; `origin` is the file that defines it."""

    # Whether it gives whole records, whatever the lines were before.
    makes_records: ClassVar[bool] = False

    id: str
    examples: tuple[Mapping[str, Any], ...]
    refuses: tuple[str, ...]
    origin: Problem
    # Whether a line may go on in the next one.
    splits_lines: bool

    @abstractmethod
    def looks_wrapped(self, line: bytes) -> bool:
        """Return True if one line may be wrapped: a cheap check before `unwrap`."""

    @abstractmethod
    def unwrap(self, texts: TextBuffer) -> TextBuffer:
        """Take the wrapper off all texts that have it; the others stay as they are."""
