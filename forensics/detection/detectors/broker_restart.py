"""Restarts of one broker: planned ones for the record, unplanned ones as incidents."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from forensics.detection.context import DetectionContext, Row
from forensics.detection.shared.absence_causes import (
    FailedStarts,
    absences_of,
    death_reasons,
    failed_starts,
    host_wide_absences,
    lost_its_session,
    no_quorum_absences,
    refused_by_old_session,
)
from forensics.detection.shared.flapping_brokers import find_flapping_absences
from forensics.detection.shared.isr_changes import check_in_sync, say_in_sync_again
from forensics.detection.shared.process_ends import (
    END_WORDS,
    EndWords,
    disk_lines_of_absence,
    ends_of_absence,
    quote,
    rows_of,
)
from forensics.detection.shared.rolling_restarts import rolled_absences
from forensics.history.nodes.broker_states import Absence
from forensics.lib.node_ids import broker_node
from forensics.lib.sessionize import busiest_window
from forensics.lib.text_format import count, seconds_text
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "broker-restart"
# So many lines of others about the end of a process are quoted.
_MAX_OTHERS = 8
# So much of an error is quoted in a sentence.
_SHOWN = 200
_LIFE = ("starting", "recovering", "stopping", "stopped", "crashed", "up")


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each absence that is not part of a flapping broker's."""
    flapping = find_flapping_absences(context).values()
    reported = {(absence.broker, absence.begin) for run in flapping for absence in run}
    reported |= no_quorum_absences(context)
    rolled = rolled_absences(context)
    host_wide = host_wide_absences(context)
    for absence in context.absences:
        key = absence.broker, absence.begin
        if key in rolled and not absence.start_failed:
            continue
        # What hung, was cut off or lost its session has a finding of its own: long-pause,
        # isolated-broker, session-expiry.
        told = absence.kind in ("pause", "isolated") or lost_its_session(context, absence)
        if key not in reported and not told:
            yield _finding(context, absence, is_host_wide=key in host_wide)
    for broker in sorted({absence.broker for absence in context.absences}):
        yield from _find_repeated_stops(context, broker)


def _finding(context: DetectionContext, absence: Absence, *, is_host_wide: bool) -> Finding:
    end = absence.end if absence.end is not None else context.logs_end
    away = None if absence.end is None else round((absence.end - absence.begin) / SECOND, 1)
    fenced = absence.fencing is not None
    # As it starts again, a broker logs that it found no mark of an orderly stop.
    says_unclean = absence.kind == "crash" and any(
        one["what"] == "unclean" for one in absence.evidence
    )
    reason, line = death_reasons(context).get((absence.broker, absence.begin), ("", None))
    stated = absence.kind == "controlled" or fenced or says_unclean or line is not None
    ended = END_WORDS.get(reason)
    is_reason = reason and not ended and absence.kind == "crash"
    way = f"crash by {reason}" if is_reason else absence.kind
    ends_told = (one for one in rows_of(ends_of_absence(context, absence)) if one != line)
    others = [*ends_told, *disk_lines_of_absence(context, absence)]
    starts, ends = _count_starts(context, absence)
    is_loop = starts >= context.limits[NAME]["starts"]
    tried = failed_starts(context, absence)
    loop_text, loop_actions = "", list[str]()
    if tried.rows:
        loop_text, loop_actions = _describe_errors(absence.broker, tried)
        if blocked := refused_by_old_session(context, absence.broker, tried):
            loop_actions = [blocked]
    elif is_loop:
        loop_text, loop_actions = _describe_loop(absence.broker, starts, ends)
    if tried.by_settings and not ended:
        others = [*tried.rows, *others]
    return context.finding(
        NAME,
        _severity(context, absence, is_host_wide=is_host_wide, is_loop=is_loop, tried=tried),
        _title(absence, way, away, ended) + _tries(absence, tried, starts if is_loop else 0),
        absence.begin,
        max(end, absence.begin),
        [*([line] if line else []), *others[:_MAX_OTHERS], *absence.evidence]
        if tried.rows
        else [*absence.evidence, *_unquoted(absence, line), *others[:_MAX_OTHERS]],
        stated=stated,
        brokers=[absence.broker],
        measures={
            "kind": _measured_kind(absence, ended),
            "away_s": away,
        }
        | ({"reason": reason} if ended else {})
        | ({"starts": starts, "ended": ends} if is_loop else {})
        | ({"failed_starts": tried.failed, "said": tried.reason} if tried.rows else {}),
        explanation=(f"{ended.why} {quote(line)}." if ended and line else _EXPLANATIONS[way])
        + (_HEARD_BY_OTHERS if absence.kind == "crash" and _is_seen(context, absence) else "")
        + say_in_sync_again(context, absence)
        + (_TOGETHER if is_host_wide else "")
        + (f" {loop_text}" if loop_text else ""),
        actions=[
            *loop_actions,
            *_actions(context, absence, way, ended)[_skipped(absence, tried) :],
        ],
        why=_why(context, absence, away, starts if is_loop else 0),
        doubts=ended.doubts if ended else _DOUBTS.get(way, []),
    )


