"""What to do now, over all findings, and what is not known: the end of the first screen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

import pyarrow.dataset as ds

from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import CLIENTS
from forensics.lib.node_ids import broker_id, client_name
from forensics.lib.storage import base_name
from forensics.lib.text_format import (
    brokers_text,
    count,
    detector_label,
    duration,
    join_names,
    parse_millis,
)
from forensics.report.coverage_advice import (
    ENDING_EARLY,
    answerable_detectors,
    find_log_holes,
    list_hidden_nodes,
)
from forensics.report.data_loss import sum_losses
from forensics.report.finding_text import COMMAND_LINE, shorten_names
from forensics.report.headline import (
    describe_last_stops,
    describe_unread_errors,
    flapping_verb,
    is_last_stop,
    list_doubts,
    list_unread_errors,
    story_names,
    whom_text,
)
from forensics.report.incident_span import (
    HEARD_MS,
    IncidentSpan,
    clients_with_logs,
    clock_text,
    incident_outages,
    incident_span,
    is_lasting,
    outages_without_end,
)
from forensics.report.summary import (
    UNCLEAN_SETTING,
    SummaryLine,
    first_sentences,
    node_text,
)
from forensics.run_output.findings import LOSING, PartitionLoss, severity_rank
from forensics.run_output.reader import RunOutput, SavedFinding

# A clock that is off by less confuses nobody who reads lines beside this page.
WRONG_MS = 1000
MAX_ACTIONS, MAX_UNKNOWN, MAX_CAUSES = 3, 4, 3
DELETED = ("topic_deleted", "topic_recreated")
# Words that a reader would have to fill in first.
PLACEHOLDER = re.compile(
    r"\b(TOPIC|BYTES|GROUP|BROKER|BROKER_ID|CONTROLLER|ZOOKEEPER|LOG_DIR|ARCHIVE|OFFSET|NODE|POD)\b"
    r"|\$[A-Z_]+"
)
# What looks or asks only: worth a place while something is still wrong.
LOOKS = re.compile(
    r"^Ask |--describe\b|\bdescribe\b|\bget /|GetOffsetShell|kafka-get-offsets|^(cat|grep) "
)
LOOKS_FOR_OUTAGES = "--unavailable-partitions"


def list_actions(run: RunOutput) -> list[SummaryLine]:
    """Return at most three things to do now, over all findings: concrete ones first."""
    span = incident_span(run)
    if span is None:
        return []
    actions = [*_resend(run), *_forbid_unclean(run)]
    lasting = {one.id for one in span.findings if span.is_over is False and is_lasting(run, one)}
    # What still hurts goes before asking why something that is over came about.
    ordered = sorted(_by_weight(run, span), key=lambda one: one.id not in lasting)
    actions += _from_findings(ordered, lasting, is_over=span.is_over is True)
    return actions[:MAX_ACTIONS]


def _resend(run: RunOutput) -> Iterator[SummaryLine]:
    """Say who has to send again what was lost, and which consumers have to be reset.

    What was cut after a clean failover may have been sent again long before: nobody is told to.
    """
    for finding in run.incidents:
        rows = [row for row in finding.losses if row.lost_records_max != 0]
        certain = [row for row in rows if row.lost_records_min]
        if finding.detector not in LOSING or not certain:
            continue
        topics = sorted({row.partition.rpartition("-")[0] for row in certain})
        starts = [at for row in certain if (at := parse_millis(row.written_from)) is not None]
        ends = _last_writes(run, certain)
        during = ""
        if starts and ends:
            first = clock_text(min(starts), min(starts))
            last = _whole_second(max(ends))
            during = f" from {first} to {clock_text(last, min(starts))}"
        names = join_names([row.partition for row in certain], 4)
        what = f" what they wrote to {names}{during}" if during else f" the lost records of {names}"
        what += _cut_later(certain, min(starts, default=0))
        yield SummaryLine(
            f"Have the producers of {join_names(topics)} send again{what}; {_reset(certain)}.",
            finding.id, "Offsets and commands",
        )  # fmt: skip
        return


def _cut_later(losses: Sequence[PartitionLoss], start: int) -> str:
    """Say what the unclean leader wrote itself and lost to the next one; empty if nothing."""
    tails = [(row.partition, tail) for row in losses for tail in row.also_cut]
    ends = [at for _, tail in tails if (at := parse_millis(tail.get("cut_at"))) is not None]
    if not ends:
        return ""
    names = join_names(list(dict.fromkeys(name for name, _ in tails)), 3)
    number = count(sum(tail["records"] for _, tail in tails), "record")
    before = clock_text(_whole_second(max(ends)), start)
    return f", and the last {number} that they wrote to {names} before {before}"


def _whole_second(moment: int) -> int:
    """Return when the second of a moment is over: all that was written within it counts.

    >>> _whole_second(2000), _whole_second(2001)
    (2000, 3000)
    """
    return -(-moment // 1000) * 1000


def _reset(losses: Sequence[PartitionLoss]) -> str:
    """Say which consumers of these partitions have to be reset, by the first offsets lost there.

    >>> _reset([PartitionLoss("t-1", lost_from=7000)])
    'reset consumers whose committed offset there is above 7,000'
    """
    offsets = {row.lost_from for row in losses}
    if offsets == {0}:
        which = "their logs begin" if len(losses) > 1 else "its log begins"
        whose = "these partitions" if len(losses) > 1 else "this partition"
        return f"reset all consumers of {whose}: {which} anew at offset 0"
    above = "the first lost one"
    if len(offsets) == 1 and (first := next(iter(offsets))) is not None:
        above = f"{first:,}"
    return f"reset consumers whose committed offset there is above {above}"


def _last_writes(run: RunOutput, losses: Sequence[PartitionLoss]) -> list[int]:
    """Return until when each partition was written to: not while nobody served it."""
    span = incident_span(run)
    dark = incident_outages(run, span) if span else []
    ends = []
    for row in losses:
        at = parse_millis(row.written_to)
        if at is not None:
            starts = (since for name, since, till, _ in dark
                      if name == row.partition and since < at <= till + HEARD_MS)  # fmt: skip
            ends.append(min([at, *starts]))
    return ends


def _forbid_unclean(run: RunOutput) -> Iterator[SummaryLine]:
    if run.incidents[0].detector != "unclean-election":
        return
    for one in run.findings:
        if one.detector == "config-risk" and one.measures.get("setting") == UNCLEAN_SETTING:
            for action in one.actions:
                command = action.partition("   # ")[0].strip()
                if "--alter" in action and _is_concrete(action):
                    yield SummaryLine(f"Forbid unclean elections: `{command}`", one.id, "More")
                    return


def _by_weight(run: RunOutput, span: IncidentSpan) -> list[SavedFinding]:
    """Order findings: what began it, then the headline, then the others."""
    began = [str(one.get("finding")) for one in run.document.get("trigger") or ()]
    within = {one.id for one in span.findings}
    others = [one for one in run.incidents if one.id in within] or list(run.incidents)
    order = {name: index for index, name in enumerate(began)}
    # A clock that is far off is wrong before and after, and to be set right.
    held = {one.id for one in others}
    others += [one for one in run.incidents if one.detector == "clock-skew" and one.id not in held]
    return sorted(
        others,
        key=lambda one: (
            severity_rank(one.severity), order.get(one.id, len(order)), _is_past_help(one),
        ),
    )  # fmt: skip


def _is_past_help(finding: SavedFinding) -> bool:
    """Return True if what a consumer skipped is gone: what others skipped can be read yet."""
    doing = first_action(finding)
    return finding.detector == "offset-reset" and not doing.startswith("`")


def first_action(finding: SavedFinding) -> str:
    """Return the first thing to do about a finding that needs no word filled in; empty if none.

    What changes something goes before what only looks.
    """
    usable = [action for action in finding.actions if _is_concrete(action)]
    doing = [action for action in usable if not LOOKS.search(action)]
    chosen = (doing or usable)[:1]
    return _command(chosen[0], finding).text if chosen else ""


def _from_findings(
    findings: Sequence[SavedFinding], lasting: AbstractSet[str], *, is_over: bool
) -> list[SummaryLine]:
    """Take the first action of each finding; the same one for several brokers is one.

    What looks only is for findings that last; of an incident that is over the logs tell as much.
    """
    taken: dict[str, list[tuple[str, SavedFinding]]] = {}
    later: list[SummaryLine] = []
    for one in findings:
        if one.detector == "unclean-election":
            continue
        has_ended = one.id not in lasting
        usable = [action for action in one.actions if _is_concrete(action)]
        doing = [action for action in usable if not LOOKS.search(action)]
        # A topic that is gone is one thing, the records that were given up for it another.
        several = 2 if one.detector == "undelivered-records" and one.measures.get("suspect") else 1
        for action in doing[:several] or ([] if has_ended else usable[:1]):
            taken.setdefault(_without_names(action, one), []).append((action, one))
        looking = [action for action in usable if LOOKS.search(action)]
        looking = [it for it in looking if not (has_ended and LOOKS_FOR_OUTAGES in it)]
        later += [_command(action, one) for action in looking[:1]]
    first = [_command(_for_all(members), members[0][1]) for members in taken.values()]
    if first and is_over:
        return first
    known = {line.text for line in first}
    return [*first, *[line for line in later if line.text not in known][:1]]


def _without_names(action: str, finding: SavedFinding) -> str:
    """Return an action without the broker or client that it is for: the same one has the same."""
    key = re.sub(r"\bbroker-? ?\d+\b", "broker", action.partition("   # ")[0].strip())
    for name in map(client_name, finding.clients):
        key = key.replace(quote(name), "client")
    return key


def _for_all(members: Sequence[tuple[str, SavedFinding]]) -> str:
    """Let an action that several findings have name all of their brokers, or their clients."""
    action, finding = members[0]
    brokers = list(dict.fromkeys(number for _, one in members for number in one.brokers))
    clients = list(dict.fromkeys(name for _, one in members for name in one.clients))
    if len(brokers) > 1 and len(finding.brokers) == 1:
        own = finding.brokers[0]
        return re.sub(rf"\bbroker[ -]{own}\b", brokers_text(brokers), action)
    if len(clients) > 1 and len(finding.clients) == 1:
        names = join_names([quote(client_name(name)) for name in clients], 4)
        return action.replace(quote(client_name(finding.clients[0])), names)
    return action


def _is_concrete(action: str) -> bool:
    command = action.partition("   # ")[0]
    return not PLACEHOLDER.search(command) and not action.startswith(("Nothing to do", "As logged"))


def _command(action: str, finding: SavedFinding) -> SummaryLine:
    """Set a command as code, and say behind it what it is for."""
    first = action.strip().splitlines()[0]
    command, _, purpose = first.partition("   # ")
    if not purpose:
        is_command = COMMAND_LINE.match(first)
        text = f"`{first}`" if is_command else shorten_names(first_sentences(first, 2))
        return SummaryLine(text, finding.id, "More")
    # A group has a name of its own: readers know their clients.
    whom = f"for {client_name(finding.clients[0])}, " if len(finding.clients) == 1 else ""
    whom *= " --group " in command
    text = f"`{command.strip()}` \u2013 {whom}{purpose.strip()}"
    return SummaryLine(text, finding.id, "More")


def list_unknown(run: RunOutput) -> list[SummaryLine]:
    """Say what is not known: the logs that are missing first, then what no line tells."""
    lines = [
        *missing_nodes(run),
        *_open_questions(run),
        *_silent_clients(run),
        *_not_looked_for(run),
    ]
    if run.incidents and (unread := list_unread_errors(run)):
        text = f"What {describe_unread_errors(run)} mean."
        lines.append(SummaryLine(text, unread[0].id, "Evidence"))
    left = len(lines) - MAX_UNKNOWN
    shown = lines[:MAX_UNKNOWN] if left != 1 else lines
    if left > 1:
        shown.append(SummaryLine(f"And {left} more.", "unseen", "What the logs do not show"))
    return shown


def _not_looked_for(run: RunOutput) -> Iterator[SummaryLine]:
    """Say which checks could not run, and why, where other logs would have let them."""
    names: dict[str, list[str]] = {}
    has_clients = any(row["role"] == "client" and row["records"] for row in run.files)
    for row in answerable_detectors(run):
        reason = "; ".join(map(str, row.get("reasons") or ())) or "no reason is given"
        if has_clients or CLIENTS.description not in reason:
            # That no client's log is here is said by itself.
            names.setdefault(reason, []).append(detector_label(str(row.get("detector"))))
    for reason, (first, *others) in names.items():
        more = (f"{one[:1].lower()}{one[1:]}" if one[1:2].islower() else one for one in others)
        text = f"{join_names([first, *more], 3)}: not looked for, as {reason}."
        yield SummaryLine(text, "unseen", "Why")


def describe_logs(run: RunOutput) -> list[SummaryLine]:
    """Say that no server's logs are missing, whose were read, and how they end."""
    if missing_nodes(run) or list_doubts(run):
        return [*_last_stops(run)]
    nodes = {
        role: len({row["node"] or row["file"] for row in run.files if row["role"] == role})
        for role in ("broker", "controller")
    }
    clients = len(clients_with_logs(run))
    servers = join_names([count(number, role) for role, number in nodes.items() if number])
    if not servers:
        return []
    others = f"; and of {count(clients, 'client')}" if clients else ""
    kinds = "brokers and controllers" if nodes["controller"] else "brokers"
    text = f"Complete: of all {kinds} that any line names ({servers}){others}."
    if empty := _empty_folders(run):
        text += f" {'The log' if len(empty) == 1 else 'Logs'} of {join_names(empty, 3)}"
        text += f" {'is' if len(empty) == 1 else 'are'} empty."
    return [SummaryLine(text, "coverage", "Coverage"), *_last_stops(run), *_wrong_clocks(run)]


