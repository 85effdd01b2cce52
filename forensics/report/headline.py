"""What happened in one line: the story of the incident, not its worst single finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from forensics.detection.verdict import UNREAD_ERRORS
from forensics.lib.node_ids import client_name
from forensics.lib.text_format import (
    brokers_text,
    count,
    detector_label,
    duration,
    join_names,
    percent,
    time_text,
    times_text,
)
from forensics.lib.time_zone import current_zone
from forensics.report.coverage_advice import (
    answerable_detectors,
    count_lines,
    describe_missing_logs,
    loss_would_be_visible,
    unanswered_detectors,
)
from forensics.report.data_loss import (
    LossTotals,
    TruncationTotals,
    describe_client_losses,
    loss_rows,
    sum_clean_truncations,
    sum_losses,
)
from forensics.report.finding_text import (
    CLIENT_DETECTORS,
    describe_scope,
    is_open,
    shorten_names,
    whole_seconds,
)
from forensics.report.incident_span import (
    clock_text,
    describe_span,
    incident_span,
    lengths_text,
    longest_outages,
    outages_without_end,
)
from forensics.run_output.reader import RunOutput, SavedFinding

# Findings about processes: a story is told by what happened to these, in the order of time.
NODE_STORIES = (
    "broker-restart", "flapping-broker", "long-pause", "isolated-broker", "disk-failure",
    "network-partition", "fencing-loop",
)  # fmt: skip
# What follows from them, and is told of behind them.
CONSEQUENCES = (
    "offline-partitions", "controller-churn", "controller-lost", "truncation", "under-min-isr",
    "isr-storm", "isr-flapping", "under-replicated", "stale-metadata", "session-expiry",
    "client-disconnects", "client-ended", "undelivered-records",
)  # fmt: skip
# One line for several findings of a kind; {0} counts and {1} names whom they are about.
MERGED = {
    "offset-reset": ("consumer", "{0} lost their positions: {1}"),
    "rebalance-storm": ("consumer group", "{0} kept rebalancing: {1}"),
    "record-too-large": ("client", "{0} sent records that were too large: {1}"),
    "stale-metadata": ("client", "{0} kept asking for partitions that are not there: {1}"),
    "undelivered-records": ("producer", "{0} gave up records: {1}"),
    "unreachable-listener": (
        "client",
        "{0} cannot reach the addresses that brokers give them: {1}",
    ),
    "producer-fatal": ("producer", "{0} failed for good: {1}"),
    "client-ended": ("client", "{0} closed with an error and were not started again: {1}"),
}
TOPIC_GONE = ("topic_deleted", "topic_unknown")
FLAPPING = {"crash": "crashed", "pause": "froze", "isr": "fell out of the ISRs"}
MAX_STORIES, MAX_TOLD = 2, 3
# What begins this close together, people call one moment.
AT_ONCE_MS = 1000
NO_LOSS = "No data loss found."
# Such records were above the high watermark: nobody with acks=all had an answer for them.
SENT_AGAIN = "had not been acknowledged to producers with acks=all, which send them again"


def headline(run: RunOutput) -> str:
    """Say what happened, without a full stop."""
    quality = run.document.get("quality") or {}
    if quality.get("closed"):
        # Which of them stands below.
        why = str(quality["closed"][0]).partition(" (")[0]
        return f"Cannot tell: the quality gate is closed, {why}"
    verdict = run.document.get("verdict")
    if verdict == "incident" and run.incidents:
        return _capitalise(_incident(run))
    unread = describe_unread_errors(run)
    if verdict == "clear":
        where = "in this window" if run.is_windowed else "in these logs"
        return (
            f"No incident that rules know {where}, but {unread}"
            if unread
            else (f"No incident {where}")
        )
    archive = run.document.get("archive") or {}
    if not _count_lines(run) or not archive.get("events"):
        return "Cannot tell: nothing in the input could be used as a Kafka log"
    if unread and any(one.measures.get("fatal") for one in list_unread_errors(run)):
        return f"Cannot tell: no incident that rules know, but {unread}, some at FATAL"
    return "Cannot tell: no incident found, but the logs cover too little to rule one out"


def list_unread_errors(run: RunOutput) -> list[SavedFinding]:
    """Return the findings about errors of servers that no rule knows."""
    return [one for one in run.findings if one.detector == UNREAD_ERRORS]


def describe_unread_errors(run: RunOutput) -> str:
    """Count the errors of servers that no rule knows; empty where there are none."""
    found = list_unread_errors(run)
    number = sum(int(one.measures.get("errors") or 0) for one in found)
    names = sorted({str(one.measures.get("node")) for one in found})
    of = shorten_names(join_names(names, MAX_TOLD))
    return f"{count(number, 'error message')} of {of} that no rule reads" if found else ""


def describe_incident(run: RunOutput) -> str | None:
    """Say when it was, what was lost and how sure that is; None without an incident to speak of."""
    is_closed = bool((run.document.get("quality") or {}).get("closed"))
    if is_closed or run.document.get("verdict") != "incident" or not run.incidents:
        return None
    span = incident_span(run)
    when = f"{describe_span(run, span)}. " if span else ""
    return f"{when}{loss_sentence(run)} {confidence_text(run)}."


def confidence_text(run: RunOutput) -> str:
    """Say how sure the headline is; why it happened may be unknown all the same."""
    return f"Confidence in what happened: {run.incidents[0].confidence}"


def verdict_sentence(run: RunOutput) -> str:
    """Say what happened, when, what was lost and how sure that is, for pages without a layout."""
    title = headline(run)
    closed = (run.document.get("quality") or {}).get("closed")
    if closed:
        number = count(len(run.incidents), "finding")
        rest = f" {number} of level medium or higher: do not act on them before that is settled."
        why = f"Cannot tell: the quality gate is closed, {closed[0]}."
        return why + (rest if run.incidents else "")
    if told := describe_incident(run):
        return f"{title}. {told}"
    if run.document.get("verdict") == "clear":
        return f"{title}{_during(run)}; {describe_reading(run)}."
    if title.endswith("Kafka log"):
        return f"{title}."
    why = ", ".join(list_doubts(run))
    return f"{title}{f' ({why})' if why else ''}; {describe_reading(run)}."


def loss_sentence(run: RunOutput) -> str:
    """Say what was lost: bounds, or that nothing was, or that these logs cannot tell."""
    totals, truncated = sum_losses(run.findings), sum_clean_truncations(run.findings)
    impact = run.document.get("impact") or {}
    least, most = impact.get("records_lost_min") or 0, impact.get("records_lost_max", 0)
    if totals and (told := _totals_sentence(totals)):
        return told
    if totals is None and any(one.detector == "unclean-election" for one in run.findings):
        return "Records may be lost; how many is not known."
    if least:
        how = f": {truncated.how} after a failover" if truncated else ""
        return f"{bounds_text(least, most)} lost{how}."
    cut = _describe_truncation(truncated)
    if most is None or most > 0:
        begin = "Records may be lost" if most is None else f"{bounds_text(0, most)} lost"
        topics = {
            str(topic)
            for one in run.incidents
            for topic in one.measures.get("acks_one") or ()
            if one.detector == "truncation"
        }
        weak = f", {most:,} of them of {join_names(sorted(topics), 4)}" if most and topics else ""
        weak += " (acks=1)" if weak else ""
        return f"{begin}: {cut}{weak}, lost unless they were sent again." if cut else f"{begin}."
    return _nothing_lost(run, cut, is_certain=totals is not None)


def lost_if(run: RunOutput) -> str:
    """Say what became of records that a clean failover truncated, by the acks that are logged."""
    told = [one.measures for one in run.findings if one.detector == "truncation"]
    is_seen = all(one.get("acks_known") is True and not one.get("acks_one") for one in told)
    weak = "no log here shows acks=1" if told and is_seen else "with acks=1 they may be lost"
    return f"{SENT_AGAIN} ({weak})"


def _describe_truncation(truncated: TruncationTotals | None) -> str:
    if truncated is None:
        return ""
    on = count(truncated.partitions, "partition")
    number = bounds_text(truncated.at_least, truncated.at_most)
    if truncated.is_left:
        return f"{number} of {on} left on brokers that are not back"
    return f"{number} {truncated.how} on {on} after clean failovers"


def _nothing_lost(run: RunOutput, cut: str, *, is_certain: bool) -> str:
    """Say that nothing was lost, and what comes near it."""
    if not is_certain and not loss_would_be_visible(run):
        return "Whether records were lost cannot be told from these logs."
    by_clients = describe_client_losses(run.findings)
    if cut:
        told = f"No data loss found: {cut} {lost_if(run)}."
        return f"{told} {by_clients[:1].upper()}{by_clients[1:]}." if by_clients else told
    return f"No data loss found inside Kafka, but {by_clients}." if by_clients else NO_LOSS


def _totals_sentence(totals: LossTotals) -> str:
    """Say what unclean elections took; empty where they took nothing."""
    on = f"on {count(totals.partitions, 'partition')}"
    if totals.unbounded and totals.at_least and totals.is_certain:
        return (
            f"At least {count(totals.at_least, 'record')} lost {on}; how many at most is not known."
        )
    if totals.unbounded:
        return "Records may be lost; how many at most is not known."
    if not totals.at_most:
        return ""
    if totals.at_least and totals.is_certain:
        return f"{bounds_text(totals.at_least, totals.at_most)} lost {on}."
    return f"At most {_records(totals.at_most)} lost {on}."


def bounds_text(least: int, most: int | None) -> str:
    """Write how many records, between bounds.

    >>> bounds_text(3, 3), bounds_text(3, 1200), bounds_text(3, None)
    ('3 records', '3 to 1,200 records', 'at least 3 records')
    """
    if most is None:
        return f"at least {_records(least)}"
    return _records(most) if least == most else f"{least:,} to {_records(most)}"


def _records(number: int) -> str:
    return count(number, "record")


def describe_reading(run: RunOutput) -> str:
    """Say how much was read, and how many checks were run on it."""
    lines = _count_lines(run)
    read_lines, unparsed = count_lines(run)
    share = percent(read_lines - unparsed, read_lines) if read_lines else "an unknown share"
    asked = len(run.document.get("detectors") or ())
    read = f"{share} of {count(lines, 'line')} understood"
    if not asked:
        return read
    ran = f"{count(asked - len(unanswered_detectors(run)), 'check')} run"
    lacking = len(answerable_detectors(run))
    return f"{read}; {ran}, {lacking} could not run" if lacking else f"{read}; {ran}"


def list_doubts(run: RunOutput) -> list[str]:
    """Say why nothing can be told: what is missing, and which checks of quality failed."""
    failed = (run.document.get("quality") or {}).get("failed") or ()
    doubts = [str(one.get("otherwise")) for one in failed if one.get("consequence") == "downgrade"]
    return [part for part in (describe_missing_logs(run), *doubts) if part]


def page_title(run: RunOutput, cluster: str) -> str:
    """Name the page for a tab: what, where, on which day."""
    day = time_text(run.window[0])[:10] if run.window else ""
    span = incident_span(run)
    if span:
        day = time_text(span.start)[:10]
    return " \u00b7 ".join(part for part in (headline(run), day, cluster) if part)


def _count_lines(run: RunOutput) -> int:
    archive = run.document.get("archive") or {}
    return int(archive.get("lines") or sum(row["lines"] for row in run.files))


def _during(run: RunOutput) -> str:
    if not run.window:
        return ""
    start, end = map(time_text, run.window)
    return f" between {start} and {end} {current_zone().label}"


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


def _incident(run: RunOutput) -> str:
    worst = run.incidents[0]
    if worst.detector == "unclean-election":
        return _unclean(run)
    span = incident_span(run)
    findings = span.findings if span else run.incidents
    stories = node_stories(run, findings)
    if stories and worst.detector in (*NODE_STORIES, *CONSEQUENCES):
        return "; ".join([*_tell(run, stories), *_consequences(run, findings)])
    if same := merged_findings(run):
        noun, text = MERGED[worst.detector]
        names = list(dict.fromkeys(name for one in same for name in story_names(one)))
        if all(one.measures.get("suspect") in TOPIC_GONE for one in same):
            topics = {str(name) for one in same for name in one.measures.get("topics") or ()}
            gone = f"topics that are not there ({join_names(sorted(topics), 4)})"
            text = text.replace("partitions that are not there", gone)
        return text.format(count(len(names), noun), join_names(names, 4))
    return worst.title or f"{detector_label(worst.detector)} on {describe_scope(worst)}"


def node_stories(run: RunOutput, findings: Sequence[SavedFinding]) -> list[SavedFinding]:
    """Return the findings about processes that are no planned restart; ZooKeeper's among them."""
    began = {str(one.get("finding")) for one in run.document.get("trigger") or ()}
    return [
        one
        for one in findings
        if (one.detector in NODE_STORIES and _is_bad(one))
        or (one.detector == "session-expiry" and one.id in began)
    ]


