"""What every wrapper can do: say that a line looks wrapped, and open many lines at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from forensics.errors import Problem
from forensics.ingest.text_buffer import TextBuffer


@dataclass(frozen=True)
class Wrapper(ABC):
    """One wrapper; `origin` says where it is written."""

    # Whether what comes out is a record by itself, whatever went in.
    makes_records: ClassVar[bool] = False

    id: str
    examples: tuple[Mapping[str, Any], ...]
    refuses: tuple[str, ...]
    origin: Problem
    # Whether a line may go on in the next one.
    splits_lines: bool

    @abstractmethod
    def looks_wrapped(self, line: bytes) -> bool:
        """Whether one line looks wrapped: the cheap question before the dear one."""

    @abstractmethod
    def unwrap(self, texts: TextBuffer) -> TextBuffer:
        """Take the wrapper off all texts that have it; the others stay as they are."""
