"""What happened, to whom, for how long, what was lost, how sure: the first screen."""

from __future__ import annotations

from forensics.lib.text_format import count, duration, join_names, time_text
from forensics.lib.time_zone import current_zone
from forensics.report.coverage_advice import unanswered_detectors
from forensics.report.data_loss import sum_clean_truncations, sum_losses
from forensics.report.finding_text import drop_standing, is_open
from forensics.report.headline import verdict_sentence
from forensics.report.html import (
    Child,
    Markup,
    anchor,
    finding_link,
    join,
    key_figure,
    tag,
    verdict_box,
)
from forensics.report.incident_story import first_client_errors
from forensics.run_output.reader import RunOutput

TITLE = "Verdict"
WORDS = {"clear": "clear", "cannot_tell": "cannot tell"}
MAX_OTHERS = 3


def render(run: RunOutput) -> Markup:
    """Say the verdict in one sentence, with six cells below it."""
    level = run.incidents[0].severity if run.incidents else "none"
    verdict = str(run.document.get("verdict"))
    word = level if verdict == "incident" else WORDS.get(verdict, verdict)
    kind = anchor(level if verdict == "incident" else verdict.replace("_", "-"))
    cells = _incident_cells(run) if run.incidents else _coverage_cells(run)
    inside = (_loss(run), tag("dl", *cells, class_="cells"), _more(run))
    return verdict_box(word, kind, verdict_sentence(run), *inside)


def _loss(run: RunOutput) -> Markup | None:
    totals, truncated = sum_losses(run.findings), sum_clean_truncations(run.findings)
    parts: list[str] = []
    if totals and totals.unbounded:
        certain = f"At least {count(totals.at_least, 'record')} lost"
        parts.append(certain if totals.at_least else "No loss is certain")
        of = count(totals.partitions, "partition")
        parts.append(f"no upper bound for {totals.unbounded:,} of {of}")
    if totals and totals.acknowledged:
        parts.append(f"{totals.acknowledged} of the lost records had been acknowledged")
    if truncated:
        too = ", too," if totals and totals.at_most else ""
        parts.append(
            f"{truncated} were cut after clean changes of leader: lost{too} if written with acks=1"
        )
    if not parts:
        return None
    text = "; ".join(parts)
    link = tag("a", "data-loss ledger", href="#ledger")
    return tag("p", text[0].upper(), text[1:], " (", link, ").", class_="lost")


def _incident_cells(run: RunOutput) -> list[Markup]:
    findings = drop_standing(run.incidents)
    start = min((one.start_ms for one in findings if one.start_ms is not None), default=None)
    end = max((one.end_ms for one in findings if one.end_ms is not None), default=None)
    length = duration(end - start) if start is not None and end is not None else ""
    ended, note = time_text(end), f"{current_zone().label}, after {length}"
    if any(is_open(run, finding) for finding in findings):
        ended, note = "not over", f"the logs end {time_text(end)[11:]}, {length} later"
    brokers = sorted({broker for finding in findings for broker in finding.brokers})
    clients = sorted({client for finding in findings for client in finding.clients})
    return [
        key_figure("Started", time_text(start), f"{current_zone().label}, first incident finding"),
        key_figure("Ended", ended, note if length else ""),
        _partitions(run),
        key_figure(
            "Brokers", join_names([str(broker) for broker in brokers], 6) or "none named", ""
        ),
        key_figure("Clients with sustained errors", f"{len(clients):,}", join_names(clients)),
        _first_client_error(run, start, end),
    ]


def _partitions(run: RunOutput) -> Markup:
    """Say how many partitions nobody could use, and for how long, as tables/outages has it."""
    impact = run.document.get("impact") or {}
    hit, known = impact.get("partitions_unavailable"), impact.get("partitions")
    if hit is None:
        return key_figure("Partitions unavailable", "not counted", "")
    note = f"of {count(known, 'partition')}" if known else "of an unknown number"
    if hit:
        seconds = impact.get("partition_seconds") or 0
        longest = round(1000 * (impact.get("longest_s") or 0))
        note += f", up to {duration(longest)}; {seconds:,.0f} partition-seconds"
    return key_figure("Partitions unavailable", f"{hit:,}", note)


def _first_client_error(run: RunOutput, start: int | None, end: int | None) -> Markup:
    """Say how long nobody could have noticed: what was hit first, and who first complained."""
    name = "First effect to first sign"
    if start is None:
        return key_figure(name, "not known", "")
    errors = first_client_errors(run, start, start if end is None else end)
    if not errors:
        return key_figure(name, "not seen", "no client logged a warning meanwhile")
    first, value = errors[0], "at once"
    if first.at > start:
        value = duration(first.at - start)
    when = f"{time_text(first.at)[11:]} {current_zone().label}"
    return key_figure(name, value, f"{first.client}: {first.what}, {when}")


def _more(run: RunOutput) -> Markup | None:
    """Say below the cells what else there is, how sure the sentence is, and why."""
    if not run.incidents:
        return None
    worst, *others = run.incidents
    lines: list[Child] = [join([tag("b", "Worst: "), finding_link(worst.id, worst.title), "."])]
    if others:
        left = len(others) - MAX_OTHERS
        tail = f"; and {count(left, 'finding')} more" if left > 0 else ""
        links = join([finding_link(one.id, one.title) for one in others[:MAX_OTHERS]], "; ")
        lines.append(join([tag("b", "Also: "), links, tail, "."]))
    reasons: list[Child] = [worst.reason] if worst.reason else []
    if unanswered := len(unanswered_detectors(run)):
        link = tag("a", "what we could not see", href="#unseen")
        text = f"{count(unanswered, 'kind')} of trouble could not be looked for ("
        reasons.append(join([text, link, ")"]))
    if reasons:
        lines.append(join([tag("b", "How sure: "), join(reasons, "; "), "."]))
    return tag("ul", *(tag("li", line) for line in lines), class_="more")


def _coverage_cells(run: RunOutput) -> list[Markup]:
    """Say what was looked at, where nothing was found or nothing can be told."""
    archive = run.document.get("archive") or {}
    nodes = {row["node"] for row in run.files if row["node"]}
    asked = len(run.document.get("detectors") or ())
    unanswered = len(unanswered_detectors(run))
    damaged = sum(1 for row in run.files if row["damaged"])
    files = archive.get("files") or len(run.files)
    findings = len(run.findings)
    start, end = run.window or (None, None)
    return [
        key_figure("From", time_text(start), current_zone().label),
        key_figure("To", time_text(end), current_zone().label),
        key_figure("Files", f"{files:,}", f"of {count(len(nodes), 'node')}, {damaged:,} damaged"),
        key_figure("Facts read", f"{archive.get('events') or 0:,}", "from their lines"),
        key_figure("Kinds of trouble looked for", f"{asked - unanswered:,}",
              f"{unanswered:,} could not be"),
        key_figure("Findings of level low or info", f"{findings:,}",
              "for the record" if findings else ""),
    ]  # fmt: skip
