"""The answers of the first screen: why, to whom, what was lost; a few short lines each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from forensics.lib.node_ids import broker_id, client_name
from forensics.lib.text_format import (
    brokers_text,
    count,
    duration,
    join_names,
    parse_millis,
    times_text,
)
from forensics.report.data_loss import lost_and_spared, sum_clean_truncations, sum_losses
from forensics.report.finding_text import (
    estimated_starts,
    short_title,
    shorten_names,
    times_of,
    whole_seconds,
)
from forensics.report.headline import (
    CONSEQUENCES,
    NODE_STORIES,
    bounds_text,
    headline,
    loss_sentence,
    lost_if,
    merged_findings,
    node_stories,
    often_text,
    story_names,
)
from forensics.report.incident_span import (
    IncidentSpan,
    client_times,
    client_troubles,
    clients_with_logs,
    clock_text,
    incident_outages,
    incident_span,
    lengths_text,
    longest_outages,
    most_at_once,
    outages_without_end,
)
from forensics.run_output.findings import PartitionLoss
from forensics.run_output.reader import Row, RunOutput, SavedFinding

# The headline names as many clients.
MAX_EFFECTS, MAX_NAMED, MAX_TIMES = 3, 4, 4
# Two findings name the moment of one thing so close together.
SAME_MOMENT_MS = 2000
# Where groups keep their positions.
OFFSETS = "__consumer_offsets-"
# What a broker did, by the kind of the trigger.
VERBS = {
    "crash": "crashed", "pause": "froze", "network": "was cut off", "controlled": "was shut down",
    "disk": "lost a log directory", "controller": "was lost as the active controller",
}  # fmt: skip
LEADER_WORDS = {
    "leader_dead": "was down", "leader_hung": "was frozen", "leader_isolated": "was cut off",
    "leader_stopped": "was stopped", "no_leader": "",
}  # fmt: skip
TROUBLE = "disconnected or asking for leaders, short pauses included, for up to about"
UNCLEAN_SETTING = "unclean.leader.election.enable"
# Lengths that are no further apart are told as one; a longer text is cut to one sentence.
ABOUT_SAME, MAX_WHY, MAX_REASONS = 1.05, 240, 5
# An end that is known to within less is told as if it were known; shorter troubles of a client say
# nothing of how long its users waited.
WITHIN_MS = MIN_TOLD_MS = 1000
# Replicas are dropped from an ISR, and clients time out, so long after the cause.
AROUND_MS = 30_000


@dataclass(frozen=True)
class SummaryLine:
    """One line of an answer, and where more stands; text between backticks is code."""

    text: str
    anchor: str = ""
    link: str = ""
    is_strong: bool = False


def explain_why(run: RunOutput) -> list[SummaryLine]:
    """Say what began it, and how that came to what the headline says."""
    span = incident_span(run)
    if span is None:
        return []
    sentences = [*_triggers(run, span), *_mechanism(run, span)]
    if not sentences:
        worst = run.incidents[0]
        sentences = [first_sentences(worst.explanation, 2) or "The logs do not say why."]
    # Of two things that began it in the same way the same is said.
    text = shorten_names(" ".join(list(dict.fromkeys(sentences))[:MAX_REASONS]))
    has_chain = bool(run.document.get("chains"))
    return [SummaryLine(text, "happened" if has_chain else "", "Cause chain" if has_chain else "")]


def _triggers(run: RunOutput, span: IncidentSpan) -> Iterator[str]:
    """Say who went first, and how."""
    known = {finding.id: finding for finding in run.findings}
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    triggers = list(run.document.get("trigger") or ())
    for one in [*triggers, *_later_stories(run, span)]:
        kind, finding = str(one.get("kind")), known.get(str(one.get("finding")))
        # Crashes are told in turn; what froze for different reasons is told apart.
        reason = _explained(finding) if finding and kind == "pause" else ""
        groups.setdefault((kind, reason), []).append(one)
    told = {str(one.get("finding")) for one in triggers}
    worst = run.incidents[0]
    if triggers and worst.detector in NODE_STORIES and worst.id not in told:
        yield f"{worst.title.partition(';')[0]} ({clock_text(worst.start_ms or 0, span.start)})."
    if merged_findings(run):
        # What each of several clients met is said by its own finding.
        groups = {key: members for key, members in groups.items() if key[0] in VERBS}
    for (kind, _), members in groups.items():
        findings = [known[name] for one in members if (name := str(one.get("finding"))) in known]
        yield _trigger_sentence(kind, members, findings, run, span)
    if triggers:
        yield from _lost_controllers(run, span)


def _lost_controllers(run: RunOutput, span: IncidentSpan) -> Iterator[str]:
    """Say that brokers were the active controller when they went, if they were."""
    stories = [one for one in node_stories(run, span.findings) if one.detector in NODE_STORIES]
    brokers = {broker for one in stories for broker in one.brokers}
    went = sum(max(len(times_of(one)), 1) for one in stories if one.brokers)
    for one in run.findings:
        nodes = (broker_id(str(node)) for node in one.measures.get("lost_by") or ())
        lost = {-1 if number is None else number for number in nodes}
        times = one.measures.get("changes", one.measures.get("losses"))
        is_near = one.start_ms is not None and span.start <= one.start_ms <= span.end
        if is_near and lost and lost <= brokers and isinstance(times, int):
            gap, vacant = "", one.measures.get("vacant_s")
            if isinstance(vacant, int | float):
                is_rough = any(estimated_starts(story) for story in stories)
                long = f"about {vacant:.0f}" if is_rough else f"{vacant:.1f}"
                gap = f": {long} s without one{' in all' * (times > 1)}"
            who = "Each time the broker" if times == went > 1 else "The broker"
            who += " that went away" * any(not story.brokers for story in stories)
            if times < went:
                who = brokers_text(sorted(lost)).capitalize()
            who += " were" if len(lost) > 1 and times < went else " was"
            yield f"{who} the active controller, too{gap}."


def _later_stories(run: RunOutput, span: IncidentSpan) -> Iterator[Mapping[str, Any]]:
    """Yield what the headline tells of processes beside the triggers, as triggers are written."""
    if not run.document.get("trigger"):
        return
    told = {broker_id(str(one.get("node"))) for one in run.document["trigger"]}
    for one in node_stories(run, span.findings):
        if one.detector == "long-pause" and one.start_ms is not None and not told & {*one.brokers}:
            nodes = [f"broker-{broker}" for broker in one.brokers] or list(one.clients)
            for node in nodes[:1]:
                yield {"kind": "pause", "node": node, "at": one.start_ms, "finding": one.id}


def _trigger_sentence(
    kind: str, members: Sequence[Mapping[str, Any]], findings: Sequence[SavedFinding],
    run: RunOutput, span: IncidentSpan,
) -> str:  # fmt: skip
    verb = VERBS.get(kind)
    if verb is None or (kind == "network" and len(members) > 1):
        if not findings:
            nodes = [node_text(str(one.get("node"))) for one in members if one.get("node")]
            who = join_names(list(dict.fromkeys(nodes)))
            return f"How {who} left is not in the logs." if who else "The logs do not say why."
        titles = list(dict.fromkeys(shorten_names(one.title.partition(";")[0]) for one in findings))
        if titles[0] == headline(run):
            return first_sentences(findings[0].explanation, 2)
        titles = [f"{one[:1].upper()}{one[1:]}" for one in titles]
        when = (
            ""
            if len(titles) > 1
            else f" from {clock_text(findings[0].start_ms or 0, span.start)} on"
        )
        when *= findings[0].detector == "session-expiry"
        return f"{join_names(titles, 2)}{when}. {first_sentences(findings[0].explanation, 1)}"
    moments = [(_moment(one.get("at")), str(one.get("node"))) for one in members]
    repeats = [one for one in findings if one.detector == "flapping-broker"]
    if kind == "crash" and not repeats:
        moments = _each_crash(run, moments)
    parts = []
    for index, (at, node) in enumerate(moments[:4]):
        doing = verb if not index else ""
        several = [one for one in findings if one.detector != "flapping-broker"
                   and len(times_of(one)) > 1]  # fmt: skip
        again = next((one for one in [*repeats, *several] if _is_about(one, node)), None)
        name = node_text(node)
        if again:
            parts.append(" ".join(f"{name} {doing} {often_text(again)}".split()))
            parts[-1] += _each_time(again, kind, span)
            if again.measures.get("freezes_min"):
                parts[-1] += f"; the cluster gave it up {times_text(again.measures.get('cycles'))}"
        else:
            long = _length_text([*findings, *run.incidents], kind, at, node)
            is_rough = any("about" in one.title and _is_about(one, node) for one in findings)
            when = f"at{' about' * is_rough} {clock_text(at, span.start)}{long}"
            name = "again" if index and node == moments[index - 1][1] else name
            parts.append(" ".join(f"{name} {doing} {when}".split()))
    if len(moments) > 4:
        parts.append(f"{len(moments) - 4} more followed")
    text = " and ".join([*([", ".join(parts[:-1])] if parts[:-1] else []), parts[-1]])
    text = text if text.startswith(members[0].get("node") or " ") else text[:1].upper() + text[1:]
    return f"{text}{_reason(kind, findings)}"


def _each_time(finding: SavedFinding, kind: str, span: IncidentSpan) -> str:
    """List when each freeze or absence was, and how long; empty where nothing is known."""
    times = times_of(finding)
    listed = times[:MAX_TIMES] if len(times) <= MAX_TIMES + 1 else times[: MAX_TIMES - 1]
    listed = times if len(times) == MAX_TIMES + 1 else listed
    parts = []
    about = estimated_starts(finding)
    for at, seconds in listed:
        when = f"{'about ' * (at in about)}{clock_text(at, span.start)}"
        long = f"{duration(whole_seconds(seconds))} from {when}" if seconds is not None else ""
        parts.append(long or f"from {when} on")
    if not parts:
        return f", first at {clock_text(finding.start_ms or 0, span.start)}"
    if left := len(times) - len(listed):
        lengths = [seconds for _, seconds in times[len(listed) :] if seconds is not None]
        most = f", up to {duration(whole_seconds(max(lengths)))}" if lengths else ""
        parts.append(f"{left} more{most}")
    away = "down " if kind == "crash" else "out of service "
    # The words before say so.
    is_said = finding.detector == "long-pause"
    return f" ({'' if is_said else away}{', '.join(parts)})"


def _length_text(findings: Iterable[SavedFinding], kind: str, at: int, node: str) -> str:
    """Say for how long a process was away that was lost at a moment; empty where nobody knows."""
    for one in findings:
        # Who froze and was killed then was away for longer than it was frozen.
        is_other = not _is_about(one, node) or (kind == "crash" and one.detector == "long-pause")
        for begin, seconds in () if is_other else times_of(one):
            if seconds is not None and abs(begin - at) <= SAME_MOMENT_MS:
                long = duration(whole_seconds(seconds))
                return f" (back in service {long} later)" if kind == "crash" else f" for {long}"
    return ""


def _moment(at: object) -> int:
    return at if isinstance(at, int) else parse_millis(at) or 0


def _each_crash(run: RunOutput, moments: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Add the later crashes of the same brokers: the trigger names each broker once."""
    nodes = {node for _, node in moments}
    more = [
        (one.start_ms, node)
        for one in run.incidents
        if one.detector == "broker-restart" and one.measures.get("kind") == "crash"
        for node in (f"broker-{broker}" for broker in one.brokers)
        if node in nodes and one.start_ms is not None
    ]
    return sorted({*moments, *more})