def merged_findings(run: RunOutput) -> list[SavedFinding]:
    """Return the findings that one headline about several clients stands for; empty otherwise."""
    span = incident_span(run)
    findings = span.findings if span else run.incidents
    worst = run.incidents[0]
    same = [one for one in findings if one.detector == worst.detector]
    # Whoever met it a few times only met it, too.
    same += [
        one
        for one in run.findings
        if span and one.detector == worst.detector in CLIENT_DETECTORS and one.severity == "low"
        and one.start_ms is not None and span.start <= one.start_ms <= span.end
    ]  # fmt: skip
    told = {name for one in same for name in one.clients}
    # What it met, a producer may tell only by the records that it gave up.
    same += [
        one
        for one in findings
        if worst.measures.get("suspect") in TOPIC_GONE
        and one.detector != worst.detector
        and one.measures.get("suspect") in TOPIC_GONE
        and not told & {*one.clients}
    ]
    is_merged = len(same) > 1 and worst.detector in MERGED
    is_story = worst.detector in CONSEQUENCES and bool(node_stories(run, findings))
    return same if is_merged and not is_story else []


def _is_bad(finding: SavedFinding) -> bool:
    return finding.detector != "broker-restart" or finding.measures.get("kind") != "controlled"


def _unclean(run: RunOutput) -> str:
    rows = [row for _, row in loss_rows(run.findings) if row.lost_records_max != 0]
    worst = run.incidents[0]
    names = [row.partition for row in rows] or list(worst.partitions)
    topics = sorted({name.rpartition("-")[0] or name for name in names})
    where = f" in {join_names(topics)}" if topics else ""
    totals = sum_losses(run.findings)
    after = f"{where} after an unclean leader election"
    if totals and totals.unbounded and totals.at_least and totals.is_certain:
        return f"at least {count(totals.at_least, 'record')} lost{after}"
    if totals is None or totals.unbounded:
        return f"records may be lost{after}: how many is not known"
    if not totals.at_most:
        return f"unclean leader election{where}; no record lost"
    if totals.at_least and totals.is_certain:
        return f"{bounds_text(totals.at_least, totals.at_most)} lost{after}"
    return f"up to {_records(totals.at_most)} lost{after}"