def _unquoted(absence: Absence, line: Row | None) -> list[Row]:
    """Return the line that says why a process ended, unless it is the last that it wrote."""
    own = (one for one in absence.evidence if one.get("rule") == "document.jvm")
    known = {(one["file"], one["line"]) for one in own}
    return [line] if line and (line["file"], line["line"]) not in known else []


def _measured_kind(absence: Absence, ended: EndWords | None) -> str:
    if absence.kind == "controlled":
        return "controlled"
    return "crash" if ended or absence.kind == "crash" else "unknown"


def _severity(
    context: DetectionContext,
    absence: Absence,
    *,
    is_host_wide: bool,
    is_loop: bool,
    tried: FailedStarts,
) -> str:
    limits = context.limits[NAME]
    if is_loop or (tried.rows and absence.end is None):
        return str(limits["gone" if absence.end is None else "loop"])
    if is_host_wide:
        return str(limits["together"])
    if absence.kind == "controlled" and absence.start_failed:
        return str(limits["unknown"])
    if absence.kind in ("controlled", "unknown"):
        return str(limits["planned" if absence.kind == "controlled" else "unknown"])
    is_gone = absence.kind in ("crash", "gone") and absence.end is None
    return str(limits["gone"] if is_gone else limits["unplanned"])


def _count_starts(context: DetectionContext, absence: Absence) -> tuple[int, str]:
    """Count the starts within an absence, and return how most of those ended that led to nothing.

    An orchestrator that does not wait for the recovery of logs kills the broker while it recovers.
    """
    spans = [
        span
        for span in context.spans_of(absence.broker, absence.begin, absence.end)
        if span.state in _LIFE
    ]
    starts = sum(span.state == "starting" for span in spans)
    pairs = [(before.state, after.state) for before, after in pairwise(spans)]
    failed = [
        after
        for before, after in pairs
        if before in ("starting", "recovering") and after not in ("recovering", "up")
    ]
    recovering = sum(before == "recovering" and after != "up" for before, after in pairs)
    if failed and recovering * 2 > len(failed):
        return starts, "recovery"
    asked = sum(state in ("stopping", "stopped") for state in failed)
    return starts, "asked" if asked * 2 > len(failed) else "crash"