def _is_about(finding: SavedFinding, node: str) -> bool:
    return broker_id(node) in finding.brokers or node in finding.clients


def node_text(node: str) -> str:
    """Name a node as people do.

    >>> node_text("broker-2"), node_text("controller-1")
    ('broker 2', 'controller-1')
    """
    number = broker_id(node)
    return f"broker {number}" if number is not None else node


def _reason(kind: str, findings: Sequence[SavedFinding]) -> str:
    """Say why a process went, as far as the logs say it."""
    if kind == "crash":
        reasons = [_ended(one) for one in findings]
        starts = "".join(map(_failed_starts, findings))
        if not any(reasons):
            return f"; the logs do not say why.{starts}"
        return f". {'. '.join(one for one in dict.fromkeys(reasons) if one)}.{starts}"
    causes = dict.fromkeys(map(_explained, findings))
    causes.pop("", None)
    return f". {next(iter(causes))}" if causes and kind != "controlled" else "."


def _ended(finding: SavedFinding) -> str:
    """Say why a process ended, where its lines or its host's say so."""
    if reasons := finding.measures.get("reasons"):
        return join_names([str(one) for one in reasons])
    return "" if "crashed" in finding.title else finding.title.partition(";")[0]


def _failed_starts(finding: SavedFinding) -> str:
    """Say how many starts of a process failed, and with which error."""
    failed, starts = finding.measures.get("failed_starts"), finding.measures.get("starts")
    if not failed:
        return ""
    errors = [f'"{error}"' for error in finding.measures.get("start_errors") or ()]
    said = f" ({join_names(errors, 1)})" if errors else ""
    return f" {failed} of {starts} starts failed{said}."


