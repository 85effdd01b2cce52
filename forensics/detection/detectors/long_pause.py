"""Processes that froze for seconds: garbage collection, a stalled disk, a frozen host."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from forensics.detection.context import DetectionContext
from forensics.detection.kafka_cli import GREP_PAUSES, quote
from forensics.detection.shared.flapping_brokers import find_flapping_absences
from forensics.detection.shared.isr_changes import say_in_sync_again
from forensics.detection.shared.process_stalls import (
    STARVED,
    ProcessStall,
    find_stalls,
    gc_logs_cover,
    look_at_machine,
)
from forensics.lib.node_ids import broker_ids, broker_node
from forensics.lib.sessionize import sessions, windows
from forensics.lib.text_format import count, seconds_text, times_text
from forensics.lib.time_units import SECOND, to_iso
from forensics.run_output.findings import Finding

NAME = "long-pause"
_MAX_NAMED, _MAX_TIMES = 5, 50


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each node that froze, and one for each pause of a whole host."""
    limits = context.limits[NAME]
    stalls = find_stalls(context, limits["least"])
    host_wide = _find_host_stalls(context, stalls)
    for group in host_wide:
        yield _finding(context, group, is_host=True)
    shared = {stall for group in host_wide for stall in group}
    # A broker that flaps by hanging has one finding for all of it.
    told = find_flapping_absences(context)
    own = [
        stall
        for stall in stalls
        if stall not in shared
        and not any(
            broker_node(broker) == stall.node
            and stall.begin < (run[-1].end or context.logs_end) and run[0].begin < stall.end
            for broker, run in told.items()
        )
    ]  # fmt: skip
    for _, run in groupby(own, key=lambda stall: stall.node):
        for session in sessions(
            run, lambda one: one.begin, limits["window"] * SECOND, lambda one: one.end
        ):
            yield _finding(context, session, is_host=False)


def _find_host_stalls(
    context: DetectionContext, stalls: Sequence[ProcessStall]
) -> list[list[ProcessStall]]:
    """Group the stalls that ended in the same moment on most nodes: their host froze."""
    servers = {
        file["node"]
        for file in context.visibility.files
        if file["role"] in ("broker", "controller")
    }
    gap = context.limits[NAME]["together"] * SECOND
    ordered = sorted(stalls, key=lambda stall: (stall.end, stall.node))
    return [
        group
        for group in windows(ordered, lambda stall: stall.end, gap)
        if (nodes := len({stall.node for stall in group})) > 1 and 2 * nodes > len(servers)
    ]


def _finding(context: DetectionContext, run: Sequence[ProcessStall], *, is_host: bool) -> Finding:
    limits = context.limits[NAME]
    nodes = sorted({stall.node for stall in run})
    longest = max(stall.duration for stall in run) / SECOND
    sources = Counter(stall.source for stall in run)
    is_long = longest >= limits["session"] or (len(run) >= limits["many"] and not is_host)
    begin, end = min(stall.begin for stall in run), max(stall.end for stall in run)
    evidence = [line for stall in run for line in stall.evidence]
    stated = sources["jvm"] + sources["memory"] + sources[STARVED] > 0
    fenced = [
        absence
        for absence in context.absences
        if broker_node(absence.broker) in nodes and begin <= absence.noticed <= end + _NOTICED
        and absence.kind == "pause"
    ]  # fmt: skip
    evidence += [line for absence in fenced for line in absence.evidence]
    spans = [(stall.node, stall.begin, stall.end) for stall in run]
    roles = {file["node"]: file["role"] for file in context.visibility.files}
    clients = [name for name in nodes if roles.get(name) == "client"]
    by_collector = stated or (not is_host and gc_logs_cover(context, spans))
    by_gc = "" if by_collector else "by a garbage collection that no log here shows, "
    kind = sources.most_common(1)[0][0]
    if kind == "jvm" and any(_DUMPED.search(text) for text in _texts(run)):
        kind = "dump"
    explained = _HOST if is_host else _EXPLANATIONS[kind].format(by_gc=by_gc)
    if clients and not is_host:
        explained += _REMOVED
    if fenced and not is_host:
        explained += _GIVEN_UP.format(times=times_text(len(fenced)))
        explained += say_in_sync_again(context, fenced[-1])
    return context.finding(
        NAME,
        limits["long" if is_long else "short"],
        _title(run, nodes, longest, is_host=is_host),
        begin,
        end,
        evidence,
        stated=stated,
        brokers=sorted(broker_ids(nodes)),
        clients=clients,
        measures={
            "node": ", ".join(nodes),
            "longest_ms": round(longest * 1000),
            "pauses": 1 if is_host else len(run),
            "host": is_host,
            "ways": dict(sorted(sources.items())),
            "fenced": len(fenced),
            "times": [
                {"from": to_iso(stall.begin), "seconds": round(stall.duration / SECOND, 1)}
                for stall in run[:_MAX_TIMES]
            ],
        },
        explanation=explained,
        actions=_actions(run, sources, is_host=is_host, knows_collector=by_collector),
        why=f"{count(len(run), 'pause')} of {limits['least']} s or more, up to {longest:.1f} s;"
        f" limits: {limits['session']} s end a session, {limits['many']} are too many",
        doubts=_DOUBTS["jvm" if stated else "silence"],
    )


