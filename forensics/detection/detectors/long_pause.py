"""Processes that stood still for seconds: garbage collection, a stalled disk, a frozen host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from forensics.detection.context import DetectionContext
from forensics.detection.kafka_cli import quote
from forensics.detection.shared.process_stalls import ProcessStall, find_stalls
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "long-pause"
_NAMED = 5


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each node that stood still, and one for each pause of a whole host."""
    limits = context.limits[NAME]
    found = find_stalls(context, limits["least"])
    host = list(_together(context, found))
    for group in host:
        yield _finding(context, group, host=True)
    shared = {one for group in host for one in group}
    own = [one for one in found if one not in shared]
    for _, mine in groupby(own, key=lambda one: one.node):
        run: list[ProcessStall] = []
        for one in mine:
            if run and one.begin - run[-1].end > limits["window"] * SECOND:
                yield _finding(context, run, host=False)
                run = []
            run.append(one)
        yield _finding(context, run, host=False)


def _together(
    context: DetectionContext, found: Sequence[ProcessStall]
) -> Iterator[list[ProcessStall]]:
    """Group what woke in the same moment on most nodes: their host stood still."""
    servers = {
        one["node"] for one in context.visibility.files if one["role"] in ("broker", "controller")
    }
    gap = context.limits[NAME]["together"] * SECOND
    group: list[ProcessStall] = []
    for one in [*sorted(found, key=lambda each: (each.end, each.node)), None]:
        if one is None or (group and one.end - group[0].end > gap):
            nodes = {each.node for each in group}
            if len(nodes) > 1 and 2 * len(nodes) > len(servers):
                yield group
            group = []
        if one is not None:
            group.append(one)


def _finding(context: DetectionContext, run: Sequence[ProcessStall], *, host: bool) -> Finding:
    limits = context.limits[NAME]
    nodes = sorted({one.node for one in run})
    longest = max(one.duration for one in run) / SECOND
    ways = Counter(one.source for one in run)
    long = longest >= limits["session"] or (len(run) >= limits["many"] and not host)
    begin, end = min(one.begin for one in run), max(one.end for one in run)
    evidence = [place for one in run for place in one.evidence]
    stated = ways["jvm"] + ways["memory"] > 0
    return context.finding(
        NAME,
        limits["long" if long else "short"],
        _title(nodes, longest, len(run), host=host),
        begin,
        end,
        evidence,
        stated=stated,
        brokers=sorted(
            int(digits)
            for node in nodes
            if node.startswith("broker-") and (digits := node.rpartition("-")[2]).isdigit()
        ),
        measures={
            "node": ", ".join(nodes),
            "longest_ms": round(longest * 1000),
            "pauses": 1 if host else len(run),
            "host": host,
            "ways": dict(sorted(ways.items())),
        },
        explanation=_HOST if host else _EXPLANATIONS[ways.most_common(1)[0][0]],
        actions=_actions(nodes, ways, host=host),
        why=f"{len(run)} pauses of {limits['least']} s or more, up to {longest:.1f} s;"
        f" {limits['session']} s end a session, {limits['many']} are too many",
        doubts=_DOUBTS["jvm" if stated else "silence"],
    )


def _title(nodes: Sequence[str], longest: float, pauses: int, *, host: bool) -> str:
    if host:
        more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
        return f"{', '.join(nodes[:_NAMED])}{more} stood still together for {longest:.1f} s"
    times = "" if pauses == 1 else f" {pauses} times"
    return f"{nodes[0]} stood still{times}, for up to {longest:.1f} s"


def _actions(nodes: Sequence[str], ways: Counter[str], *, host: bool) -> list[str]:
    where = ", ".join(quote(node) for node in nodes[:_NAMED])
    if host:
        return [
            f"journalctl -k   # on the host of {where}: suspended, moved, a stalled disk?",
            "Nothing to do in Kafka: what followed ends by itself once the host runs.",
        ]
    if ways["jvm"] or ways["memory"]:
        return [
            f"grep -E 'Pause (Full|Young)|To-space|Stall' kafkaServer-gc.log   # on {where}",
            _HEAP,
        ]
    return [
        f"grep -E 'Pause|Safepoint' kafkaServer-gc.log   # on {where}: did the JVM stop then?",
        f"If it did not: iostat -x, vmstat, and the hypervisor of {where} at these times.",
    ]


_HEAP = (
    "If full collections are among them, give the heap room (KAFKA_HEAP_OPTS) or find what fills "
    "it; leave the page cache most of the memory."
)
_HOST = (
    "All of them were silent for the same time and woke together: the machine that they run on"
    " stood still. Sessions that ended, elections and failed requests just after it are its"
    " consequences, not troubles of their own."
)
_EXPLANATIONS = {
    "jvm": "The JVM stopped all threads of the process: no request was answered, no heartbeat sent."
    " A pause longer than the session makes the cluster give a broker up.",
    "memory": "Threads waited for memory: the collector does not keep up with the load.",
    "silence": "The process neither wrote nor answered for that time and went on without a start:"
    " it was stopped by a collection that no log here tells of, by its disk, or by its host.",
}
_DOUBTS = {
    "jvm": ["Pauses of other processes whose logs share the file would count as this node's."],
    "silence": [
        "The length is that of the silence: the process may have stood still for a part of it.",
        "A broker that is cut off from its controller, and has nothing to write, looks the same.",
    ],
}