def _explained(finding: SavedFinding) -> str:
    """Return the first sentence of an explanation, without what the title said."""
    text = first_sentences(finding.explanation, 1)
    if finding.detector == "flapping-broker" and ": " in text:
        text = text.partition(": ")[2]
    return f"{text[:1].upper()}{text[1:]}"


def first_sentences(text: str, number: int) -> str:
    """Return the first sentences of a text; one of them where more would be long."""
    parts = re.split(r"(?<=[a-z)\"'`][.!?]) +(?=[A-Z0-9])", " ".join(text.split()))
    told = " ".join(parts[:number])
    return told if len(told) <= MAX_WHY else parts[0]


def _mechanism(run: RunOutput, span: IncidentSpan) -> Iterator[str]:
    """Say how the trigger led to what the headline says, and which guardrail was missing."""
    worst = run.incidents[0]
    if worst.detector == "unclean-election":
        yield _unclean_mechanism(run, worst)
        return
    has_trigger = bool(run.document.get("trigger"))
    impact = run.document.get("impact") or {}
    is_about_nodes = worst.detector in (*NODE_STORIES, *CONSEQUENCES)
    if has_trigger and is_about_nodes:
        if impact.get("partitions_unavailable"):
            began = {str(one.get("node")) for one in run.document.get("trigger") or ()}
            nodes = [node_text(node) for node in began if broker_id(node) is not None]
            leaders = {row["leader"] for *_, row in incident_outages(run, span)} - {None}
            is_one = len(leaders) < 2 and len(nodes) == len(began) == 1
            one = nodes[0] if is_one else "a broker"
            yield (
                f"While {one} was away, the partitions that it led had no leader that served them"
                " until another was elected or it came back."
            )
    elif same := merged_findings(run):
        yield from _reasons_by_client(same)
        yield from _created_again(run)
    elif explained := first_sentences(worst.explanation, 2):
        yield explained


