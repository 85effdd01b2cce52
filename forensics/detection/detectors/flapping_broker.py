"""Brokers that leave and come back again and again; a rolling restart is not that."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, partition_name
from forensics.detection.shared.absence_causes import (
    FailedStarts,
    death_reasons,
    departure_kind,
    failed_starts,
    refused_by_old_session,
    registration_times,
)
from forensics.detection.shared.flapping_brokers import (
    IsrFlapping,
    find_flapping_absences,
    find_isr_flapping,
    list_absences,
)
from forensics.detection.shared.isr_changes import check_in_sync, say_in_sync_again
from forensics.detection.shared.leader_moves import rebalance_interval, rebalances_itself
from forensics.detection.shared.process_ends import END_WORDS, ends_of_absence, rows_of
from forensics.detection.shared.process_stalls import (
    STARVED,
    ProcessStall,
    find_stalls,
    gc_logs_cover,
    look_at_machine,
)
from forensics.history.nodes.broker_states import Absence
from forensics.lib.node_ids import broker_node
from forensics.lib.text_format import quantity, seconds_text
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "flapping-broker"


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each broker that flaps."""
    flapping = find_flapping_absences(context)
    starts = registration_times(context) if flapping else {}
    for broker, run in flapping.items():
        yield _absence_finding(context, broker, run, starts.get(broker, ()))
    for dropouts in find_isr_flapping(context, skip=flapping):
        yield _isr_finding(context, dropouts)


def _absence_finding(
    context: DetectionContext, broker: int, run: Sequence[Absence], starts: Sequence[int]
) -> Finding:
    limits = context.limits[NAME]
    away = [(absence.end - absence.begin) / SECOND for absence in run if absence.end is not None]
    median = round(statistics.median(away), 1) if away else None
    moved, led_again = _moved_partitions(context, broker, run)
    ways = Counter(departure_kind(absence, starts) for absence in run)
    how = "mixed" if len(ways) > 1 or "unknown" in ways else next(iter(ways))
    # One whose own log is silent froze; another one only lost its session.
    froze = how == "pause" and all(absence.kind == "pause" for absence in run)
    said = "froze" if froze else how
    begin, is_back = run[0].begin, run[-1].end is not None
    end = run[-1].end if run[-1].end is not None else max(context.logs_end, run[-1].begin)
    evidence: list[Mapping[str, Any]] = [place for one in run for place in one.evidence]
    # Those who ran the processes may say why they ended.
    evidence += [row for one in run for row in rows_of(ends_of_absence(context, one)[:1])]
    tried = [failed_starts(context, one) for one in run]
    failed = sum(one.failed for one in tried)
    evidence += [row for one in tried for row in one.rows]
    starts_text = ""
    if failed:
        starts_text = f", and {failed} of {sum(one.starts for one in tried)} starts failed"
    others = _other_freezes(context, broker, run) if froze else []
    evidence += [line for stall in others for line in stall.evidence]
    verb = _VERBS[said]
    if others:
        verb = f"froze at least {len(run) + len(others)} times and lost its session"
    # That it froze, and how often, follows from silence where lines tell of some times only.
    stated = all(absence.fencing is not None for absence in run) and not others
    last = round((run[-1].begin - begin) / SECOND)
    long = f", down {seconds_text(median, 0)} each (median)" if median is not None else ""
    if said != "crash":
        long = f", away up to {seconds_text(max(away))}" if away else ""
    moves = quantity(len(moved), "partition") + " got other leaders"
    moves += f", and broker {broker} led {len(led_again) or 'none'} of them again later"
    return context.finding(
        NAME,
        limits["severity"],
        f"Broker {broker} {verb} {len(run)} times{starts_text}{long}"
        + ("" if is_back else "; not back before the logs end"),
        begin,
        end,
        evidence,
        stated=stated,
        brokers=[broker],
        partitions=moved,
        measures={
            "cycles": len(run),
            "median_away_s": median,
            "partitions_moved": len(moved),
            "led_again": len(led_again),
            "how": how,
            "ways": dict(sorted(ways.items())),
        }
        | {"absences": list_absences(((one.begin, one.end) for one in run), run)}
        | _known_causes(context, run, tried)
        | (_freezes(run, others) if others else {}),
        explanation=_EXPLANATIONS[said].format(broker=broker, cycles=len(run))
        + _why_it_ended(context, run)
        + _why_starts_failed(failed, tried)
        + (_SHORTER.format(count=quantity(len(others), "more freeze")) if others else "")
        + (_UNSEEN if froze else "")
        + (f" {moves}." if moved else "")
        + (
            say_in_sync_again(context, run[-1])
            if is_back
            else f" After the last time broker {broker} did not come back before the logs end."
        ),
        actions=_actions(context, broker, run, said),
        why=f"{len(run)} unplanned absences, the last {last} s after the first; limit:"
        f" {limits['cycles']} within {limits['window']} s",
        doubts=_DOUBTS[how],
    )


