"""What the logs tell of a burst of stale metadata: who was asked, who led, how it ended.

Facts only; `stale_metadata_words` puts them into sentences.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow.compute as pc

from forensics.detection.context import (
    EVIDENCE_COLUMNS,
    DetectionContext,
    Row,
    by_time,
    in_topics,
    once_per_run,
    partition_name,
)
from forensics.detection.shared.client_settings import ClientStart, find_client_starts
from forensics.detection.shared.event_sessions import add_first
from forensics.detection.shared.leader_handovers import (
    EpochKey,
    Handover,
    LeaderTerm,
    Propagation,
    measure_propagation,
    read_handovers,
    read_leader_terms,
)
from forensics.detection.shared.leader_moves import LeaderMove
from forensics.detection.shared.stale_metadata_episodes import Episode
from forensics.history.nodes.broker_states import FOREVER, Absence
from forensics.history.nodes.controller_terms import ControllerTerm
from forensics.lib.arrow_io import is_any_of
from forensics.lib.intervals import IntervalIndex, index_by
from forensics.lib.time_units import SECOND

# The clocks of clients, which nothing corrects, and those of nodes may be off by this much.
_CLOCK_SLACK = 2 * SECOND
_DEFAULT_MAX_AGE_MS = 300_000
_DEFAULT_DELIVERY_MS = 120_000
# A session may have to run out before the leader of a dead broker moves.
_SESSION = 30 * SECOND
_MAX_LINES = 3
# The settings that the account rests on.
_SETTINGS = ("metadata.max.age.ms", "acks", "enable.idempotence")

# After these nobody knows whether the broker wrote the batch.
_UNSURE = ("NETWORK_EXCEPTION", "REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS_AFTER_APPEND")
# A producer gave records up, in its own words or in those of its application.
_GIVEN_UP = ("send_failed", "produce_failed", "producer_force_closed", "client_closed_unsent")
_BY_APPLICATION = ("application_error",)
_EXPIRED = r"Expiring \d+ record|[Mm]essage timed out"
_COLUMNS = (*EVIDENCE_COLUMNS, "kind", "error", "topic")
# A moment is looked up in so many windows that begin before it.
_MAX_OPEN = 50


@dataclass
class Account:
    """What is known of one episode; times in corrected microseconds."""

    context: DetectionContext
    episode: Episode
    # the last move of each partition, by the partition's name, in the order of time
    moves: Mapping[str, LeaderMove] = field(default_factory=dict)
    handovers: Mapping[str, Handover] = field(default_factory=dict)
    leader_terms: Mapping[str, Sequence[LeaderTerm]] = field(default_factory=dict)
    starts: Sequence[ClientStart] = ()
    sent: _SendWindow | None = None
    # records that former leaders cut off to follow the new ones
    cut: int = 0
    # the first error after the episode
    next_error: int | None = None

    @property
    def last_move(self) -> tuple[str, LeaderMove] | None:
        """The last move, and its partition."""
        found = [(name, move) for name, move in self.moves.items() if not move.is_first]
        return found[-1] if found else None

    @cached_property
    def previous(self) -> list[int]:
        """The leaders before."""
        before = {move.previous for move in self.moves.values() if not move.is_first}
        return sorted(broker for broker in before if broker is not None and broker >= 0)

    @cached_property
    def leaders(self) -> list[int]:
        """The leaders after."""
        after = {move.leader for move in self.moves.values() if not move.is_first}
        return sorted(broker for broker in after if broker is not None)

    @cached_property
    def asked(self) -> list[int]:
        """The brokers that were asked: as the errors name them, or those that may have answered.

        The former leader answers, unless it was dead; the new one does before it has taken over.
        """
        return sorted(self.episode.asked or {*self.former, *self.not_yet_leading})

    @cached_property
    def former(self) -> list[int]:
        """The leaders before that were alive to answer."""
        return [broker for broker in self.previous if not self._was_dead(broker)]

    @cached_property
    def not_yet_leading(self) -> list[int]:
        """The new leaders that had not taken over when the last error came, as far as clocks tell.

        Where every former leader was dead, a new one answered, if one had just taken over.
        """
        end = self.episode.end if self.former else self.episode.begin - _CLOCK_SLACK
        lines = (self.handovers[name].took_over for name in self.moves if name in self.handovers)
        late = {row["broker"] for row in lines if row is not None and row["at"] > end}
        return sorted(late & set(self.leaders) - set(self.former))

    def _was_dead(self, broker: int) -> bool:
        episode = self.episode
        begin, end = episode.begin - _CLOCK_SLACK, episode.end + _CLOCK_SLACK
        own = [hand.brokers[broker]["at"] for hand in self.handovers.values()
               if broker in hand.brokers]  # fmt: skip
        return any(
            absence.kind == "crash"
            and absence.begin <= begin
            and (absence.end is None or absence.end >= end)
            and not any(absence.begin <= at <= end for at in own)
            for absence in _absences_between(self.context, broker, begin, end)
        )

    @cached_property
    def absences(self) -> list[Absence]:
        """The absences of former leaders that took the leadership from them, in order."""
        found = {
            (absence.broker, absence.begin): absence
            for move in self.moves.values()
            if not move.is_first and (absence := absence_behind(self.context, move)) is not None
        }
        if self.episode.absence is not None:
            found[self.episode.absence.broker, self.episode.absence.begin] = self.episode.absence
        return sorted(found.values(), key=lambda absence: (absence.begin, absence.broker))

    @cached_property
    def propagation(self) -> Propagation | None:
        """How long the slowest broker took to take up a new leader epoch."""
        measured = [measure_propagation(self.context, hand) for hand in self.handovers.values()]
        known = [one for one in measured if one is not None]
        return max(known, key=lambda one: one.least, default=None)

    @cached_property
    def outdated(self) -> list[int]:
        """Former leaders that went on logging, but never that they no longer lead: zombies."""
        found = set()
        for name, move in self.moves.items():
            handover, broker = self.handovers.get(name), move.previous
            if handover is None or broker is None or broker < 0 or broker in handover.brokers:
                continue
            heard = {row["broker"] for row in handover.brokers.values()}
            if heard and self._went_on(broker, max(move.start, self.episode.end)):
                found.add(broker)
        return sorted(found)

    def _went_on(self, broker: int, moment: int) -> bool:
        """Return True if a broker was never away since, and its log goes on."""
        node = f"broker-{broker}"
        last = self.context.last_logged.get(node)
        since = min([moment, *(one.begin for one in self.absences)])
        away = any((one.end is None or one.end >= since) and one.kind != "pause"
                   for one in _absences_between(self.context, broker, since, FOREVER))  # fmt: skip
        if last is None or away:
            return False
        settled = self.context.limits["stale-metadata"]["settled"] * SECOND
        return bool(self.context.history.clocks.correct(node, last) - moment > settled)

    @cached_property
    def next_move(self) -> tuple[str, LeaderTerm] | None:
        """The first time that one of these leaders changed again, and the partition."""
        found = []
        for name, move in self.moves.items():
            since = move.settled_at
            later = [
                term
                for term in self.leader_terms.get(name, ())
                if since is not None and term.begin is not None and term.begin > since
            ]
            found += [(term.begin or 0, name, term) for term in later[:1]]
        first = min(found, key=lambda one: one[:2], default=None)
        return None if first is None else first[1:]

    @property
    def is_stable(self) -> bool | None:
        """Whether these leaders led on to the end of the logs; None: nothing moved."""
        if self.last_move is None:
            return None
        return self.next_move is None and self.last_known is None

    @property
    def last_known(self) -> int | None:
        """The last moment until which the logs know the leader, if that is not their end."""
        ends = [
            self.leader_terms[name][-1].end for name in self.moves if self.leader_terms.get(name)
        ]
        return min((end for end in ends if end is not None), default=None)

    @property
    def recovered(self) -> bool | None:
        """Whether errors stopped while the client's log went on; None: it ends too soon."""
        if self.next_error is not None:
            return True
        settled = self.context.limits["stale-metadata"]["settled"] * SECOND
        return True if self.quiet > settled else None

    @cached_property
    def quiet(self) -> int:
        """How long the client's log goes on after the last error."""
        node, end = self.episode.node, self.episode.end
        last = self.context.last_logged.get(node)
        return 0 if last is None else self.context.history.clocks.correct(node, last) - end

    @cached_property
    def terms(self) -> list[ControllerTerm]:
        """The controllers' terms, and times without one, from the move to the last error."""
        begin = min([self.episode.begin, *(move.start for move in self.moves.values())])
        begin, end = begin - _CLOCK_SLACK, self.episode.end
        return [
            term
            for term in self.context.history.lanes.terms.terms
            if term.span.begin <= end and (term.span.end is None or term.span.end >= begin)
        ]

    @property
    def max_age_ms(self) -> int:
        """The longest metadata.max.age.ms of these clients, or the default."""
        return max(self.logged_numbers("metadata.max.age.ms"), default=_DEFAULT_MAX_AGE_MS)

    def logged_numbers(self, setting: str) -> list[int]:
        """Return the values of a setting that the clients logged."""
        found = (start.number(setting) for start in self.starts)
        return sorted({number for number in found if number is not None})

    def logged(self, setting: str) -> list[str]:
        """Return the values of a setting that the producers logged."""
        return sorted({start.values[setting] for start in self.starts if setting in start.values})

    def fails_fast(self, few: int, short: float) -> list[str]:
        """Return the settings by which these producers give up before an election is over."""
        found = []
        if any(number <= few for number in self.logged_numbers("retries")):
            found.append("retries")
        if any(number < short * 1000 for number in self.logged_numbers("delivery.timeout.ms")):
            found.append("delivery.timeout.ms")
        return found

    @property
    def is_consumer(self) -> bool:
        """Whether all clients are consumers, by their settings or by their lines."""
        if self.starts:
            return not any(start.is_producer for start in self.starts)
        return all("[Consumer " in (row["text"] or "") for row in self.episode.first)

    def evidence(self) -> list[Row]:
        """Return the lines that tell of it, besides the errors."""
        moves = [
            row
            for name in list(self.moves)[:_MAX_LINES]
            if (hand := self.handovers.get(name)) is not None
            for row in (hand.decided, hand.took_over)
            if row is not None
        ]
        former = [
            hand.brokers[move.previous]
            for name, move in list(self.moves.items())[:1]
            if (hand := self.handovers.get(name)) is not None and move.previous in hand.brokers
        ]
        late = list(self.propagation.lines) if self.propagation is not None else []
        sent = self.sent.lines[:_MAX_LINES] if self.sent is not None else []
        absent = [line for one in self.absences[:_MAX_LINES] for line in one.evidence[:1]]
        starts = [
            start.lines[name]
            for start in self.starts[:_MAX_LINES]
            for name in _SETTINGS
            if name in start.lines
        ]
        return [*starts, *moves, *former, *late, *sent, *map(dict, absent)]