def _reasons_by_client(findings: Sequence[SavedFinding]) -> Iterator[str]:
    """Say why it happened to each of several clients, once for those of the same reason."""
    reasons: dict[str, list[str]] = {}
    for one in findings:
        names = reasons.setdefault(first_sentences(one.explanation, 1), [])
        names += [name for name in story_names(one) if name not in names]
    if len(reasons) == 1:
        yield first_sentences(findings[0].explanation, 2)
        return
    for reason, names in reasons.items():
        # A first word with a colon names the finding's verdict, which its title says.
        text = re.sub(r"^\w+: ", "", reason)
        text = text if text[1:2].isupper() else text[:1].lower() + text[1:]
        yield f"{join_names(names, 4)}: {text}"


def _created_again(run: RunOutput) -> Iterator[str]:
    """Say which topics were deleted and created again, and who met that."""
    for one in run.findings:
        if one.detector == "stale-metadata" and one.measures.get("suspect") == "topic_recreated":
            yield first_sentences(one.explanation, 1)


def _unclean_mechanism(run: RunOutput, worst: SavedFinding) -> str:
    rows = [row for row in worst.losses if row.lost_records_max != 0] or list(worst.losses)
    topics = sorted({row.partition.rpartition("-")[0] for row in rows})
    leaders = sorted({row.leader for row in rows if row.leader is not None and row.leader >= 0})
    when = clock_text(worst.start_ms, worst.start_ms) if worst.start_ms is not None else ""
    elected = f"{brokers_text(leaders) if leaders else 'a replica'} was elected"
    if len(leaders) > 1:
        elected = f"{brokers_text(leaders)} were elected"
    elected += f" at {when}" if when else ""
    allowed = _topics_allowing_unclean(run)
    if any(row.manner == "manual" for row in rows):
        begin = "Somebody ordered an unclean election"
    elif topics and set(topics) <= allowed:
        verb = "allows" if len(topics) == 1 else "allow"
        names = join_names([f"`{topic}`" for topic in topics])
        begin = f"{names} {verb} unclean elections (`{UNCLEAN_SETTING}=true`)"
    else:
        begin = "No in-sync replica was alive"
    leader = brokers_text(leaders) if len(leaders) == 1 else "the new leader"
    cut = f"; the other replicas then truncated what {leader} did not have"
    was = "they were" if len(leaders) > 1 else "it was"
    return f"{begin}, so {elected} although {was} not in sync{cut if _has_loss(rows) else ''}."


