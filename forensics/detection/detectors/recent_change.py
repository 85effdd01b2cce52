"""Changes of settings, topics, rights and replicas that were made shortly before trouble began."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import EVIDENCE_COLUMNS, DetectionContext, Row, by_time
from forensics.detection.shared.isr_changes import find_isr_storms
from forensics.detection.shared.min_isr import REFUSALS
from forensics.lib.node_ids import broker_id
from forensics.lib.text_format import cut_text
from forensics.lib.time_units import SECOND, to_iso
from forensics.run_output.findings import Finding

NAME = "recent-change"
_WORDS = {
    "config_set": "{detail}{about}",
    "topic_deleted": "{topic} was deleted",
    "partitions_added": "{topic} got more partitions",
    "reassignments_asked": "replicas were reassigned",
    "acl_changed": "access rules were changed",
    "quota_changed": "a quota was changed",
    "credential_changed": "a credential was changed",
}
_ERRORS = (
    *REFUSALS,
    "MESSAGE_TOO_LARGE",
    "TOPIC_AUTHORIZATION_FAILED",
    "INVALID_REPLICATION_FACTOR",
)
_REFUSING = ("append_failed", "client_error", "produce_failed", "send_failed")
_COLUMNS = (*EVIDENCE_COLUMNS, "kind", "topic", "broker", "detail", "telling")
_MAX_CHANGES, _SHOWN = 1000, 3
# Of one change in a title: a setting may list all replicas of a topic.
_MAX_CHARS = 120


@dataclass(frozen=True, order=True)
class _Trouble:
    """Something that went wrong: when, with which topic, and its line if it has one."""

    at: int
    what: str
    topic: str | None = None


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding of all changes that some trouble followed."""
    changes = _read_changes(context) if context.visibility.has_kinds(*_WORDS) else []
    troubles = sorted(_find_troubles(context)) if changes else []
    within = context.limits[NAME]["within"] * SECOND
    pairs = []
    for change in changes:
        after = [one for one in troubles if 0 <= one.at - change["at"] <= within]
        same = [one for one in after if one.topic is not None and one.topic == change["topic"]]
        if after:
            pairs.append((change, (same or after)[0]))
    if pairs:
        yield _finding(context, pairs)


def _read_changes(context: DetectionContext) -> list[Row]:
    """Read what was changed while the cluster ran, each once; not what a new topic begins with."""
    born: dict[str, int] = {}
    first = (pc.field("leader_epoch") == 0) & pc.field("started_at").is_valid()
    for row in context.each("leadership", first, ["topic", "started_at"]):
        born[row["topic"]] = min(row["started_at"], born.get(row["topic"], row["started_at"]))
    near = context.limits[NAME]["new"] * SECOND
    oldest = min(born.values(), default=0)
    changes: dict[tuple[Any, ...], Row] = {}
    where = pc.field("kind").isin(list(_WORDS)) & pc.field("ts").is_valid()
    for row in context.each("events", where, _COLUMNS):
        is_new = row["kind"] == "config_set" and abs(row["at"] - born.get(row["topic"], 0)) <= near
        key = row["kind"], row["topic"], row["broker"], row["detail"]
        # A new cluster, too: nothing was there that could be changed.
        is_new |= row["at"] < oldest or _is_starting(context, row)
        if is_new or not context.is_live(row) or len(changes) >= _MAX_CHANGES:
            continue
        if key not in changes or by_time(row) < by_time(changes[key]):
            changes[key] = row
    return sorted(changes.values(), key=by_time)


def _is_starting(context: DetectionContext, row: Row) -> bool:
    """Return True if the line is of a broker that just started: it reads all that is set."""
    near = context.limits[NAME]["start"] * SECOND
    broker = broker_id(row["node"])
    spans = context.history.lanes.brokers.get(broker, ()) if broker is not None else ()
    return any(
        span.state in ("starting", "recovering")
        and span.begin <= row["at"] <= (row["at"] if span.end is None else span.end + near)
        for span in spans
    )


def _find_troubles(context: DetectionContext) -> Iterator[_Trouble]:
    for absence in context.absences:
        if absence.kind != "controlled":
            yield _Trouble(absence.begin, f"broker {absence.broker} was lost")
    for row in context.each("leadership", pc.field("clean") == False, ["topic", "started_at"]):  # noqa: E712
        if row["started_at"] is not None:
            what = f"a replica out of sync was elected for {row['topic']}"
            yield _Trouble(row["started_at"], what, row["topic"])
    for run in find_isr_storms(context):
        yield _Trouble(run.begin, "followers fell out of sync")
    where = pc.field("kind").isin(list(_REFUSING)) & pc.field("error").isin(list(_ERRORS))
    seen: set[tuple[str, str]] = set()
    for row in context.each(
        "events", where & pc.field("ts").is_valid(), ["node", "ts", "topic", "error"]
    ):
        key = row["topic"] or "", row["error"]
        if key not in seen:
            seen.add(key)
            of = f" to {row['topic']}" if row["topic"] else ""
            yield _Trouble(row["at"], f"writes{of} were refused ({row['error']})", row["topic"])


def _finding(context: DetectionContext, pairs: Sequence[tuple[Row, _Trouble]]) -> Finding:
    said = [
        f"{cut_text(_describe(change), _MAX_CHARS)}, {(trouble.at - change['at']) / SECOND:.0f} s"
        f" before {trouble.what}"
        for change, trouble in pairs
    ]
    more = f"; and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
    return context.finding(
        NAME,
        context.limits[NAME]["severity"],
        f"Changed shortly before: {'; '.join(said[:_SHOWN])}{more}",
        pairs[0][0]["at"],
        pairs[-1][0]["at"],
        [change for change, _ in pairs],
        measures={
            "changes": [
                {"at": to_iso(change["at"]), "what": _describe(change), "before": trouble.what,
                 "after_s": round((trouble.at - change["at"]) / SECOND, 1)}
                for change, trouble in pairs
            ]
        },
        explanation="Many incidents begin with a change. That one came before the other proves "
        "nothing: look whether the change can have done it.",
        actions=["Ask who made each of these changes, and why; take back what may have caused it."],
        why=f"trouble within {context.limits[NAME]['within']} s of a change",
        doubts=["What was changed in files, and takes effect at a restart, is not seen here."],
    )  # fmt: skip


def _describe(change: Row) -> str:
    about = f" (topic {change['topic']})" if change["topic"] else ""
    about = about or (f" (broker {change['broker']})" if change["broker"] is not None else "")
    detail = change["detail"] or "a setting"
    return _WORDS[change["kind"]].format(detail=detail, about=about, topic=change["topic"])