@once_per_run
def _absences_of(context: DetectionContext) -> Mapping[int, IntervalIndex[Absence]]:
    """Return the absences of each broker, in order."""
    return index_by(
        sorted(context.absences, key=lambda one: one.begin),
        lambda one: (one.broker,),
        lambda one: (one.begin, FOREVER if one.end is None else one.end),
    )


def _absences_between(
    context: DetectionContext, broker: int, begin: int, end: int
) -> Sequence[Absence]:
    own = _absences_of(context).get(broker)
    return own.around(begin, end) if own else ()


def absence_behind(context: DetectionContext, move: LeaderMove) -> Absence | None:
    """Return the absence of the former leader in which its leadership moved."""
    near = context.limits["stale-metadata"]["near"] * SECOND
    if move.previous is None:
        return None
    found = _absences_between(context, move.previous, move.start - near, move.start + near)
    # Of two the one that was under way.
    return min(found, key=lambda one: abs(one.begin - move.start), default=None)


def build_accounts(context: DetectionContext, episodes: Sequence[Episode]) -> list[Account]:
    """Look up what is known of each episode, for all of them at once."""
    accounts = [Account(context, episode, _named_moves(episode)) for episode in episodes]
    keys = [_epoch_keys(account) for account in accounts]
    wanted = {
        key: account.moves[name].start - _CLOCK_SLACK
        for account, own in zip(accounts, keys, strict=True)
        for name, key in own.items()
    }
    handovers = read_handovers(context, wanted)
    leader_terms = read_leader_terms(context, {name for own in keys for name in own})
    cuts = _read_cuts(context, {topic for topic, _, _ in wanted})
    for account, own, following in zip(accounts, keys, _next_errors(episodes), strict=True):
        episode = account.episode
        account.handovers = {name: handovers[key] for name, key in own.items() if key in handovers}
        account.leader_terms = {name: leader_terms[name] for name in own if name in leader_terms}
        account.cut = sum(
            _cut_behind(account, name, move, cuts.get(name, ()))
            for name, move in account.moves.items()
        )
        account.next_error = following
        account.starts = find_client_starts(context, episode.node, episode.clients, episode.end)
        account.sent = _send_window(account)
    _count_send_outcomes(context, [one.sent for one in accounts if one.sent is not None])
    return accounts