def _last_stops(run: RunOutput) -> Iterator[SummaryLine]:
    """Say that brokers were shut down as the logs end: that is no part of the incident."""
    stopped = [one for one in run.findings if is_last_stop(run, one)] if run.incidents else []
    if stopped:
        told = f"They {describe_last_stops(run, stopped)}: no part of the incident."
        yield SummaryLine(told, stopped[0].id, "Evidence")


def _empty_folders(run: RunOutput) -> list[str]:
    """Name the folders all of whose files are empty, such as that of a client that logs nothing."""
    lines: dict[str, int] = {}
    for row in run.files:
        folder = row["file"].rpartition("/")[0]
        lines[folder] = lines.get(folder, 0) + row["bytes"]
    return sorted(base_name(folder) for folder, size in lines.items() if folder and not size)


def _wrong_clocks(run: RunOutput) -> list[SummaryLine]:
    """Say whose clocks are off by seconds: their files show other times than this page."""
    wrong = {node: off for node, off in run.clock_offsets.items() if abs(off) >= WRONG_MS}
    if not wrong:
        return []
    ranked = sorted(wrong, key=lambda node: (-abs(wrong[node]), node))
    texts = [
        f"that of {node_text(node)} is {duration(abs(wrong[node]))} "
        f"{'ahead' if wrong[node] > 0 else 'behind'}"
        for node in ranked
    ]
    return [
        SummaryLine(
            f"Clocks: {join_names(texts)}; times here are those of the other clocks.",
            "clocks",
            "Clocks",
        )
    ]


