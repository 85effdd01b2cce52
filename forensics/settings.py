"""The settings of a run, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forensics.lib.limits import DEFAULT_LIMITS, Limits
from forensics.lib.storage import base_name, join

# How bad a finding can be, from the least to the worst; `fail_on` names one of them.
SEVERITIES = ("info", "low", "medium", "high", "critical")
# What runs the stages: Spark, or this process alone, which needs no Java.
ENGINES = ("spark", "local")
# How much one task reads of a plain file: worth a task, and small enough to spread the work.
SPLIT_SIZE = 64 << 20


@dataclass(frozen=True)
class Settings:
    """What one run was asked to do."""

    archives: tuple[str, ...]
    out: Path
    master: str | None = None
    split_size: int = SPLIT_SIZE
    packs: tuple[Path, ...] = ()
    context: bool = False
    # which files the user says are whose, as PATTERN=NODE
    node_map: tuple[str, ...] = ()
    # conversion patterns of log4j or Logback, by which the user says lines are written
    log_patterns: tuple[str, ...] = ()
    # the id of the cluster whose files alone are looked at, where they are of several
    cluster: str | None = None
    # the exit code tells of a finding of this level or above; null: of none
    fail_on: str | None = None
    # whether the exit code tells of what could not be read
    strict: bool = False
    # commands whose output is read, too
    commands: tuple[str, ...] = ()
    # how far an archive may lead the reader
    limits: Limits = DEFAULT_LIMITS
    # what runs the stages: one of ENGINES
    engine: str = "spark"
    # the words of the command line
    command: tuple[str, ...] = ()
    # where Great Expectations writes its own pages of the checks; null: nowhere
    data_docs: Path | None = None
    # where it gets a context on disk, with the measured tables and the suites; null: nowhere
    gx_context: Path | None = None
    # the address of the output, if it is one; `out` is the folder here that is put there at the end
    address: str | None = None

    @property
    def tables(self) -> Path:
        """The folder of the tables."""
        return self.out / "tables"

    @property
    def staging(self) -> Path:
        """The folder of temporary tables; it is deleted at the end of the run."""
        return self.out / "_staging"

    @property
    def exchange(self) -> str:
        """Where executors write: a folder that they share with the driver, or an address.

        It is that of one run: what a killed one has left is never taken for another's.
        """
        if self.address is None:
            return str(self.staging / "written")
        return join(self.address, f"{self.staging.name}/{self.out.name}")

    @property
    def title(self) -> str:
        """What Spark shows this run as."""
        names = [base_name(archive) for archive in self.archives]
        more = [f"and {len(names) - 1} more"] if len(names) > 1 else []
        return " ".join(["kafka-forensics", *names[:1], *more])
