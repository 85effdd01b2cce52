"""A KRaft quorum without a leader: elections that fail, time-outs, a majority that is lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext
from forensics.detection.requirements import SERVERS
from forensics.detection.shared.broker_absences import (
    absences_of,
    no_quorum_absences,
    session_timeout,
)
from forensics.detection.shared.event_sessions import Outage, Recoveries, find_outages
from forensics.history.nodes.broker_states import Absence
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "quorum-trouble"
NEEDS = SERVERS
_FAILED = ("raft_election_timed_out", "raft_votes_refused")
_TROUBLE = (
    *_FAILED, "raft_majority_lost", "raft_fetch_timed_out", "raft_election_retried",
    "controller_unknown",
)  # fmt: skip
# Whoever leads is known by its own words, or by those of who follows it.
_LEADS = ("Leader", "LeaderState", "Follower", "FollowerState")


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each time without a leader, and for each controller left alone."""
    limits = context.limits[NAME]
    for search in find_outages(context, _TROUBLE, lambda: _led(context), limits["gap"]):
        much = search.seconds >= limits["leaderless"] or _failed(search) >= limits["failed"]
        if much and not _nobody_left(context, search.begin):
            yield _leaderless(context, search)
    lone = no_quorum_absences(context)
    for broker in sorted({one for one, _ in lone}):
        mine = [one for one in absences_of(context, broker) if (one.broker, one.begin) in lone]
        yield _alone(context, broker, mine)


def _led(context: DetectionContext) -> Recoveries:
    """Give the moments at which a leader was known to be in office, by itself or by others."""
    leads, kind = pc.field("to_state").isin(_LEADS), pc.field("kind")
    # Brokers name a controller without an epoch, and go on to name one that is gone.
    seen = (kind == "controller_seen") & pc.field("controller_epoch").is_valid()
    where = (kind == "controller_elected") | ((kind == "raft_transition") & leads) | seen
    rows = context.each("events", where & pc.field("ts").is_valid(), ["node", "ts"])
    return {"": sorted({row["at"] for row in rows})}


def _failed(search: Outage) -> int:
    return sum(search.kinds[kind] for kind in _FAILED)


def _leaderless(context: DetectionContext, search: Outage) -> Finding:
    limits = context.limits[NAME]
    outside = _led_elsewhere(context, search)
    confidence, reason = context.confidence(search.begin, search.end, search.first, stated=True)
    word = "severe" if search.seconds >= limits["long"] else "severity"
    least = "at least " if search.recovered_at is None else ""
    failed = _failed(search)
    vain = f": {failed} elections failed" if failed > 1 else ""
    who = ", ".join(sorted(search.nodes)) if outside else "The quorum"
    what = "found no leader" if outside else "had no leader"
    return Finding(
        detector=NAME,
        severity=limits["outside" if outside else word],
        confidence=confidence,
        title=f"{who} {what} for {least}{search.seconds:.1f} s{vain}",
        begin=search.begin,
        end=search.end,
        evidence=search.first,
        measures={
            "kind": "cut_off" if outside else "no_leader",
            "longest_s": round(search.seconds, 1),
            "failed": failed,
            "refused": search.kinds["raft_votes_refused"],
            "epochs": search.epochs[1] - search.epochs[0] if search.epochs else 0,
            "nodes": sorted(search.nodes),
            "still": search.recovered_at is None,
        },
        explanation=(_OUTSIDE if outside else _EXPLANATION)
        + (_REFUSED if 2 * search.kinds["raft_votes_refused"] > failed else ""),
        actions=[
            f"{context.commands.quorum()}   # who votes, and how far is each behind?",
            _NAMES,
            "Do not format or delete a controller's metadata log to settle it.",
        ],
        why=f"no leader was known for {search.seconds:.1f} s and {failed} elections failed;"
        f" {limits['leaderless']} s or {limits['failed']} failed ones are trouble",
        reason=reason,
        doubts=["If logs of controllers are missing, one of them may have led all the while."],
    )


def _led_elsewhere(context: DetectionContext, search: Outage) -> bool:
    """Whether another node led all the while, and its log goes on: only some were cut off."""
    return any(
        term.span.state == "active"
        and term.node not in search.nodes
        and term.span.begin <= search.begin
        and (term.span.end is None or term.span.end >= search.last_seen)
        and not context.is_silent(term.node, search.begin, search.end)
        for term in context.history.lanes.terms.terms
    )


def _nobody_left(context: DetectionContext, moment: int) -> bool:
    """Whether all brokers had been stopped in order by then: a cluster that is shut down."""
    known = set(context.history.lanes.brokers)
    stopped = {
        one.broker
        for one in context.absences
        if one.kind == "controlled" and one.end is None and one.begin <= moment
    }
    return bool(known) and known <= stopped


def _alone(context: DetectionContext, broker: int, run: Sequence[Absence]) -> Finding:
    limits = context.limits[NAME]
    begin, end = run[0].begin, run[-1].end or run[-1].begin
    evidence = [place for one in run for place in one.evidence]
    confidence, reason = context.confidence(begin, end, evidence, stated=False)
    session = session_timeout(context)
    steps = [(b.begin - a.begin) / SECOND for a, b in zip(run, run[1:], strict=False)]
    period = sorted(steps)[len(steps) // 2]
    return Finding(
        detector=NAME,
        severity=limits["lost"],
        confidence=confidence,
        title=f"A controller without a majority fenced broker {broker} {len(run)} times"
        f" in {(end - begin) / SECOND:.0f} s",
        begin=begin,
        end=end,
        evidence=evidence,
        brokers=[broker],
        measures={
            "kind": "lost_majority",
            "cycles": len(run),
            "period_s": round(period, 1),
            "session_s": session,
        },
        explanation=f"Every {period:.1f} s, a session and the time-out of a heartbeat, the broker"
        " was let in and fenced again. That is no flapping broker: its controller could commit"
        " nothing, for it heard of no other voter, so that no heartbeat was ever answered. What it"
        " decided in that time was not committed.",
        actions=[
            f"{context.commands.quorum()}   # are a majority of the controllers there?",
            f"Start the other controllers. Do not restart broker {broker}: it is well.",
        ],
        why=f"{len(run)} times up for one session of {session:g} s and away for half of one;"
        f" {limits['lone']} times are no chance",
        reason=reason,
        doubts=["A broker none of whose heartbeats gets through would show the same period."],
    )


_NAMES = (
    "Check that the controllers reach each other by the names in controller.quorum.voters; names "
    "that do not resolve yet are common when all start at once."
)
_OUTSIDE = (
    "Another controller led all the while: those that found no leader were cut off from it, or "
    "stood still. As long as a majority is left, the cluster goes on to work."
)
_EXPLANATION = (
    "While no controller leads, no partition gets a new leader, no broker is let in or fenced, and"
    " no topic is made. What has a leader goes on to work."
)
_REFUSED = (
    " Most candidates were refused: the voters reach each other, but they do not agree whose log is"
    " long enough, or who the voters are."
)