def missing_nodes(run: RunOutput) -> list[SummaryLine]:
    """Say of which brokers and controllers there are no logs, and what they led."""
    lines = []
    for words, nodes in list_hidden_nodes(run).items():
        led = _partitions_led(run, nodes)
        tail = f", which led {count(led, 'partition')}" if led else ""
        names = join_names([node_text(node) for node in nodes], 4)
        verb = {"missing": "No logs of", "rotated away": "Older logs rotated away:"}.get(
            words, f"Logs {words}:"
        )
        text = f"{verb} {names}{tail}: what happened there is not known."
        if words == ENDING_EARLY:
            aside = tail and f"{tail},"
            text = f"The logs of {names}{aside} end early: what happened there later is not known."
        lines.append(SummaryLine(text, "unseen", "Collect them", is_strong=True))
    return lines


def _partitions_led(run: RunOutput, nodes: Iterable[str]) -> int:
    brokers = [number for node in nodes if (number := broker_id(node)) is not None]
    if not brokers:
        return 0
    where = ds.field("leader").isin(brokers)
    rows = run.tables.read("leadership", ["topic", "partition"], where)
    return len(rows.group_by(["topic", "partition"]).aggregate([]))


def _open_questions(run: RunOutput) -> Iterator[SummaryLine]:
    if run.document.get("verdict") == "incident" and run.incidents:
        for question in _open_causes(run)[:MAX_CAUSES]:
            yield SummaryLine(f"{shorten_names(question[:1].upper() + question[1:])}.")
        if open_ends := outages_without_end(run).partitions:
            of = count(open_ends, "partition")
            yield SummaryLine(f"Until when {of} had no leader.", "partitions", "Partitions")
        yield from _unknown_leaders(run)
        for one in (run.document.get("impact") or {}).get("gives_up_early") or ():
            yield SummaryLine(
                f"How many records {one['client']} gave up: it does so after "
                f"{duration(round(1000 * one['after_s']))} (delivery.timeout.ms), and nobody took "
                f"writes to {one['topic']} for up to {duration(round(1000 * one['wait_s']))}.",
                "clients", "Clients",
            )  # fmt: skip
    totals = sum_losses(run.findings)
    if totals and totals.unbounded:
        of = count(totals.unbounded, "partition")
        yield SummaryLine(f"How much {of} lost at most.", "ledger", "Data loss")
    if totals is None and any(one.detector == "unclean-election" for one in run.incidents):
        yield SummaryLine("How many records were lost.", "ledger", "Data loss")
    doubts = [one for one in list_doubts(run) if not one.startswith("logs of ")]
    for doubt in doubts:
        yield SummaryLine(f"{doubt[:1].upper()}{doubt[1:]}.", "unseen", "More")