def _has_loss(rows: Iterable[PartitionLoss]) -> bool:
    return any(row.lost_records_max != 0 for row in rows)


def _topics_allowing_unclean(run: RunOutput) -> set[str]:
    return {
        str(topic)
        for one in run.findings
        if one.detector == "config-risk" and one.measures.get("setting") == UNCLEAN_SETTING
        for topic in one.measures.get("topics") or ()
    }


def list_impact(run: RunOutput) -> list[SummaryLine]:
    """Say what was lost, what was unavailable, and which clients noticed; nothing twice."""
    span, lines = incident_span(run), [*_loss_lines(run)]
    if span is None:
        return lines
    return [
        *lines, *_outage_lines(run, span), *_client_lines(run, span), *_effect_lines(run, span)
    ]  # fmt: skip


def _loss_lines(run: RunOutput) -> Iterator[SummaryLine]:
    totals = sum_losses(run.findings)
    truncated = sum_clean_truncations(run.findings)
    lost, spared = lost_and_spared(run.findings)
    if not (totals and lost):
        least = (run.document.get("impact") or {}).get("records_lost_min")
        where = "ledger" if truncated else ""
        yield SummaryLine(loss_sentence(run), where, "Data loss", is_strong=bool(least))
        return
    text = loss_sentence(run).rstrip(".").partition(" on ")[0]
    if totals.unbounded and not (totals.at_least and totals.is_certain):
        text = "Records may be lost"
    text = f"{text} from {join_names(lost, 4)}"
    if totals.acknowledged:
        text += f"; {totals.acknowledged} of them had been acknowledged"
    if totals.unbounded:
        text += f"; no upper bound for {count(totals.unbounded, 'partition')}"
    if spared:
        which = "was" if len(spared) == 1 else "were"
        text += f"; {join_names(spared, 3)} {which} elected uncleanly too and lost nothing"
    yield SummaryLine(f"{text}.", "ledger", "Data loss", is_strong=True)
    if truncated:
        both = bounds_text(truncated.at_least, truncated.at_most)
        number, _, noun = both.rpartition(" ")
        on = count(truncated.partitions, "partition")
        yield SummaryLine(
            f"{number} more {noun} truncated on {on} after clean failovers {lost_if(run)}."
        )