def _named_moves(episode: Episode) -> Mapping[str, LeaderMove]:
    named = {
        f"{topic}-{move.partition if number is None else number}": move
        for (topic, number), move in episode.latest.items()
    }
    return dict(sorted(named.items(), key=lambda item: (item[1].start, item[0])))


def _epoch_keys(account: Account) -> Mapping[str, EpochKey]:
    """Return the leader epoch of each move; a new topic is looked at as a whole."""
    return {
        name: (name.rpartition("-")[0], None if move.is_first else move.partition, epoch)
        for name, move in account.moves.items()
        if (epoch := move.leader_epoch) is not None
    }


def _read_cuts(context: DetectionContext, topics: Collection[str]) -> Mapping[str, list[Row]]:
    """Read what brokers cut off their logs, by partition, in order."""
    found: dict[str, list[Row]] = {}
    if not topics:
        return found
    columns = ["topic", "partition", "broker", "started_at", "cut_to", "log_end"]
    for row in context.each("cuts", in_topics(topics), columns):
        if None not in (row["started_at"], row["cut_to"], row["log_end"]):
            found.setdefault(partition_name(row), []).append(row)
    return {name: sorted(rows, key=lambda row: row["started_at"]) for name, rows in found.items()}


def _cut_behind(account: Account, name: str, move: LeaderMove, rows: Sequence[Row]) -> int:
    """Count what the former leader cut off as it followed, before it led again."""
    since = move.start - _CLOCK_SLACK
    again = [term.begin for term in account.leader_terms.get(name, ())
             if term.leader == move.previous and (term.begin or 0) > move.start]  # fmt: skip
    first = next((row for row in rows if row["broker"] == move.previous
                  and row["started_at"] >= since), None)  # fmt: skip
    if first is None or (again and first["started_at"] >= (again[0] or 0)):
        return 0
    return int(first["log_end"] - first["cut_to"])


