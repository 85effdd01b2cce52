"""What a run was asked to do, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# What one task reads of a plain file: long enough to be worth a task, short enough to share.
SPLIT_SIZE = 64 << 20


@dataclass(frozen=True)
class Settings:
    """The wishes of one run."""

    archives: tuple[str, ...]
    out: Path
    master: str | None = None
    split_size: int = SPLIT_SIZE
    packs: tuple[Path, ...] = ()
    context: bool = False
    # a finding of this level or above is what the exit code tells; null: none is
    fail_on: str | None = None
    # whether something that cannot be read is worth an exit code
    strict: bool = False
    # the words it was called with, as they were given
    command: tuple[str, ...] = ()
    # where Great Expectations leaves its own pages of the checks; null: nowhere
    data_docs: Path | None = None

    @property
    def tables(self) -> Path:
        """Where the tables go."""
        return self.out / "tables"

    @property
    def staging(self) -> Path:
        """Where the first pass leaves its rows; gone when the run is done."""
        return self.out / "_staging"