def _outage_lines(run: RunOutput, span: IncidentSpan) -> Iterator[SummaryLine]:
    impact = run.document.get("impact") or {}
    hit, known = impact.get("partitions_unavailable"), impact.get("partitions")
    possibly = (impact.get("unknown_leaders") or {}).get("partitions")
    if not hit:
        if possibly:
            text = (
                f"{count(possibly, 'partition')} may have been unavailable: see what is not known."
            )
            yield SummaryLine(text, "partitions", "Partitions")
        elif hit == 0:
            yield SummaryLine("No partition was unavailable.")
        return
    of = f" of {known:,}" if known else ""
    longest = longest_outages(run, span)
    at_once = most_at_once(run, span)
    begin = f"{'At least ' * bool(possibly)}{hit:,}{of} partitions unavailable"
    begin += f" (at most {at_once:,} at once)" if at_once < hit and longest and not possibly else ""
    if not longest:
        at_most = duration(round(1000 * (impact.get("longest_s") or 0)))
        yield SummaryLine(f"{begin}, for up to {at_most}.", "partitions", "Partitions")
        return
    most, *rest = longest
    outages = incident_outages(run, span)
    # Of a partition that was hit again and again its longest time is told.
    hits = Counter(partition for partition, *_ in outages)
    is_again = hits[most.partition] > 1
    long = f"{'up to ' * is_again}{lengths_text([most], is_bound=is_again)}"
    parts = [f"{most.partition} for {long}{' at a time' * is_again}"]
    if rest:
        others = "the other" if len(rest) + 1 == hit else "at least"
        parts.append(f"{others} {len(rest)} for {lengths_text(rest)}")
        if most.ms <= rest[0].ms * ABOUT_SAME:
            long = lengths_text(longest)
            if max(hits.values()) > 1:
                # Other times of the same partitions were shorter.
                long = f"up to {lengths_text(longest[:1], is_bound=True)} at a time"
            parts = [f"for {long}"]
    why = _leaders_away(run, outages)
    ends = outages_without_end(run)
    longer = f"; {ends.partitions} of them for longer: no line says when they were led again"
    open_end = longer if ends.partitions else ""
    if ends.within > max(WITHIN_MS, most.ms * (ABOUT_SAME - 1)):
        end = f"the end of {ends.bounded} of these is known to within {duration(ends.within)}"
        open_end += f"; {end}"
    colon = " " if parts[0].startswith("for ") else ": "
    text = f"{begin}{colon}{', '.join(parts)}{why}{open_end}."
    yield SummaryLine(text, "partitions", "Partitions")


def _leaders_away(run: RunOutput, outages: Sequence[tuple[str, int, int, Row]]) -> str:
    """Say which leaders were away; whose session ends with ZooKeeper is not frozen."""
    ways = dict[str, set[int]]()
    unheard = {one.get("node") for one in run.document.get("trigger") or ()} == {"zookeeper"}
    for *_, row in outages:
        if row["leader"] is not None and (word := LEADER_WORDS.get(row["why"])):
            word = "was without a session" if unheard and row["why"] == "leader_hung" else word
            ways.setdefault(word, set()).add(row["leader"])
    if len(ways) != 1:
        return ""
    ((word, leaders),) = ways.items()
    told = word.replace("was", "were", 1) if len(leaders) > 1 else word
    return f", while {brokers_text(sorted(leaders))} {told}"


