"""What became of a broker's registration: expired, renewed, refused, or held by somebody else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from forensics.incidents.case import Case, Row

__all__ = ["Expiry", "Refusal", "Sessions", "sessions"]

_MICROS = 1_000_000
_KINDS = (
    "session_expired", "broker_registered", "broker_reregistered", "brokers_joined",
    "registration_failed", "process_starting",
)  # fmt: skip
# Why a registration is refused if there is one of that id already.
_TAKEN = ("NODEEXISTS", "DUPLICATE_BROKER_REGISTRATION")
# ZooKeeper's client and Kafka each say that a session is over.
_ECHO = 5 * _MICROS


@dataclass(frozen=True)
class Expiry:
    """One session that ended, and when its broker was registered again, if it was."""

    at: int
    rows: Sequence[Row]
    healed: int | None
    # what the broker was told as it tried, or when it was started again
    refused: Sequence[Row]
    restarted: int | None


@dataclass(frozen=True)
class Refusal:
    """Registrations that were refused one after the other, up to one that was not."""

    rows: Sequence[Row]
    owners: Sequence[str]
    healed: int | None
    # how many processes tried, one after the other
    lives: int

    @property
    def seconds(self) -> float:
        """From the first to the last of them."""
        micros: int = self.rows[-1]["at"] - self.rows[0]["at"]
        return round(micros / _MICROS, 3)

    @property
    def widest(self) -> float:
        """The longest time between two of them."""
        pairs = zip(self.rows, self.rows[1:], strict=False)
        return max(((b["at"] - a["at"]) / _MICROS for a, b in pairs), default=0.0)


@dataclass(frozen=True)
class Sessions:
    """All of one node."""

    node: str
    broker: int | None
    expiries: Sequence[Expiry]
    refusals: Sequence[Refusal]


def sessions(case: Case) -> Iterator[Sessions]:
    """Follow the registrations of each broker whose log is here."""
    columns = ["kind", "ts", "node", "broker", "error", "detail", "file", "line", "text", "rule"]
    rows = case.rows("events", pc.field("kind").isin(_KINDS) & pc.field("ts").is_valid(), columns)
    rows.sort(key=lambda one: (one["at"], one["node"] or "", one["line"]))
    roles = {one["node"]: one["role"] for one in case.sight.files}
    joined = [one for one in rows if one["kind"] == "brokers_joined"]
    for node in sorted({one["node"] for one in rows if roles.get(one["node"]) == "broker"}):
        mine = [one for one in rows if one["node"] == node and one["kind"] != "brokers_joined"]
        broker = _number(node)
        others = [one["at"] for one in joined if one["broker"] == broker]
        own = [one["at"] for one in mine if one["kind"].startswith("broker_")
               and one["broker"] in (None, broker)]  # fmt: skip
        good = sorted([*others, *own])
        starts = [one["at"] for one in mine if one["kind"] == "process_starting"]
        refused = [one for one in mine if one["kind"] == "registration_failed"
                   and one["error"] in _TAKEN and one["broker"] == broker]  # fmt: skip
        gone = [one for one in mine if one["kind"] == "session_expired"]
        yield Sessions(
            node, broker, list(_expiries(gone, refused, good, starts)),
            list(_refusals(refused, good, starts)),
        )  # fmt: skip


def _expiries(
    gone: Sequence[Row], refused: Sequence[Row], good: Sequence[int], starts: Sequence[int]
) -> Iterator[Expiry]:
    groups: list[list[Row]] = []
    for row in gone:
        if groups and row["at"] - groups[-1][-1]["at"] <= _ECHO:
            groups[-1].append(row)
        else:
            groups.append([row])
    for at, group in enumerate(groups):
        begin = group[0]["at"]
        after = groups[at + 1][0]["at"] if at + 1 < len(groups) else None
        healed = _first(good, begin, after)
        until = healed if healed is not None else after
        told = [one for one in refused if begin <= one["at"] and (not until or one["at"] <= until)]
        yield Expiry(begin, group, healed, told, _first(starts, begin, after))


def _refusals(
    refused: Sequence[Row], good: Sequence[int], starts: Sequence[int]
) -> Iterator[Refusal]:
    run: list[Row] = []
    for row in [*refused, None]:
        ended = row is None or (run and _first(good, run[-1]["at"], row["at"]) is not None)
        if ended and run:
            owners = sorted({one["detail"] for one in run if one["detail"]})
            until = None if row is None else row["at"]
            between = sum(run[0]["at"] < at <= run[-1]["at"] for at in starts)
            lives = _told_starts(between, len(run))
            yield Refusal(run, owners, _first(good, run[-1]["at"], until), lives)
            run = []
        if row is not None:
            run.append(row)


def _told_starts(between: int, refused: int) -> int:
    """Count processes: one start says so in several lines, and each is refused at least once."""
    return min(refused, between + 1)


def _first(moments: Sequence[int], after: int, until: int | None) -> int | None:
    return next((at for at in moments if at >= after and (until is None or at < until)), None)


def _number(node: str | None) -> int | None:
    digits = (node or "").rpartition("-")[2]
    return int(digits) if digits.isdigit() else None
