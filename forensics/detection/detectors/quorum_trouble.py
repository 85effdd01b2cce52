"""A KRaft quorum without a leader: elections that fail, time-outs, a majority that is lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext
from forensics.detection.requirements import SERVERS
from forensics.detection.shared.absence_causes import (
    absences_of,
    no_quorum_absences,
    session_timeout,
)
from forensics.detection.shared.event_sessions import Outage, Recoveries, find_outages
from forensics.history.nodes.broker_states import Absence
from forensics.lib.sessionize import sessions
from forensics.lib.text_format import join_names
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "quorum-trouble"
NEEDS = SERVERS
_FAILED = ("raft_election_timed_out", "raft_votes_refused")
_TROUBLE = (
    *_FAILED, "raft_majority_lost", "raft_fetch_timed_out", "raft_election_retried",
    "controller_unknown",
)  # fmt: skip
# States that prove a leader: its own, and those of its followers.
_LEADS = ("Leader", "LeaderState", "Follower", "FollowerState")


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each run of times without a leader, and each controller left alone."""
    limits = context.limits[NAME]
    runs: dict[bool, list[Outage]] = {False: [], True: []}
    for outage in find_outages(
        context, _TROUBLE, lambda: _read_leader_sightings(context), limits["gap"]
    ):
        is_trouble = (
            outage.seconds >= limits["leaderless"] or _count_failed([outage]) >= limits["failed"]
        )
        if is_trouble and not _is_shut_down(context, outage.begin):
            runs[_is_led_elsewhere(context, outage)].append(outage)
    for is_cut_off, outages in runs.items():
        rest = limits["rest"] * SECOND
        for again in sessions(outages, lambda one: one.begin, rest, lambda one: one.end):
            yield _leaderless_finding(context, again, is_cut_off=is_cut_off)
    no_quorum = no_quorum_absences(context)
    for broker in sorted({broker for broker, _ in no_quorum}):
        run = [
            absence
            for absence in absences_of(context, broker)
            if (absence.broker, absence.begin) in no_quorum
        ]
        yield _lost_majority_finding(context, broker, run)


def _read_leader_sightings(context: DetectionContext) -> Recoveries:
    """Return the moments at which a leader was seen, by itself or by others."""
    leads, kind = pc.field("to_state").isin(_LEADS), pc.field("kind")
    # Brokers name a controller without an epoch, and go on to name one that is gone.
    seen = (kind == "controller_seen") & pc.field("controller_epoch").is_valid()
    where = (kind == "controller_elected") | ((kind == "raft_transition") & leads) | seen
    rows = context.each("events", where & pc.field("ts").is_valid(), ["node", "ts", "file", "line"])
    vain = context.history.lanes.terms.vain_returns
    return {"": sorted({row["at"] for row in rows if (row["node"], row["at"]) not in vain})}


def _count_failed(outages: Sequence[Outage]) -> int:
    return sum(outage.kinds[kind] for outage in outages for kind in _FAILED)


def _leaderless_finding(
    context: DetectionContext, run: Sequence[Outage], *, is_cut_off: bool
) -> Finding:
    limits, last, failed = context.limits[NAME], run[-1], _count_failed(run)
    longest = max(outage.seconds for outage in run)
    refused = sum(outage.kinds["raft_votes_refused"] for outage in run)
    nodes = sorted({node for outage in run for node in outage.nodes})
    worst = max(run, key=lambda outage: outage.seconds)
    voters, silent = ([], []) if is_cut_off else _silent_controllers(context, worst)
    is_minority = bool(silent) and 2 * len(silent) >= len(voters)
    shown = join_names(silent)
    level = "severe" if longest >= limits["long"] else "severity"
    is_open = any(one.recovered_at is None and one.seconds == longest for one in run)
    least = "at least " if is_open else ""
    failures = f": {failed} elections failed" if failed > 1 else ""
    subject = ", ".join(nodes) if is_cut_off else "The quorum"
    verb = "found no leader" if is_cut_off else "had no leader"
    times = f" {len(run)} times, for up to " if len(run) > 1 else " for "
    return context.finding(
        NAME,
        limits["outside" if is_cut_off else level],
        f"{subject} {verb}{times}{least}{longest:.1f} s{failures}",
        run[0].begin,
        max(outage.end for outage in run),
        [line for outage in run for line in outage.first],
        measures={
            "kind": "cut_off" if is_cut_off else "no_leader",
            "times": len(run),
            "longest_s": round(longest, 1),
            "failed": failed,
            "refused": refused,
            "epochs": sum(one.epochs[1] - one.epochs[0] for one in run if one.epochs),
            "nodes": nodes,
            "still": last.recovered_at is None,
        }
        | ({"silent": silent} if is_minority else {}),
        explanation=(_OUTSIDE if is_cut_off else _EXPLANATION)
        + (_MINORITY.format(names=shown, of=len(voters)) if is_minority else "")
        + (_REFUSED if 2 * refused > failed else ""),
        actions=[
            f"{context.commands.quorum()}   # who votes, and how far is each behind?",
            _START.format(names=shown) if is_minority else _NAMES,
            "Do not format or delete a controller's metadata log to settle it.",
        ],
        why=f"no leader was known for {longest:.1f} s and {failed} elections failed;"
        f" {limits['leaderless']} s or {limits['failed']} failed ones are trouble",
        doubts=["If logs of controllers are missing, one of them may have led all the while."],
    )


