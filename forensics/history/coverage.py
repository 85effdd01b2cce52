"""What the logs cover: for each node and kind of log from when to when, and where there are holes.

Absence is evidence only where somebody was there to write: everything that follows from nobody
having told of something must ask here first.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from forensics.entries.pulse import SILENCE
from forensics.events.accounting import FileAccount
from forensics.history.clocks import Clocks

__all__ = ["SERVERS", "TELLING", "Coverage", "Log", "Silence", "covered", "kind_of_log"]

SERVERS = ("broker", "controller")
# The logs of a broker or controller in the order of what they tell of partitions.
TELLING = ("state-change", "all", "controller", "server")
_KINDS = (
    ("state-change", re.compile(r"sta[tg]e-change\.")),
    ("controller", re.compile(r"(?:^|[a-z][-_.])controller\.(?!\d+$)")),
    ("gc", re.compile(r"(?:^|[-_.])gc\.|kafkaServer-gc|zookeeper-gc|^gc")),
    ("log-cleaner", re.compile(r"log-cleaner")),
    ("authorizer", re.compile(r"authorizer")),
    ("request", re.compile(r"kafka-request")),
    ("server", re.compile(r"(?:^|[-_.])server\.")),
)
# With less, a node that is only quiet cannot be told from one whose last lines are missing.
_TAIL = 30_000_000
_USUAL = 4
_FAR = 3


@dataclass(frozen=True)
class Silence:
    """A stretch without a line, from the last line before to the first one after."""

    begin: int
    end: int
    file: str
    line: int


@dataclass(frozen=True)
class Log:
    """One kind of log of one node, in corrected time: all its files taken together."""

    node: str
    role: str
    kind: str
    first: int
    last: int
    silences: tuple[Silence, ...]
    files: tuple[str, ...]
    # the records of each first letter of a level
    levels: Mapping[str, int]
    records: int
    # the first file, and the last one with its last line
    ends: tuple[tuple[str, int], tuple[str, int]]
    # from when to when each file reaches
    spans: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def hides(self) -> bool:
        """Whether a level above INFO keeps out the lines that a history is made of."""
        if self.kind not in TELLING:
            # Others, such as that of requests, are kept at WARN by Kafka's own settings.
            return False
        loud = sum(self.levels.get(letter, 0) for letter in "WEF")
        quiet = sum(self.levels.get(letter, 0) for letter in "IDT")
        return loud > 0 and quiet == 0


@dataclass(frozen=True)
class Coverage:
    """All logs of all nodes, and when the last of them ends."""

    logs: tuple[Log, ...] = ()
    begin: int = 0
    end: int = 0
    _of: dict[str, list[Log]] = field(default_factory=dict, compare=False, repr=False)
    _quiet: dict[str, list[tuple[int, int]]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        """Sort the logs by their nodes."""
        for log in self.logs:
            self._of.setdefault(log.node, []).append(log)

    @property
    def nodes(self) -> Iterable[str]:
        """The brokers and controllers that have logs here."""
        return self._of.keys()

    def of(self, node: str) -> Sequence[Log]:
        """Give the logs of a node."""
        return self._of.get(node, ())

    def telling(self, node: str) -> Log | None:
        """Give the log of a node that tells of its partitions."""
        kinds = {log.kind: log for log in self.of(node)}
        return next((kinds[kind] for kind in TELLING if kind in kinds), None)

    def silences(self, node: str) -> Iterator[tuple[int, int]]:
        """Give the stretches in which a node tells nothing of partitions."""
        log = self.telling(node)
        for one in log.silences if log else ():
            yield one.begin, one.end

    def last(self, node: str) -> int | None:
        """Give the moment of the last line that a node could have told of partitions in."""
        log = self.telling(node)
        return log.last if log else None

    def speaks_at(self, node: str, at: int) -> bool:
        """Whether a node has logs around a moment, and was not silent in all of them."""
        logs = [log for log in self.of(node) if log.kind in TELLING]
        return any(log.first - SILENCE <= at <= log.last + SILENCE for log in logs) and not any(
            begin < at < end for begin, end in self.shared(node)
        )

    def reaches_the_end(self, node: str) -> bool:
        """Whether the logs of a node go on until all logs end, but for what is usual for it."""
        last = max((log.last for log in self.of(node)), default=None)
        return last is not None and self.end - last <= max(_TAIL, _FAR * self.usual(node))

    def shared(self, node: str) -> list[tuple[int, int]]:
        """Give the stretches in which none of the logs of a node has a line."""
        if node not in self._quiet:
            # Asked for at every change of every partition.
            self._quiet[node] = _shared(self.of(node))
        return self._quiet[node]

    def usual(self, node: str) -> int:
        """Give how long a node may be silent without it meaning anything."""
        lengths = heapq.nlargest(_USUAL, (end - begin for begin, end in self.shared(node)))
        return lengths[_USUAL - 1] if len(lengths) >= _USUAL else _TAIL // _FAR

    def far(self, node: str) -> int:
        """Give how long a silence of a node is far beyond the usual."""
        return _FAR * self.usual(node)

    def holes(self, node: str) -> list[tuple[int, int]]:
        """Give the silences of a node, in all its logs at once, that are far beyond the usual."""
        far = self.far(node)
        return [(begin, end) for begin, end in self.shared(node) if end - begin > far]


def covered(files: Iterable[FileAccount], clocks: Clocks) -> Coverage:
    """Gather what the logs of brokers and controllers cover."""
    found: dict[tuple[str, str, str], list[FileAccount]] = {}
    for one in files:
        if one.first is None or one.last is None or one.duplicate_of is not None:
            continue
        if one.role in SERVERS and one.node is not None:
            found.setdefault((one.node, one.role, kind_of_log(one.file)), []).append(one)
    logs = tuple(
        _log(node, role, kind, found[node, role, kind], clocks)
        for node, role, kind in sorted(found)
    )
    begin = min((log.first for log in logs), default=0)
    return Coverage(logs, begin, max((log.last for log in logs), default=0))


def kind_of_log(file: str) -> str:
    """Name the kind of log by the name of its file; `all` is where a process writes everything.

    >>> kind_of_log("logs.tgz!broker-1/state-change.log.2026-11-18-11")
    'state-change'
    >>> kind_of_log("controller-1.log")
    'all'
    """
    name = re.split(r"[/!]", file)[-1]
    return next((kind for kind, pattern in _KINDS if pattern.search(name)), "all")


def _log(node: str, role: str, kind: str, files: list[FileAccount], clocks: Clocks) -> Log:
    files = sorted(files, key=lambda one: (one.first or 0, one.last or 0, one.file))
    silences: list[Silence] = []
    spans: dict[str, tuple[int, int]] = {}
    levels: dict[str, int] = {}
    reach: int | None = None
    for one in files:
        first, last = (clocks.correct(node, moment or 0) for moment in (one.first, one.last))
        spans[one.file] = (first, last)
        if reach is not None and first - reach >= SILENCE:
            silences.append(Silence(reach, first, one.file, 1))
        for begin, end, line in one.gaps:
            silences.append(
                Silence(clocks.correct(node, begin), clocks.correct(node, end), one.file, line)
            )
        reach = last if reach is None else max(reach, last)
        for letter, count in one.levels.items():
            levels[letter] = levels.get(letter, 0) + count
    start = min(clocks.correct(node, one.first or 0) for one in files)
    final = max(files, key=lambda one: (one.last or 0, one.file))
    return Log(
        node, role, kind, start, reach or start, tuple(silences),
        tuple(one.file for one in files), levels,
        sum(one.counts["records"] for one in files),
        ((files[0].file, 1), (final.file, max(1, final.counts["lines"]))), spans,
    )  # fmt: skip


def _shared(logs: Sequence[Log]) -> list[tuple[int, int]]:
    """Give the stretches in which none of several logs has a line."""
    if not logs:
        return []
    whole = (min(log.first for log in logs), max(log.last for log in logs))
    shared = [whole]
    for log in logs:
        quiet = [(whole[0], log.first), *((s.begin, s.end) for s in log.silences)]
        quiet.append((log.last, whole[1]))
        shared = _common(shared, sorted(one for one in quiet if one[0] < one[1]))
    return [one for one in shared if one[1] - one[0] >= SILENCE]


def _common(
    some: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Intersect two sorted lists of stretches."""
    found: list[tuple[int, int]] = []
    at = 0
    for begin, end in some:
        while at and other[at - 1][1] > begin:
            at -= 1
        while at < len(other) and other[at][0] < end:
            low, high = max(begin, other[at][0]), min(end, other[at][1])
            if low < high:
                found.append((low, high))
            at += 1
    return found