def _freezes(run: Sequence[Absence], others: Sequence[ProcessStall]) -> dict[str, Any]:
    """List the freezes that lines tell of: there may be more, also within the longer ones."""
    spans = [*((one.begin, one.end) for one in run), *((one.begin, one.end) for one in others)]
    return {"freezes_min": len(spans), "times": list_absences(spans, run)}


def _moved_partitions(
    context: DetectionContext, broker: int, run: Sequence[Absence]
) -> tuple[list[str], set[str]]:
    """Return the partitions that its absences took from a broker, and those it led again."""
    where = (pc.field("previous_leader") == broker) | (pc.field("leader") == broker)
    columns = ["topic", "partition", "leader", "previous_leader", "started_at"]
    moved: set[str] = set()
    again: set[str] = set()
    # In the order of each partition's epochs.
    for row in context.each("leadership", where & pc.field("started_at").is_valid(), columns):
        name = partition_name(row)
        if row["leader"] == broker:
            again |= {name} & moved
        elif any(
            absence.begin - SECOND
            <= row["started_at"]
            <= (absence.end or context.logs_end) + SECOND
            for absence in run
        ):
            moved.add(name)
    return sorted(moved), again


def _actions(
    context: DetectionContext, broker: int, run: Sequence[Absence], said: str
) -> list[str]:
    node = broker_node(broker)
    look = [_CRASHED.format(broker=broker)] if said == "crash" else [_CUT_OFF.format(broker=broker)]
    if said not in _CUT:
        spans = [(node, absence.begin, absence.end or context.logs_end) for absence in run]
        stalls = find_stalls(context, context.limits["long-pause"]["least"])
        sources = {
            stall.source
            for stall in stalls
            for _, begin, end in spans
            if stall.node == node and stall.begin < end and begin < stall.end
        }
        covered, starved = gc_logs_cover(context, spans), STARVED in sources
        look = (
            [_COLLECTED.format(broker=broker)]
            if sources - {"silence", STARVED}
            else look_at_machine(node, knows_collector=covered, starved=starved)
        )
    start = []
    if run[-1].end is None:
        blocked = refused_by_old_session(context, broker, failed_starts(context, run[-1]))
        before = _BEFORE if said == "crash" else ""
        start = [blocked or _START.format(broker=broker) + before]
    reasons = _reasons(context, run)
    if said == "crash" and reasons:
        worst = max(reasons, key=lambda one: (reasons[one], one))
        look = [_ended(worst)[1].format(broker=broker)]
        start = [] if "disk" in reasons else start
    return [
        *start,
        *look,
        *check_in_sync(context, run[-1], f"broker {broker}'s"),
        _SPARE.format(broker=broker)
        if run[-1].end is None or not rebalances_itself(context)
        else _SPARE_AUTO.format(broker=broker, interval=rebalance_interval(context)),
    ]


def _reasons(context: DetectionContext, run: Sequence[Absence]) -> Counter[str]:
    """Count why its processes ended, where their last lines say so."""
    known = death_reasons(context)
    keys = [(absence.broker, absence.begin) for absence in run]
    return Counter(known[key][0] for key in keys if key in known)


def _known_causes(
    context: DetectionContext, run: Sequence[Absence], tried: Sequence[FailedStarts]
) -> dict[str, Any]:
    """Return what is known of why its processes ended, and why starts failed, as measures."""
    known: dict[str, Any] = {}
    if reasons := sorted(_reasons(context, run)):
        known["reasons"] = [_ended(reason)[0] for reason in reasons]
    if failed := sum(one.failed for one in tried):
        known |= {"failed_starts": failed, "starts": sum(one.starts for one in tried)}
        known["start_errors"] = sorted({one.reason[:_SHOWN] for one in tried if one.reason})
    return known


def _why_it_ended(context: DetectionContext, run: Sequence[Absence]) -> str:
    return "".join(
        f" {quantity(times, 'time')} {_ended(reason)[0]}."
        for reason, times in sorted(_reasons(context, run).items())
    )


def _other_freezes(
    context: DetectionContext, broker: int, run: Sequence[Absence]
) -> list[ProcessStall]:
    """Return the freezes meanwhile that were too short to lose its session."""
    begin, end = run[0].begin, run[-1].end or context.logs_end
    return [
        stall
        for stall in find_stalls(context, context.limits["long-pause"]["least"])
        if stall.node == broker_node(broker)
        and begin <= stall.begin
        and stall.end <= end
        and not any(stall.begin < (one.end or end) and one.begin - _SAME < stall.end for one in run)
    ]


# Two estimates of one freeze lie no further apart.
_SAME = 2 * SECOND
_SHORTER = " {count} of some seconds ended before its session did."
_UNSEEN = (
    " A freeze that is shorter than the session mostly leaves no line, and one silence may be "
    "several freezes that follow each other: there may be more."
)


def _why_starts_failed(failed: int, tried: Sequence[FailedStarts]) -> str:
    if not failed:
        return ""
    said = sorted({one.reason for one in tried if one.reason})
    errors = ": " + "; ".join(f'"{text[:_SHOWN]}"' for text in said) if said else ""
    return (
        f" {quantity(failed, 'start')} of {sum(one.starts for one in tried)} came to"
        f" nothing{errors}."
    )