def _next_errors(episodes: Sequence[Episode]) -> list[int | None]:
    """Return for each episode when the next one of its process begins."""
    begins: dict[str, list[int]] = {}
    for episode in sorted(episodes, key=lambda one: one.begin):
        begins.setdefault(episode.node, []).append(episode.begin)
    return [
        own[after] if (after := bisect_right(own, one.end)) < len(own) else None
        for one in episodes
        for own in [begins[one.node]]
    ]


def _send_window(account: Account) -> _SendWindow | None:
    """Return the time in which what producers say is about this episode."""
    episode = account.episode
    if account.is_consumer or not episode.topics:
        return None
    begin = min([episode.begin, *(move.start for move in account.moves.values())])
    for absence in account.absences:
        begin = min(begin, max(absence.begin, begin - _SESSION))
    delivery = max(account.logged_numbers("delivery.timeout.ms"), default=_DEFAULT_DELIVERY_MS)
    begin, end = begin - _CLOCK_SLACK, episode.end + _CLOCK_SLACK
    expires = end + delivery * 1000
    return _SendWindow(episode.node, frozenset(episode.topics), begin, end, expires)


@dataclass
class _SendWindow:
    """What the producers of a node said of some topics within a time."""

    node: str
    topics: Collection[str]
    begin: int
    end: int
    # until when batches that were made in that time may be given up
    expires: int
    unsure: int = 0
    given_up: int = 0
    lines: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Count a line, if it belongs here."""
        is_unsure = row["error"] in _UNSURE and row["kind"] == "client_error"
        if not self.begin <= row["at"] <= (self.end if is_unsure else self.expires):
            return
        if row["topic"] is not None and row["topic"] not in self.topics:
            return
        self.unsure += is_unsure
        self.given_up += not is_unsure
        add_first(self.lines, row, lambda line: (line["kind"] == "client_error", by_time(line)))


def _count_send_outcomes(context: DetectionContext, windows: Sequence[_SendWindow]) -> None:
    """Read what producers said, in one pass, and count it in the windows."""
    if not windows:
        return
    by_node: dict[str, list[_SendWindow]] = {}
    for window in sorted(windows, key=lambda one: one.begin):
        by_node.setdefault(window.node, []).append(window)
    begins = {node: [one.begin for one in own] for node, own in by_node.items()}
    kind, error = pc.field("kind"), pc.field("error")
    where = (kind == "client_error") & error.isin(_UNSURE)
    where |= kind.isin(_GIVEN_UP)
    expired = pc.match_substring_regex(pc.field("detail"), _EXPIRED)
    where |= kind.isin(_BY_APPLICATION) & expired
    where &= is_any_of("node", by_node) & pc.field("ts").is_valid()
    for row in context.each("events", where, [*_COLUMNS, "detail"]):
        last = bisect_right(begins[row["node"]], row["at"])
        for window in by_node[row["node"]][max(0, last - _MAX_OPEN) : last]:
            window.add(row)
