"""What happened, to whom, for how long, what was lost, how sure: the first screen."""

from __future__ import annotations

from forensics.lib.formatting import count, duration, join_names, time_text
from forensics.lib.time_zone import current_zone
from forensics.report.data_loss import sum_clean_truncations
from forensics.report.finding_text import drop_standing
from forensics.report.headline import is_open, sum_losses, unanswered_detectors, verdict_sentence
from forensics.report.html import Child, Markup, anchor, join, tag
from forensics.report.incident_story import first_client_errors
from forensics.run_output.reader import Finding, RunOutput

ORDER = 10
TITLE = "Verdict"
WORDS = {"clear": "clear", "cannot_tell": "cannot tell"}
ALSO = 3


def render(run: RunOutput) -> Markup:
    """Say the verdict in one sentence, with six cells below it."""
    level = run.incidents[0].severity if run.incidents else "none"
    verdict = str(run.document.get("verdict"))
    word = level if verdict == "incident" else WORDS.get(verdict, verdict)
    kind = f"level-{anchor(level if verdict == 'incident' else verdict.replace('_', '-'))}"
    badge = tag("span", word, class_="badge")
    answer = tag("p", badge, " ", verdict_sentence(run), class_="answer")
    cells = _cells(run) if run.incidents else _looked(run)
    inside = (answer, _lost(run), tag("dl", *cells, class_="cells"), _more(run))
    return tag("div", *inside, class_=f"verdict {kind}")


def _lost(run: RunOutput) -> Markup | None:
    taken, trimmed = sum_losses(run.findings), sum_clean_truncations(run.findings)
    parts: list[str] = []
    if taken and taken.unbounded:
        sure = f"At least {count(taken.at_least, 'record')} lost"
        parts.append(sure if taken.at_least else "No loss is certain")
        of = count(taken.partitions, "partition")
        parts.append(f"no upper bound for {taken.unbounded:,} of {of}")
    if taken and taken.acknowledged:
        parts.append(f"{taken.acknowledged} of the lost records had been acknowledged")
    if trimmed:
        too = ", too," if taken and taken.at_most else ""
        parts.append(
            f"{trimmed} were cut after clean changes of leader: lost{too} if written with acks=1"
        )
    if not parts:
        return None
    says = "; ".join(parts)
    link = tag("a", "data-loss ledger", href="#ledger")
    return tag("p", says[0].upper(), says[1:], " (", link, ").", class_="lost")


def _cells(run: RunOutput) -> list[Markup]:
    found = drop_standing(run.incidents)
    starts = [finding.start_ms for finding in found if finding.start_ms is not None]
    ends = [finding.end_ms for finding in found if finding.end_ms is not None]
    start = min(starts, default=None)
    # The last line of a process that died: it died later, and no line says when.
    early = any(_died(finding) for finding in found if finding.start_ms == start)
    first = "at the earliest, the last line before a crash" if early else "first incident finding"
    going = any(is_open(run, finding) for finding in found)
    end = max(ends, default=None)
    whole = duration(end - start) if start is not None and end is not None else ""
    seen = f"the logs end {time_text(end)[11:]}, {whole} later" if whole else ""
    brokers = sorted({broker for finding in found for broker in finding.brokers})
    return [
        _cell("Started", time_text(start), f"{current_zone().label}, {first}"),
        _cell(
            "Ended",
            "not over" if going else time_text(end),
            (seen if going else f"{current_zone().label}, after {whole}") if whole else "",
        ),
        _partitions(run),
        _cell("Brokers", join_names([str(broker) for broker in brokers], 6) or "none named", ""),
        _clients(found),
        _first_sign(run, start, end, early=early),
    ]


def _cell(name: str, value: str, note: Child) -> Markup:
    small = tag("small", note) if note else None
    return tag("div", tag("dt", name), tag("dd", tag("b", value), " ", small))


def _partitions(run: RunOutput) -> Markup:
    hit = {name for finding in run.incidents for name in finding.partitions}
    known = run.partition_count
    note = f"of {count(known, 'partition')}" if known else "of an unknown number"
    if not hit:
        # A broker that died hits those that it led; that a finding names none is no count of them.
        return _cell("Partitions hit", "not counted", f"no finding names any {note}")
    return _cell("Partitions hit", f"{len(hit):,}", note)


def _clients(found: list[Finding]) -> Markup:
    names = sorted({client for finding in found for client in finding.clients})
    return _cell("Clients with sustained errors", f"{len(names):,}", join_names(names))


def _died(finding: Finding) -> bool:
    return "crash" in (finding.measures.get("kind"), finding.measures.get("how"))


def _first_sign(run: RunOutput, start: int | None, end: int | None, *, early: bool) -> Markup:
    """Say how long nobody could have noticed: what was hit first, and who first complained."""
    name = "First effect to first sign"
    if start is None:
        return _cell(name, "not known", "")
    found = first_client_errors(run, start, start if end is None else end)
    if not found:
        return _cell(name, "not seen", "no client logged a warning meanwhile")
    first = found[0]
    value = duration(first.at - start) if first.at > start else "at once"
    value = f"at most {value}" if early and first.at > start else value
    when = f"{time_text(first.at)[11:]} {current_zone().label}"
    return _cell(name, value, f"{first.client}: {first.what}, {when}")


def _more(run: RunOutput) -> Markup | None:
    """Say below the cells what else there is, how sure the sentence is, and why."""
    found = run.incidents
    lines: list[Child] = []
    if found:
        worst = tag("a", found[0].title, href=f"#{anchor(found[0].id)}")
        lines.append(join([tag("b", "Worst: "), worst, "."]))
    if len(found) > 1:
        links = [
            tag("a", finding.title, href=f"#{anchor(finding.id)}")
            for finding in found[1 : ALSO + 1]
        ]
        left = len(found) - len(links) - 1
        tail = f"; and {count(left, 'finding')} more" if left else ""
        lines.append(join([tag("b", "Also: "), join(links, "; "), tail, "."]))
    reason = found[0].reason if found else ""
    deaf = len(unanswered_detectors(run))
    link = tag("a", "what we could not see", href="#unseen")
    looked = join([f"{count(deaf, 'kind')} of trouble could not be looked for (", link, ")"])
    told = [reason] if reason else []
    if told or (found and deaf):
        says = join([*told, looked if deaf else None], "; ")
        lines.append(join([tag("b", "How sure: "), says, "."]))
    return tag("ul", *(tag("li", line) for line in lines), class_="more") if lines else None


def _looked(run: RunOutput) -> list[Markup]:
    """Say what was looked at, where nothing was found or nothing can be told."""
    archive = run.document.get("archive") or {}
    nodes = {row["node"] for row in run.files if row["node"]}
    asked = run.document.get("detectors") or ()
    deaf = len(unanswered_detectors(run))
    hurt = sum(1 for row in run.files if row["damaged"])
    files = archive.get("files") or len(run.files)
    few = len(run.findings)
    return [
        _cell("From", time_text(run.window[0] if run.window else None), current_zone().label),
        _cell("To", time_text(run.window[1] if run.window else None), current_zone().label),
        _cell("Files", f"{files:,}", f"of {count(len(nodes), 'node')}, {hurt:,} damaged"),
        _cell("Facts read", f"{archive.get('events') or 0:,}", "from their lines"),
        _cell("Kinds of trouble looked for", f"{len(asked) - deaf:,}", f"{deaf:,} could not be"),
        _cell("Findings of level low or info", f"{few:,}", "for the record" if few else ""),
    ]
