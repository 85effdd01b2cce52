"""Restarts of one broker: planned ones for the record, unplanned ones as incidents."""

from __future__ import annotations

from collections.abc import Iterator

from forensics.history.lanes import Absence
from forensics.incidents.case import Case
from forensics.incidents.finding import Finding
from forensics.incidents.detectors.flapping_broker import flapping

__all__ = ["find"]

NAME = "broker-restart"
_CONFIDENCES = {"pause": "likely", "gone": "likely", "unknown": "possible"}
_KINDS = {"controlled": "controlled", "crash": "crash"}


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each absence that is not part of a flapping broker's."""
    flaps = {(a.broker, a.begin) for run in flapping(case).values() for a in run}
    for absence in case.away:
        if (absence.broker, absence.begin) not in flaps:
            yield _finding(case, absence)


def _finding(case: Case, absence: Absence) -> Finding:
    end = absence.end if absence.end is not None else case.end
    away = None if absence.end is None else round((absence.end - absence.begin) / 1_000_000, 1)
    return Finding(
        detector=NAME,
        severity=_severity(case, absence),
        confidence=_CONFIDENCES.get(absence.kind, "confirmed"),
        title=_title(absence, away),
        begin=absence.begin,
        end=max(end, absence.begin),
        evidence=absence.evidence,
        brokers=[absence.broker],
        measures={"kind": _KINDS.get(absence.kind, "unknown"), "away_s": away},
        explanation=_EXPLANATIONS[absence.kind],
        actions=_ACTIONS[absence.kind],
    )


def _severity(case: Case, absence: Absence) -> str:
    limits = case.limits[NAME]
    if absence.kind in ("controlled", "unknown"):
        return str(limits["planned" if absence.kind == "controlled" else "unknown"])
    gone = absence.kind in ("crash", "gone") and absence.end is None
    return str(limits["gone"] if gone else limits["unplanned"])


def _title(absence: Absence, away: float | None) -> str:
    what = {
        "controlled": "was shut down in order",
        "crash": "died without a shutdown",
        "pause": "hung and was fenced",
        "gone": "fell silent and was fenced",
        "unknown": "was away, in a way that the logs do not tell",
    }[absence.kind]
    back = (
        f" and was back after {away} s" if away is not None else "; these logs do not see it back"
    )
    return f"Broker {absence.broker} {what}{back}"


_EXPLANATIONS = {
    "controlled": "The broker announced its stop, handed its partitions over and stopped. Expected "
    "in every upgrade and restart.",
    "crash": "The broker's log ends without an orderly stop, and what follows is a new start: "
    "the process was killed or fell over. Its partitions had no leader until others took over.",
    "pause": "The cluster gave the broker up although its process went on: it did not answer for "
    "longer than its session allows, and came back without a restart.",
    "gone": "The cluster gave the broker up, and nothing more is heard of it: its log just ends.",
    "unknown": "Nothing here tells how the broker left: its own log is missing or silent.",
}
_ACTIONS = {
    "controlled": ["Nothing to do if somebody restarted it on purpose."],
    "crash": [
        "Look in the host's system log for the same moment: out of memory, a kill, a power loss.",
        "Look for hs_err_pid*.log in the broker's working folder.",
    ],
    "pause": ["Look at the broker's garbage collection log and its disk latency at that time."],
    "gone": ["Look whether the process is alive, and what its host did at that time."],
    "unknown": ["Collect the broker's server.log from before the start."],
}
