"""Brokers that leave and come back again and again; a rolling restart is not that."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, partition_name
from forensics.detection.kafka_cli import GREP_PAUSES
from forensics.detection.shared.absence_causes import departure_kind, registration_times
from forensics.detection.shared.flapping_brokers import (
    IsrFlapping,
    find_flapping_absences,
    find_isr_flapping,
)
from forensics.history.nodes.broker_states import Absence
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
    moved = _moved_partitions(context, broker, run)
    ways = Counter(departure_kind(absence, starts) for absence in run)
    how = "mixed" if len(ways) > 1 or "unknown" in ways else next(iter(ways))
    begin = run[0].begin
    end = run[-1].end if run[-1].end is not None else max(context.logs_end, run[-1].begin)
    evidence = [place for absence in run for place in absence.evidence]
    stated = all(absence.fencing is not None for absence in run)
    last = round((run[-1].begin - begin) / SECOND)
    return context.finding(
        NAME,
        limits["severity"],
        f"Broker {broker} left the cluster {len(run)} times ({how})"
        + (f", {median} s away at a time" if median is not None else ""),
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
            "how": how,
            "ways": dict(sorted(ways.items())),
        },
        explanation=_EXPLANATIONS[how].format(broker=broker, cycles=len(run), moved=len(moved)),
        actions=_actions(context, broker, how),
        why=f"{len(run)} unplanned absences within {last} s; {limits['cycles']} within"
        f" {limits['window']} s are flapping",
        doubts=_DOUBTS[how],
    )


def _moved_partitions(context: DetectionContext, broker: int, run: Sequence[Absence]) -> list[str]:
    """Return the partitions that this broker's absences took their leader from."""
    where = pc.field("previous_leader") == broker
    rows = context.each("leadership", where, ["topic", "partition", "leader", "started_at"])
    return sorted(
        {
            partition_name(row)
            for row in rows
            if row["leader"] != broker
            and row["started_at"] is not None
            and any(
                absence.begin - SECOND
                <= row["started_at"]
                <= (absence.end or context.logs_end) + SECOND
                for absence in run
            )
        }
    )


def _actions(context: DetectionContext, broker: int, how: str) -> list[str]:
    look = (
        "journalctl -k | grep -i 'killed process'   "
        f"# on the host of broker {broker}: was it out of memory at the times of the evidence?"
        if how == "crash"
        else f"{GREP_PAUSES}   # on broker {broker}: did it stop at"
        " the times of the evidence? If not, look at its disk and its host"
    )
    return [
        look,
        f"{context.commands.under_replicated()}   # does it hold its replicas in sync now?",
        _SPARE.format(broker=broker),
    ]


def _isr_finding(context: DetectionContext, dropouts: IsrFlapping) -> Finding:
    limits, broker = context.limits[NAME], dropouts.broker
    cycles, many = dropouts.cycles, dropouts.partition_count
    leaders = ", ".join(map(str, dropouts.leaders))
    return context.finding(
        NAME,
        limits["isr"],
        f"Broker {broker} fell out of the in-sync replicas {cycles} times, and came back",
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
_SPARE = (
    "Until broker {broker} is stable, do not run preferred elections: they give it back leaders "
    "that it will lose again. Do not restart the other brokers meanwhile."
)
_EXPLANATIONS = {
    "crash": "Broker {broker} died and was started again {cycles} times, without a word of an "
    "orderly stop. Leadership of {moved} partitions moved away and back each time.",
    "pause": "Broker {broker} lost its session {cycles} times and came back without a restart: the "
    "process hung (a long pause, a stalled disk, a frozen host), or was cut off from the controller"
    ". {moved} partitions moved.",
    "mixed": "Broker {broker} left {cycles} times, in different ways, or in ways that these logs do"
    " not tell. {moved} partitions moved.",
    "isr": "Leaders dropped broker {broker} from the in-sync replicas {cycles} times, each time"
    " several leaders at once, and took it back; the cluster never gave it up. It fetches too "
    "slowly: its disk, its network, or pauses shorter than its session.",
}
_DOUBTS = {
    "crash": ["Somebody who kills a broker on purpose leaves the same lines."],
    "pause": ["A network that fails between broker and controller looks the same to the others."],
    "mixed": ["A planned restart whose lines are missing here would count as an absence."],
    "isr": ["If it holds far more replicas than others do, it may be at its limit, not at fault."],
}