def _silent_controllers(context: DetectionContext, outage: Outage) -> tuple[list[str], list[str]]:
    """Return the controllers whose logs are here, and those that wrote nothing as it went on.

    Who runs without a leader stands for election every few seconds, and writes that.
    """
    files = context.visibility.files
    voters = sorted({file["node"] for file in files if file["role"] == "controller"})
    half = outage.begin + round(outage.seconds * SECOND) // 2
    silent = [node for node in voters if context.is_silent(node, outage.begin, half)]
    return voters, silent


def _is_led_elsewhere(context: DetectionContext, outage: Outage) -> bool:
    """Return True if another node led all the while, and kept logging: only some were cut off."""
    return any(
        term.span.state == "active"
        and term.node not in outage.nodes
        and term.span.begin <= outage.begin
        and (term.span.end is None or term.span.end >= outage.last_seen)
        and not context.is_silent(term.node, outage.begin, outage.end)
        for term in context.history.lanes.terms.terms
    )


def _is_shut_down(context: DetectionContext, moment: int) -> bool:
    """Return True if all brokers had been stopped in order by then: the cluster is shut down."""
    brokers = set(context.history.lanes.brokers)
    stopped = {
        absence.broker
        for absence in context.absences
        if absence.kind == "controlled" and absence.end is None and absence.begin <= moment
    }
    return bool(brokers) and brokers <= stopped


def _lost_majority_finding(
    context: DetectionContext, broker: int, run: Sequence[Absence]
) -> Finding:
    limits = context.limits[NAME]
    begin, end = run[0].begin, run[-1].end or run[-1].begin
    evidence = [line for absence in run for line in absence.evidence]
    session = session_timeout(context)
    steps = [(b.begin - a.begin) / SECOND for a, b in pairwise(run)]
    period = sorted(steps)[len(steps) // 2]
    return context.finding(
        NAME,
        limits["lost"],
        f"A controller without a majority fenced broker {broker} {len(run)} times"
        f" in {(end - begin) / SECOND:.0f} s",
        begin,
        end,
        evidence,
        stated=False,
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
        f" {limits['lone']} times are not by chance",
        doubts=["A broker none of whose heartbeats gets through would show the same period."],
    )


_MINORITY = (
    " {names}, of {of} controllers whose logs are here, wrote nothing meanwhile: without a majority"
    " of its voters a quorum elects nobody."
)
_START = (
    "Start {names} first, one after the other: a majority of the voters has to run, and the rest"
    " follows by itself."
)
_NAMES = (
    "Check that the controllers reach each other by the names in controller.quorum.voters; names "
    "that do not resolve yet are common when all start at once."
)
_OUTSIDE = (
    "Another controller led all that time: those that found no leader were cut off from it, or "
    "froze. As long as a majority is left, the cluster keeps working."
)
_EXPLANATION = (
    "While no controller leads, no partition gets a new leader, no broker is let in or fenced, and"
    " no topic is created. Partitions with a leader keep working."
)
_REFUSED = (
    " Most candidates were refused: the voters reach each other, but they do not agree whose log is"
    " long enough, or who the voters are."
)