def _open_causes(run: RunOutput) -> list[str]:
    """Ask what began it and stands in no log: for brokers first, then for what clients met."""
    span = incident_span(run)
    findings = list(span.findings if span else run.incidents)
    asked: dict[str, list[int]] = {}
    others: list[str] = []
    given_up = [one for one in findings if one.detector == "undelivered-records"]
    flapping = [one for one in findings if one.detector == "flapping-broker"]
    told = {broker for one in flapping for broker in one.brokers}
    # Clients that were back at once are no incident; that somebody deleted their topic is one.
    findings += [
        one for one in run.findings
        if one.measures.get("suspect") == "topic_recreated" and one not in findings
    ]  # fmt: skip
    for one in sorted(findings, key=lambda one: (one.start_ms or 0, one.id)):
        verb = _unexplained(one)
        if one.measures.get("freezes_min"):
            others.append(
                f"how often {brokers_text(one.brokers)} froze in all: a freeze shorter than the "
                "session mostly leaves no line"
            )
        if verb and one.clients and not one.brokers:
            others.append(f"why {join_names(story_names(one))} {verb}")
        elif verb and not (one.detector == "broker-restart" and set(one.brokers) & told):
            asked.setdefault(verb, []).extend(one.brokers)
        elif question := _question(one):
            others.append(question)
    brokers = [
        f"why {brokers_text(list(dict.fromkeys(numbers)))} {verb}"
        for verb, numbers in asked.items()
        if numbers
    ]
    names = join_names([name for one in given_up for name in story_names(one)])
    lost = [f"how many records {names} gave up in all"] if names else []
    return [*brokers, *dict.fromkeys(others), *lost]