# So much of an error is quoted in a sentence.
_SHOWN = 200


def _isr_finding(context: DetectionContext, dropouts: IsrFlapping) -> Finding:
    limits, broker = context.limits[NAME], dropouts.broker
    cycles, many = dropouts.cycles, dropouts.partition_count
    leaders = ", ".join(map(str, dropouts.leaders))
    return context.finding(
        NAME,
        limits["isr"],
        f"Broker {broker} fell out of the in-sync replicas {cycles} times and came back",
        dropouts.begin,
        dropouts.end,
        dropouts.evidence,
        brokers=[broker],
        partitions=dropouts.partitions,
        measures={
            "cycles": cycles,
            "median_away_s": None,
            "partitions_moved": 0,
            "how": "isr",
            "leaders": list(dropouts.leaders),
            "partitions": many,
        },
        explanation=_EXPLANATIONS["isr"].format(broker=broker, cycles=cycles),
        actions=[
            f"{context.commands.under_replicated()}   # is broker {broker} behind now?",
            f"{context.commands.log_dirs(broker)}   {_DISKS}",
        ],
        why=f"{cycles} times within {limits['window']} s leaders {leaders} dropped"
        f" it, {many} partitions {limits['cycles']} times or more",
        doubts=_DOUBTS["isr"],
    )


_DISKS = "# and look at the latency of its disks: iostat -x"
_CUT = ("crash", "isolated")
_CRASHED = (
    "journalctl -k | grep -i 'killed process'   # on the host of broker {broker}: was it out of"
    " memory at these times? Or did somebody kill it (shell history, orchestrator)?"
)


# Why a process ended by its last lines, and what to do about it.
def _ended(reason: str) -> tuple[str, str]:
    """Return how a process ended, by its own lines or by those who ran it, and what to do."""
    if reason in END_WORDS:
        return f"it {END_WORDS[reason].what}", END_WORDS[reason].action
    return _ENDED[reason]


_ENDED = {
    "disk": (
        "its log directories had failed",
        "See the finding about the log directory of broker {broker} before it is started again.",
    ),
    "memory": (
        "it was out of memory",
        "Look what filled the heap of broker {broker} before it gets more (KAFKA_HEAP_OPTS).",
    ),
    "error": (
        "it ended itself after an error",
        "Read the errors in the evidence: broker {broker} ends there again while they last.",
    ),
}
_CUT_OFF = "Check the network of broker {broker} at these times, and the path to the controllers."
_COLLECTED = (
    "Its GC log shows pauses at these times: give the heap of broker {broker} room "
    "(KAFKA_HEAP_OPTS), or find what fills it."
)
_START = "Start broker {broker} and keep it up: its replicas are missing in every ISR until then."
_BEFORE = " First see on its host why it ended: out of memory, hs_err_pid*.log, a loss of power."
_SPARE = (
    "Until broker {broker} is stable, do not run preferred elections: they give it back leaders "
    "that it will lose again. Do not restart other brokers until then."
)
_SPARE_AUTO = (
    "Do not restart other brokers, and run no preferred elections, until broker {broker} is stable."
    " The controller gives it its leaders back every {interval} s by itself"
    " (auto.leader.rebalance.enable): if it is lost again and again, keep it stopped until its"
    " cause is known, provided that no partition is at its minimum of in-sync replicas without it."
)
_VERBS = {
    "crash": "crashed",
    "froze": "froze and lost its session",
    "pause": "lost its session",
    "isolated": "was cut off",
    "mixed": "was lost",
}
_EXPLANATIONS = {
    "crash": "Broker {broker} crashed {cycles} times: no shutdown is logged before its log ends and"
    " begins anew.",
    "froze": "Broker {broker} froze {cycles} times: the broker logged nothing for that time, was "
    "given up by the cluster, and went on without a restart.",
    "pause": "Broker {broker} lost its session {cycles} times and came back without a restart: its "
    "process froze (a long pause, a stalled disk, a frozen host), or it was cut off from the "
    "controller.",
    "isolated": "Broker {broker} went on running {cycles} times while the cluster heard nothing "
    "from it: its own log reports requests to other nodes that time out.",
    "mixed": "Broker {broker} was lost {cycles} times, in different ways, or in ways that these "
    "logs do not tell.",
    "isr": "Leaders dropped broker {broker} from the in-sync replicas {cycles} times, each time"
    " several leaders at once, and took it back; the cluster never gave it up. It fetches too "
    "slowly: its disk, its network, or pauses shorter than its session.",
}
_DOUBTS = {
    "crash": ["A broker that is killed on purpose leaves the same lines."],
    "pause": [
        "A broker that is cut off from the controller, and has nothing to log, looks the same."
    ],
    "isolated": ["A controller that does not answer one broker looks the same."],
    "mixed": ["A planned restart whose lines are missing here would count as an absence."],
    "isr": ["If it holds far more replicas than others do, it may be at its limit, not at fault."],
}