def whom_text(finding: SavedFinding) -> str:
    """Join whom a finding is about."""
    return join_names(story_names(finding))


def story_names(finding: SavedFinding) -> list[str]:
    """Name the clients or the group that a finding is about; what it is about where none is."""
    group = finding.measures.get("group")
    if isinstance(group, str) and finding.detector == "rebalance-storm":
        return [group]
    return [client_name(one) for one in finding.clients] or [describe_scope(finding)]


def _tell(run: RunOutput, stories: Sequence[SavedFinding]) -> Iterator[str]:
    """Tell what happened to processes; those of one kind in one phrase."""
    groups: dict[str, list[SavedFinding]] = {}
    for one in sorted(stories, key=lambda one: (one.start_ms or 0, one.id)):
        kind = one.detector
        if kind == "broker-restart":
            kind = f"restart {one.measures.get('kind')}"
            # One that ended itself says why in its title.
            kind += "" if "crashed" in one.title or kind != "restart crash" else " by itself"
        elif one.clients and not one.brokers:
            kind += " of a client"
        groups.setdefault(kind, []).append(one)
    phrases = [one for kind, members in groups.items() for one in _phrases(run, kind, members)]
    yield from phrases[:MAX_STORIES]
    if len(phrases) > MAX_STORIES:
        yield f"and {len(phrases) - MAX_STORIES} more, told below"