def _describe_loop(broker: int, starts: int, ends: str) -> tuple[str, list[str]]:
    """Return what a restart loop is, by how its starts ended, and what to do."""
    explanations = {
        "recovery": f"{starts} starts: most of them were ended while it still recovered its logs. "
        "What starts it (Kubernetes, systemd, a script) does not wait for as long as that takes,"
        " so that it never ends.",
        "asked": f"{starts} starts: most of them were asked to stop before the broker was up, as an"
        " orchestrator does whose probe fails.",
        "crash": f"{starts} starts: most of them ended by an error or without a shutdown. The "
        "first error of each start tells more than the last.",
    }[ends]
    actions = {
        "recovery": f"Give broker {broker} time: raise the start-up probe or time-out of what "
        "starts it above the time of a log recovery, and raise num.recovery.threads.per.data.dir.",
        "asked": _WHO.format(broker=broker),
        "crash": "grep -nE 'ERROR|FATAL' server.log | head   "
        f"# the first error of each start of broker {broker}",
    }[ends]
    return explanations, [actions]


def _describe_errors(broker: int, tried: FailedStarts) -> tuple[str, list[str]]:
    """Return what its failed starts logged, and what to do."""
    said = f' The last error: "{tried.reason[:_SHOWN]}".' if tried.reason else ""
    text = f"{count(tried.failed, 'start')} of {tried.starts} came to nothing.{said}"
    action = _SETTING if tried.by_settings else _ERROR
    return text, [action.format(broker=broker)]


def _tries(absence: Absence, tried: FailedStarts, starts: int) -> str:
    """Say in the title how often it was started in vain; `starts` if they were a loop."""
    if tried.rows or (absence.kind == "controlled" and tried.failed):
        return f", after {count(tried.failed, 'failed start')}"
    return f", after {starts} starts" if starts else ""


def _skipped(absence: Absence, tried: FailedStarts) -> int:
    """Return how many of the usual actions do not fit: nobody has to start it as it is."""
    is_start_first = absence.end is None and absence.kind != "controlled"
    return 1 if tried.rows and (absence.kind == "controlled" or is_start_first) else 0


_SETTING = (
    "Correct the setting of broker {broker} that the error names, then start it: it ends there"
    " each time. Do not go on to the next broker until it is back in every ISR."
)
_ERROR = (
    "Read the first error of each start of broker {broker}, in the evidence: it ends there again"
    " while its cause lasts."
)


def _find_repeated_stops(context: DetectionContext, broker: int) -> Iterator[Finding]:
    """Find a broker that was stopped in order far more often than a person would."""
    limits = context.limits[NAME]
    stops = [
        absence
        for absence in absences_of(context, broker)
        if absence.kind == "controlled" and absence.end is not None
    ]
    run = busiest_window(stops, lambda absence: absence.begin, limits["window"] * SECOND)
    if len(run) < limits["asked"]:
        return
    begin, end = run[0].begin, run[-1].end or run[-1].begin
    evidence = [line for absence in run for line in absence.evidence[:1]]
    away = round(sum((absence.end or 0) - absence.begin for absence in run) / SECOND, 1)
    yield context.finding(
        NAME,
        limits["again"],
        f"Broker {broker} was shut down cleanly and started {len(run)} times",
        begin,
        end,
        evidence,
        brokers=[broker],
        measures={"kind": "controlled", "away_s": away, "restarts": len(run)},
        explanation="Each stop was asked for, by a person, a script or an orchestrator whose probe "
        "failed. The broker's own log does not say by whom.",
        actions=[_WHO.format(broker=broker), "Nothing to do if it was you."],
        why=f"{len(run)} orderly restarts within {limits['window']} s; {limits['asked']} are more"
        " than anybody makes by hand",
        doubts=["A test of restarts looks the same."],
    )


def _title(absence: Absence, way: str, away: float | None, ended: EndWords | None) -> str:
    what = (
        ended.what
        if ended
        else {
            "controlled": "was shut down cleanly",
            "crash": "crashed",
            "crash by disk": "ended itself: its log directories failed",
            "crash by memory": "ended: it was out of memory",
            "crash by error": "ended itself after an error",
            "fenced": "was fenced while its process went on",
            "gone": "fell silent and was fenced",
            "unknown": "was away; the logs do not say how it left",
        }[way]
    )
    if away is None:
        return f"Broker {absence.broker} {what}; not back before the logs end"
    bracket = absence.begin_bracket
    low = (absence.end - bracket[1]) / SECOND if bracket and absence.end is not None else away
    after = seconds_text(away, 0) if away - low < 1 else f"{low:.0f} to {seconds_text(away, 0)}"
    return f"Broker {absence.broker} {what}; back in service {after} later"


