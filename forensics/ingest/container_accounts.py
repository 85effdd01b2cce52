"""What was found in each container, what was read of it, and what was left out and why.

A container is a folder, an archive, or a compressed file. Of every one the entries that were found
must be those that were read and those that were left out, and those that were read must be there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from forensics.lib.secrets import mask_text

# The number of the split under which a container's account is staged.
CONTAINER_SPLIT = -2
_EXAMPLES = 3
# So many entries that are left out, or empty, have a row of their own; all are counted.
MOST_LISTED = 100
EMPTY = "empty files"
_FAULTS = 8


@dataclass
class ContainerAccount:
    """The account of one container, or of the part of it that one split has read."""

    name: str
    parent: str | None = None
    format: str = ""
    # how it was read: in order, by its directory, member by member
    how: str = "in order"
    bytes: int | None = None
    entries: int = 0
    read: int = 0
    # of those that were left out, how many a split has given a row of their own among the files
    listed: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)

    def leave_out(
        self, reason: str, name: str = "", count: int = 1, *, listed: bool = False
    ) -> None:
        """Count entries that are not read; `listed`: the table of files names them."""
        self.left_out[reason] += count
        self.listed += count if listed else 0
        shown = self.examples.setdefault(reason, [])
        if name and len(shown) < _EXAMPLES:
            shown.append(name)

    def note_fault(self, fault: str) -> None:
        """Note what is wrong with the container itself."""
        if fault not in self.faults and len(self.faults) < _FAULTS:
            self.faults.append(fault)

    def add(self, other: ContainerAccount) -> None:
        """Add what another split has read of the same container."""
        self.entries += other.entries
        self.read += other.read
        self.listed += other.listed
        self.left_out.update(other.left_out)
        for reason, names in other.examples.items():
            known = self.examples.get(reason, [])
            self.examples[reason] = sorted({*known, *names})[:_EXAMPLES]
        for fault in other.faults:
            self.note_fault(fault)
        self.limits = sorted({*self.limits, *other.limits})
        self.format = self.format or other.format
        self.bytes = other.bytes if self.bytes is None else self.bytes

    def renamed(self, names: Mapping[str, str]) -> ContainerAccount:
        """Return the account with names as they are shown."""
        self.name = names[self.name]
        self.parent = None if self.parent is None else names[self.parent]
        return self

    def to_row(self) -> dict[str, Any]:
        """Return the row of the table of containers."""
        reasons = sorted(self.left_out.items(), key=lambda item: (-item[1], item[0]))
        return {
            "container": self.name,
            "inside": self.parent,
            "format": self.format,
            "how": self.how,
            "bytes": self.bytes,
            "entries": self.entries,
            "read": self.read,
            "left_out": sum(self.left_out.values()),
            "reasons": [
                {
                    "reason": mask_text(reason),
                    "entries": count,
                    "examples": [mask_text(name) for name in self.examples.get(reason, [])],
                }
                for reason, count in reasons
            ],
            "damaged": mask_text("; ".join(self.faults)) or None,
            "limits": sorted(set(self.limits)),
        }


def sum_containers(
    planned: Iterable[ContainerAccount], rows: Iterable[Mapping[str, Any]]
) -> dict[str, ContainerAccount]:
    """Sum the accounts of the plan and of all splits, by container."""
    found: dict[str, ContainerAccount] = {}
    scanned = (ContainerAccount(**_from_json(row)) for row in rows)
    for one in (*planned, *sorted(scanned, key=lambda one: one.name)):
        if one.name in found:
            found[one.name].add(one)
        else:
            found[one.name] = one
    return found


def _from_json(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "left_out": Counter(row["left_out"])}


def wrong_sums(
    containers: Mapping[str, ContainerAccount], file_containers: Iterable[str | None]
) -> Iterator[str]:
    """Yield a sentence for each container whose sums contradict each other.

    `file_containers` names the container of every file that there is an account of.
    """
    there = Counter(name for name in file_containers if name is not None)
    there.update(one.parent for one in containers.values() if one.parent is not None)
    for name in sorted(set(there) - set(containers)):
        yield f"{name}: {there[name]:,} files came out of it, and nothing accounts for it"
    for name, one in sorted(containers.items()):
        left_out = sum(one.left_out.values())
        if one.entries != one.read + left_out:
            yield (
                f"{name}: {one.entries:,} entries were found, {one.read:,} of them read and"
                f" {left_out:,} left out"
            )
        elif there[name] != one.read + one.listed:
            yield (
                f"{name}: {one.read + one.listed:,} files should have come out of it,"
                f" and {there[name]:,} did"
            )