def _phrases(run: RunOutput, kind: str, members: Sequence[SavedFinding]) -> Iterator[str]:
    if kind == "flapping-broker":
        for one in members:
            done = flapping_verb(one)
            stayed = " and did not come back" if is_open(run, one) else ""
            yield f"{brokers_text(one.brokers)} {done} {often_text(one)}{stayed}"
        return
    verb = {"restart crash": "crashed", "restart unknown": "went away", "long-pause": "froze"}
    if kind not in verb or any(not one.brokers for one in members):
        yield from (shorten_names(one.title.partition(";")[0]) for one in members)
        return
    in_turn = [broker for one in members for broker in one.brokers]
    if len(members) == 1:
        yield f"{brokers_text(in_turn)} {verb[kind]}{_how_long(members[0])}"
        return
    lengths = [froze_text(one) for one in members]
    if kind == "long-pause" and all(lengths) and len(members) <= MAX_TOLD:
        first, *others = (
            f"{brokers_text(one.brokers)} {{}}{text}"
            for one, text in zip(members, lengths, strict=True)
        )
        yield ", ".join([first.format("froze "), *(one.format("") for one in others)])
        return
    starts = [one.start_ms for one in members if one.start_ms is not None]
    apart = max(starts) - min(starts) if starts else 0
    how = f"one after the other within {duration(apart)}"
    if len(set(in_turn)) == 1:
        times = f"{times_text(len(in_turn))} within {duration(apart)}"
        yield f"{brokers_text(in_turn[:1])} {verb[kind]} {times}"
        return
    if apart <= AT_ONCE_MS:
        how = "at the same time"
    yield f"{_in_turn_text(in_turn)} {verb[kind]} {how}"