def _title(
    run: Sequence[ProcessStall], nodes: Sequence[str], longest: float, *, is_host: bool
) -> str:
    if is_host:
        more = f" and {len(nodes) - _MAX_NAMED} more" if len(nodes) > _MAX_NAMED else ""
        return f"{', '.join(nodes[:_MAX_NAMED])}{more} froze together for {seconds_text(longest)}"
    # What only others, or its own late timers, tell begins at some time before.
    is_silence = max(run, key=lambda stall: stall.duration).source == "silence"
    # From the tenths that `times` has: others round these.
    length = f"about {seconds_text(round(longest, 1), 0)}" if is_silence else seconds_text(longest)
    times = f" {times_text(len(run))}, up to" if len(run) > 1 else " for"
    return f"{nodes[0]} froze{times} {length}"


def _actions(
    run: Sequence[ProcessStall], sources: Counter[str], *, is_host: bool, knows_collector: bool
) -> list[str]:
    nodes = sorted({stall.node for stall in run})
    hosts = ", ".join(quote(node) for node in nodes[:_MAX_NAMED])
    if is_host:
        return [
            f"journalctl -k   # on the host of {hosts}: suspended, moved, a stalled disk?",
            "Nothing to do in Kafka: what followed ends by itself once the host runs.",
        ]
    if sources["jvm"] or sources["memory"]:
        if any(_DUMPED.search(text) for text in _texts(run)):
            return [_DUMP.format(node=hosts)]
        # Older broker lines tell of a pause, too: then the GC log is still to be read.
        shown = any("gc" in str(line["file"]).rpartition("/")[2].lower()
                    for stall in run for line in stall.evidence)  # fmt: skip
        grep = f"{GREP_PAUSES}   # on {hosts}"
        return [_HEAP] if shown else [grep, _HEAP]
    return look_at_machine(hosts, knows_collector=knows_collector, starved=bool(sources[STARVED]))


def _texts(run: Sequence[ProcessStall]) -> list[str]:
    return [str(line.get("text") or "") for stall in run for line in stall.evidence]


# By the cause of a collection, or by the name of the operation that stopped the JVM.
_DUMPED = re.compile("Heap ?Dump|Heap ?Inspection|ClassHistogram")
# The cluster notices a process that hangs when its session is over.
_NOTICED = 20 * SECOND
_GIVEN_UP = " The cluster gave the broker up {times}, and let it in again without a restart."
_REMOVED = (
    " Its group's coordinator heard no heartbeat for session.timeout.ms, removed it and gave its "
    "partitions to others; what it had read and not committed was handled again."
)
_DUMP = (
    "Find out who took the heap dump, or the histogram of live objects, on {node}, or whether the "
    "JVM did so by itself as it ran out of memory (-XX:+HeapDumpOnOutOfMemoryError). Take them only"
    " from a broker that leads nothing."
)
_HEAP = (
    "If full collections are among them, give the heap room (KAFKA_HEAP_OPTS) or find what fills "
    "it; leave the page cache most of the memory."
)
_HOST = (
    "All of them were silent for the same time and woke together: the machine that they run on"
    " froze. Sessions that ended, elections and failed requests just after it are its"
    " consequences, not troubles of their own."
)
_EXPLANATIONS = {
    "jvm": "The JVM stopped all threads of the process: no request was answered, no heartbeat sent."
    " A pause longer than the session makes the cluster give a broker up.",
    "dump": "A heap dump or a histogram of live objects stopped all threads of the JVM: no request"
    " was answered, no heartbeat sent. A pause longer than the session makes the cluster give a"
    " broker up.",
    STARVED: "The JVM stopped all threads for a collection that hardly used a processor in all that"
    " time: it did not get to run. The process was stopped or swapped out, or its machine had no"
    " processor for it; the heap is not the cause.",
    "memory": "Threads waited for memory: the collector does not keep up with the load.",
    "silence": "The process neither wrote nor answered for that time and went on without a restart:"
    " it was stopped {by_gc}by its disk, by its host, or by a signal.",
}
_DOUBTS = {
    "jvm": ["Pauses of other processes whose logs share the file would count as this node's."],
    "silence": [
        "A clock that was set forward by so much looks the same, where nobody else missed it.",
        "The length is that of the silence: the process may have been frozen for less.",
        "A process that is cut off from the others, and has nothing to write, looks the same.",
    ],
}