def _is_seen(context: DetectionContext, absence: Absence) -> bool:
    """Return True if other nodes logged that it was gone."""
    own = broker_node(absence.broker)
    return any(
        context.visibility.node_of(one["file"]) not in (own, None) for one in absence.evidence
    )


def _why(context: DetectionContext, absence: Absence, away: float | None, starts: int) -> str:
    length = "to the end of the logs" if away is None else f"for {away} s"
    many = (
        f"; {starts} starts for one return, {context.limits[NAME]['starts']} are a loop"
        if starts
        else ""
    )
    return f"broker {absence.broker} did not serve {length} ({absence.kind}){many}"


def _actions(
    context: DetectionContext, absence: Absence, way: str, ended: EndWords | None
) -> list[str]:
    broker = absence.broker
    gone = absence.end is None and absence.kind != "controlled"
    start = [_START.format(broker=broker)] if gone and way != "crash by disk" else []
    look = ended.action if ended else _ACTIONS[way]
    return [*start, look.format(broker=broker), *check_in_sync(context, absence)]


_HEARD_BY_OTHERS = " Other nodes lost their connections to it."
_START = (
    "Start broker {broker} again before any other broker is restarted: each that is missing takes "
    "a replica away."
)
_WHO = "journalctl -u kafka   # or kubectl describe pod: who stops broker {broker}?"
_TOGETHER = (
    " Most brokers were given up in the same moment: their host froze, or the controller or"
    " ZooKeeper did; it was not this broker."
)
_EXPLANATIONS = {
    "controlled": "The broker announced its stop, handed its partitions over and stopped. Expected "
    "in every upgrade and restart.",
    "crash": "No shutdown is logged before its end: the process was killed, or it or its host "
    "crashed.",
    "crash by disk": "Kafka halts a broker when its last log directory fails: nobody killed it.",
    "crash by memory": "The JVM had no memory left, and the process ended.",
    "crash by error": "The broker logged an error that it could not go on after, and ended itself.",
    "fenced": "The controller heard nothing from it for a whole session, while its own log went on"
    " as usual. The logs do not say what kept its heartbeats away.",
    "gone": "The cluster gave the broker up, and its log ends there.",
    "unknown": "How the broker left is not in these logs: its own log is missing or silent.",
}
_DOUBTS = {
    "controlled": ["The log does not say who asked for it: a person or an orchestrator."],
    "crash": ["A log that lost its last lines, a clean shutdown among them, looks the same."],
    "fenced": ["A controller that was too busy to take heartbeats looks the same."],
    "gone": ["The log of this broker may have been collected too early."],
    "unknown": ["It may well have been planned."],
}
_ACTIONS = {
    "controlled": "Nothing to do if somebody restarted it on purpose.",
    "crash": "journalctl -k | grep -i 'killed process'   # on the host of broker {broker}: out of "
    "memory? Look for hs_err_pid*.log too, a loss of power, and somebody's kill -9 (shell history, "
    "orchestrator)",
    "crash by disk": "df -h and dmesg on the host of broker {broker}: free or replace its disk "
    "before it is started again; see the finding about its log directory.",
    "crash by memory": "Look what filled the heap of broker {broker} (heap dump, number of "
    "partitions and connections) before it gets more (KAFKA_HEAP_OPTS).",
    "crash by error": "Read the error in the evidence, and what broker {broker} logged before it: "
    "it will end there again if the cause is still there.",
    "fenced": "Look at the controller's log and load at that moment, and at the network between it "
    "and broker {broker}.",
    "gone": "Look whether the process of broker {broker} is alive, and what its host did then.",
    "unknown": "Collect the server.log of broker {broker} from before the start.",
}