def _in_turn_text(brokers: Sequence[int]) -> str:
    """Name brokers in the order in which something befell them, each once.

    >>> _in_turn_text([2, 1]), _in_turn_text([1, 2, 3, 1])
    ('brokers 2 and 1', 'brokers 1 (twice), 2 and 3')
    """
    times = Counter(brokers)
    if len(times) < 2 or len(times) == len(brokers):
        return brokers_text(brokers)
    names = [f"{one} ({times_text(n)})" if n > 1 else str(one) for one, n in times.items()]
    return f"brokers {', '.join(names[:-1])} and {names[-1]}"


def froze_text(finding: SavedFinding) -> str:
    """Say for how long a process froze; of several times, how often and how long at most."""
    longest, times = finding.measures.get("longest_ms"), finding.measures.get("pauses")
    if not isinstance(longest, int):
        return ""
    about = "about " if "about" in finding.title else ""
    longest = whole_seconds(round(longest / 1000, 1)) if about else longest
    if isinstance(times, int) and times > 1:
        return f"{times_text(times)}, up to {about}{duration(longest)}"
    return f"for {about}{duration(longest)}"


def _how_long(finding: SavedFinding) -> str:
    if finding.detector == "long-pause" and (text := froze_text(finding)):
        return f" {text}"
    away = finding.measures.get("away_s")
    if isinstance(away, int | float):
        return f", back in service {duration(round(away * 1000))} later"
    return ""