def _client_lines(run: RunOutput, span: IncidentSpan) -> Iterator[SummaryLine]:
    hit = (run.document.get("impact") or {}).get("clients_affected")
    if not hit:
        yield from _clients_nearby(run, span)
        return
    again = [one for one in run.findings if one.measures.get("suspect") == "topic_recreated"]
    about = [*span.findings, *merged_findings(run), *again]
    named = [client_name(name) for one in about for name in one.clients]
    lengths = client_troubles(run, span)
    if not (run.document.get("impact") or {}).get("partitions_unavailable"):
        # Others had their own reasons.
        lengths = {name: long for name, long in lengths.items() if client_name(name) in named}
    ranked = sorted(lengths, key=lambda name: (-lengths[name], name))
    near = (client_name(node) for node, *_ in client_times(run, span))
    names = list(dict.fromkeys([*map(client_name, ranked), *named, *sorted(near)]))[:hit]
    of = f" of {every}" if (every := len(clients_with_logs(run))) >= hit else ""
    text = f"{hit}{of} clients affected" if hit > 1 or of else "1 client affected"
    text += f": {join_names(names, 4 if len(names) <= 4 else 3)}" if names else ""
    if ranked and (most := lengths[ranked[0]]) >= MIN_TOLD_MS:
        text += f"; by their own logs {TROUBLE} {duration(whole_seconds(most / 1000))} at a time"
    elif (run.document.get("impact") or {}).get("partitions_unavailable"):
        text += "; their own logs do not say for how long"
    yield SummaryLine(f"{text}.", "clients", "Clients")


def _clients_nearby(run: RunOutput, span: IncidentSpan) -> Iterator[SummaryLine]:
    """Name clients that were in trouble about that time, where no partition was unavailable."""
    hits = list(client_times(run, replace(span, start=span.start - AROUND_MS)))
    if hits:
        names = sorted({node for node, *_ in hits})
        long = duration(max(end - start for _, start, end in hits))
        first, last = (
            clock_text(at, span.start)
            for at in (min(start for _, start, _ in hits), max(end for *_, end in hits))
        )
        when = f"between {first} and {last}" if first != last else f"at {first}"
        offsets = [
            name for one in span.findings for name in one.partitions
            if one.detector in NODE_STORIES and name.startswith(OFFSETS)
        ]  # fmt: skip
        because = "whether because of this is not in the logs"
        if offsets:
            because = f"groups keep their offsets in {join_names(offsets, 3)}, which was hit, too"
        who = join_names([client_name(name) for name in names], 4)
        text = (
            f"{count(len(names), 'client')} logged disconnects or retries {when}, for up to {long}"
        )
        yield SummaryLine(f"{text}: {who}; {because}.", "clients", "Clients")


def _effect_lines(run: RunOutput, span: IncidentSpan) -> Iterator[SummaryLine]:
    """Name what else came of it: what the headline, the losses and the outages do not say."""
    for one in span.findings:
        if one.detector == "disk-failure" and one.measures.get("still") and one.partitions:
            whose = f"{count(len(one.partitions), 'replica')} of {brokers_text(one.brokers)}"
            text = f"{whose} offline to the end of the logs, in the log directory that failed."
            yield SummaryLine(text, one.id, "Evidence")
    said = {*NODE_STORIES, "unclean-election", "offline-partitions", "truncation",
            "controller-churn"}  # fmt: skip
    worst = run.incidents[0]
    if "gave up" in loss_sentence(run) or "given up" in loss_sentence(run):
        said.add("undelivered-records")
    told = {one.id for one in node_stories(run, span.findings)}
    rest = [one for one in span.findings if one.detector not in said and one.id not in told]
    # The headline names these; their titles say how each of them fared.
    first = merged_findings(run)[:MAX_NAMED]
    if not first or headline(run) == worst.title:
        rest = [one for one in rest if one.id != worst.id]
    rest = [one for one in rest if one not in first]
    room = max(MAX_EFFECTS - len(first), 0)
    room += len(rest) == room + 1
    for one in [*first, *rest[:room]]:
        title = shorten_names(one.title)
        # Names of clients stay as they are.
        title = f"B{title[1:]}" if title.startswith("broker ") else title
        yield SummaryLine(f"{title}.", one.id, "Evidence")
    if len(rest) > room:
        more = count(len(rest) - room, "more finding")
        names = list(dict.fromkeys(short_title(one).lower() for one in rest[room:]))
        text = f"And {more} of level medium or higher: {join_names(names)}."
        yield SummaryLine(text, "findings", "Findings")
