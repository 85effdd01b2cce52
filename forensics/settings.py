"""What a run was asked to do, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forensics.archives.planning import SPLIT_SIZE

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """The wishes of one run."""

    archives: tuple[str, ...]
    out: Path
    master: str | None = None
    split_size: int = SPLIT_SIZE

    @property
    def tables(self) -> Path:
        """Where the tables go."""
        return self.out / "tables"

    @property
    def staging(self) -> Path:
        """Where the first pass leaves its rows; gone when the run is done."""
        return self.out / "_staging"