def flapping_verb(finding: SavedFinding) -> str:
    """Say what a broker did again and again; one only froze where its own log was silent."""
    how = str(finding.measures.get("how"))
    if how == "pause" and "froze" not in finding.title:
        return "lost its session"
    return FLAPPING.get(how, "left and came back")


def is_last_stop(run: RunOutput, finding: SavedFinding) -> bool:
    """Return True if a broker was shut down in order and not started again in these logs."""
    is_stop = finding.detector == "broker-restart" and not finding.is_incident
    return is_stop and finding.measures.get("kind") == "controlled" and is_open(run, finding)


def describe_last_stops(run: RunOutput, findings: Sequence[SavedFinding]) -> str:
    """Say which brokers were shut down as the logs end, and when."""
    numbers = sorted({broker for one in findings for broker in one.brokers})
    starts = [one.start_ms for one in findings if one.start_ms is not None]
    first, last = (clock_text(pick(starts), 0)[-8:] for pick in (min, max)) if starts else ("", "")
    when = f" from {first} to {last}" if first != last else f" at {first}" * bool(first)
    known = {row["node"] for row in run.files if row["role"] == "broker"}
    who = brokers_text(numbers) if numbers else "brokers"
    if len(numbers) == len(known) > 1:
        who = "both brokers" if len(numbers) == 2 else f"all {len(numbers)} brokers"
    return f"end with a clean shutdown of {who}{when}"


def often_text(finding: SavedFinding) -> str:
    """Say how often a broker was lost; at least so often where more is known than that."""
    measures = finding.measures
    freezes = measures.get("freezes_min")
    cycles = next(
        (measures[name] for name in ("cycles", "cuts", "pauses") if name in measures), None
    )
    return f"at least {times_text(freezes)}" if freezes else times_text(cycles)


def _consequences(run: RunOutput, findings: Sequence[SavedFinding]) -> Iterator[str]:
    impact = run.document.get("impact") or {}
    possibly = (impact.get("unknown_leaders") or {}).get("partitions")
    if hit := impact.get("partitions_unavailable"):
        longest = duration(round(1000 * (impact.get("longest_s") or 0)))
        span = incident_span(run)
        lengths = longest_outages(run, span) if span else []
        if lengths and lengths[0].is_rough:
            longest = lengths_text(lengths, is_bound=True)
        open_ends = outages_without_end(run).partitions
        long = f", {open_ends} of them for longer than {longest}" if open_ends else ""
        bound = "at least " * bool(possibly)
        yield f"{bound}{count(hit, 'partition')} unavailable{long or f' for up to {longest}'}"
    elif possibly:
        yield f"{count(possibly, 'partition')} may have been unavailable"
    for one in findings:
        changes = one.measures.get("changes")
        if one.detector == "controller-churn" and isinstance(changes, int):
            yield f"the controller moved {times_text(changes)}"
    if ended := [name for one in findings if one.detector == "client-ended"
                 for name in story_names(one)]:  # fmt: skip
        verb = "was" if len(ended) == 1 else "were"
        yield f"{join_names(ended, 3)} closed with an error and {verb} not started again"
    least, most = impact.get("records_lost_min") or 0, impact.get("records_lost_max", 0)
    if least:
        yield f"{bounds_text(least, most)} lost"
    elif most is None:
        yield "records may be lost"