def _unexplained(finding: SavedFinding) -> str:
    """Return what a broker did without a line that says why; empty where there is one."""
    measures, kind = finding.measures, str(finding.measures.get("kind"))
    if finding.detector == "broker-restart":
        # One that ended itself says why in its title.
        is_open_crash = kind == "crash" and "crashed" in finding.title
        return {"crash": "crashed" if is_open_crash else "", "unknown": "went away"}.get(kind, "")
    if finding.detector == "flapping-broker":
        is_explained = measures.get("reasons") or measures.get("collected")
        return "" if is_explained else flapping_verb(finding)
    if finding.detector == "long-pause":
        return "froze" if set(measures.get("ways") or ()) == {"silence"} else ""
    return {
        "isolated-broker": "was cut off", "network-partition": "could not reach each other",
        "fencing-loop": "was fenced again and again",
    }.get(finding.detector, "")  # fmt: skip


def _question(finding: SavedFinding) -> str:
    measures = finding.measures
    if finding.detector == "offset-reset" and measures.get("cause") == "delete_records":
        return f"who deleted records of {measures.get('topic')}"
    if finding.detector == "stale-metadata" and measures.get("suspect") in DELETED:
        return f"who deleted topic {join_names(list(measures.get('topics') or ()))}"
    if finding.detector == "session-expiry" and measures.get("kind") in ("unreachable", "common"):
        return "why ZooKeeper did not answer"
    if finding.detector == "rebalance-storm" and measures.get("cause") == "members_come_and_go":
        return f"why the members of {whom_text(finding)} come and go"
    return ""


