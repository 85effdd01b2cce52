"""Brokers that leave and come back again and again; a rolling restart is not that."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, partition_name
from forensics.detection.shared.broker_absences import (
    absences_of,
    departure_kind,
    registration_times,
    unplanned_absences,
)
from forensics.detection.shared.isr_changes import Dropouts, find_dropouts
from forensics.history.nodes.broker_states import Absence
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "flapping-broker"
# Lines of that many partitions show how a broker dropped out of their ISRs.
_SHOWN = 3


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each broker that flaps."""
    found = flapping(context)
    starts = registration_times(context) if found else {}
    for broker, run in found.items():
        yield _finding(context, broker, run, starts.get(broker, ()))
    for broker, dropped in find_dropouts(context, context.limits[NAME]["cycles"]).items():
        spell = None if broker in found else _spell(context, broker, dropped)
        if spell is not None:
            yield from _dropping(context, broker, dropped, spell)


def flapping(context: DetectionContext) -> dict[int, list[Absence]]:
    """Give the unplanned absences of every broker that had too many within the window."""
    limits = context.limits[NAME]
    window = limits["window"] * SECOND
    found: dict[int, list[Absence]] = {}
    if len(context.absences) < limits["cycles"]:
        return found
    for broker, unplanned in unplanned_absences(context).items():
        for first in range(len(unplanned)):
            run = [a for a in unplanned[first:] if a.begin - unplanned[first].begin <= window]
            if len(run) >= limits["cycles"] and len(run) > len(found.get(broker, ())):
                found[broker] = run
    return found


def _finding(
    context: DetectionContext, broker: int, run: Sequence[Absence], starts: Sequence[int]
) -> Finding:
    limits = context.limits[NAME]
    away = [(a.end - a.begin) / SECOND for a in run if a.end is not None]
    median = round(statistics.median(away), 1) if away else None
    moved = _moved(context, broker, run)
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


def _actions(context: DetectionContext, broker: int, how: str) -> list[str]:
    look = (
        "journalctl -k | grep -i 'killed process'   "
        f"# on the host of broker {broker}: was it out of memory at the times of the evidence?"
        if how == "crash"
        else f"grep -E 'Pause|Safepoint' kafkaServer-gc.log   # on broker {broker}: did it stop at"
        " the times of the evidence? If not, look at its disk and its host"
    )
    return [
        look,
        f"{context.commands.under_replicated()}   # does it hold its replicas in sync now?",
        _SPARE.format(broker=broker),
    ]


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


@dataclass(frozen=True)
class _Spell:
    """Strokes in which several leaders dropped a broker, as seconds of their begins and ends."""

    strokes: Sequence[tuple[int, int]]
    leaders: Sequence[int]


def _spell(context: DetectionContext, broker: int, dropped: Dropouts) -> _Spell | None:
    """Find the most strokes within the window that neither absences nor one leader explain."""
    limits = context.limits[NAME]
    strokes: list[tuple[int, int, set[int]]] = []
    for (second, leader), _ in sorted(dropped.drops.items()):
        if strokes and second - strokes[-1][1] <= limits["stroke"]:
            begin, _, leaders = strokes[-1]
            strokes[-1] = (begin, second, leaders | {leader})
        else:
            strokes.append((second, second, {leader}))
    # One leader that drops others may be slow or cut off itself.
    own = [one for one in strokes if len(one[2] - {-1}) > 1 and not _away(context, broker, one)]
    best: list[tuple[int, int, set[int]]] = []
    for first in range(len(own)):
        run = [one for one in own[first:] if one[0] - own[first][0] <= limits["window"]]
        best = run if len(run) > len(best) else best
    if len(best) < limits["cycles"]:
        return None
    by = sorted({leader for one in best for leader in one[2] if leader >= 0})
    return _Spell([(one[0], one[1]) for one in best], by)


def _away(context: DetectionContext, broker: int, stroke: tuple[int, int, set[int]]) -> bool:
    """Whether a broker was away, or was just coming back, as it was dropped."""
    near = context.limits[NAME]["stroke"]
    return any(
        (a.begin / SECOND - near <= stroke[1])
        and (a.end is None or stroke[0] <= a.end / SECOND + near)
        for a in absences_of(context, broker)
    )


def _dropping(
    context: DetectionContext, broker: int, dropped: Dropouts, spell: _Spell
) -> Iterator[Finding]:
    limits = context.limits[NAME]
    begin, end = spell.strokes[0][0] * SECOND, (spell.strokes[-1][1] + 1) * SECOND
    evidence = _lines(context, broker, dropped, begin, end)
    if not evidence:
        return
    cycles = len(spell.strokes)
    many = len(dropped.repeated) + dropped.more_repeated
    yield context.finding(
        NAME,
        limits["isr"],
        f"Broker {broker} fell out of the in-sync replicas {cycles} times, and came back",
        begin,
        end,
        evidence,
        brokers=[broker],
        partitions=sorted(f"{topic}-{number}" for topic, number in dropped.repeated),
        measures={
            "cycles": cycles,
            "median_away_s": None,
            "partitions_moved": 0,
            "how": "isr",
            "leaders": list(spell.leaders),
            "partitions": many,
        },
        explanation=_EXPLANATIONS["isr"].format(broker=broker, cycles=cycles),
        actions=[
            f"{context.commands.under_replicated()}   # is broker {broker} behind now?",
            (
                f"{context.commands.log_dirs(broker)}   # and look at the latency of its disks: "
                "iostat -x"
            ),
        ],
        why=f"{cycles} times within {limits['window']} s leaders {_words(spell.leaders)} dropped"
        f" it, {many} partitions {limits['cycles']} times or more",
        doubts=_DOUBTS["isr"],
    )


def _words(leaders: Sequence[int]) -> str:
    return ", ".join(str(one) for one in leaders)


def _lines(
    context: DetectionContext, broker: int, dropped: Dropouts, begin: int, end: int
) -> list[Row]:
    """Look up lines that tell how a broker left a few of the partitions it left most often."""
    often = sorted(dropped.repeated, key=lambda one: (-dropped.repeated[one], one))
    wanted: list[Mapping[str, object]] = []
    for topic, number in often[:_SHOWN]:
        mine = (pc.field("topic") == topic) & (pc.field("partition") == number)
        was: list[int] = []
        for row in context.each("isr", mine, ["isr", "started_at", "evidence"]):
            left = broker in was and broker not in (row["isr"] or ())
            was = row["isr"] or []
            if left and row["started_at"] is not None and begin <= row["started_at"] <= end:
                wanted += row["evidence"][:1]
    return context.read_lines(wanted[:40])


def _moved(context: DetectionContext, broker: int, run: Sequence[Absence]) -> list[str]:
    """Name the partitions that this broker's absences took their leader from."""
    lost = pc.field("previous_leader") == broker
    rows = context.each("leadership", lost, ["topic", "partition", "leader", "started_at"])
    return sorted(
        {
            partition_name(row)
            for row in rows
            if row["leader"] != broker
            and row["started_at"] is not None
            and any(
                a.begin - SECOND <= row["started_at"] <= (a.end or context.logs_end) + SECOND
                for a in run
            )
        }
    )