def _unknown_leaders(run: RunOutput) -> Iterator[SummaryLine]:
    """Say which further partitions may have been unavailable: no line tells who led them."""
    gap = (run.document.get("impact") or {}).get("unknown_leaders")
    start = parse_millis(gap["from"]) if gap else None
    if not gap or start is None:
        return
    number, end = gap["partitions"], parse_millis(gap["to"])
    names = join_names(list(gap["names"]), 3) if number <= len(gap["names"]) else ""
    hit = (run.document.get("impact") or {}).get("partitions_unavailable")
    what = count(number, "more partition" if hit else "partition")
    until = f"to {clock_text(end, start)}" if end is not None else "on"
    yield SummaryLine(
        f"Whether {what} {'was' if number == 1 else 'were'} "
        f"unavailable{f' ({names})' * bool(names)}: {brokers_text(gap['leaders'])} led "
        f"{'it' if number == 1 else 'them'} and went away, and no line says who led from "
        f"{clock_text(start, start)} {until}.",
        "partitions", "Partitions",
    )  # fmt: skip


def _silent_clients(run: RunOutput) -> Iterator[SummaryLine]:
    if not run.files:
        return
    roles = {row["role"] for row in run.files if row["records"]}
    if "client" not in roles:
        deaf = [
            one
            for one in answerable_detectors(run)
            if any(CLIENTS.description in str(why) for why in one.get("reasons") or ())
        ]
        text = "What clients saw: none of their logs are here"
        text += f", so {count(len(deaf), 'check')} could not run" if deaf else ""
        yield SummaryLine(f"{text}.", "unseen", "Why")
        return
    span = incident_span(run)
    clients = {row["node"] for row in run.files if row["role"] == "client"}
    if span is None:
        return
    silent = sorted(
        {
            (str(row["node"]), row["started_at"])
            for row in find_log_holes(run)
            if row["node"] in clients and row["started_at"] and row["log"] is None
            if row["started_at"] <= span.end
            and (row["ended_at"] is None or row["ended_at"] >= span.end)
        }
    )
    if silent:
        texts = [f"{client_name(name)} after {clock_text(at, span.start)}" for name, at in silent]
        yield SummaryLine(f"No logs from {join_names(texts, 3)}.")
