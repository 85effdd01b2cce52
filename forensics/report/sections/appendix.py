"""The accounts of every line, the words, and findings.json for machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from forensics.lib.text_format import count, format_bytes
from forensics.report.html import (
    Child,
    Markup,
    join,
    json_script,
    note_left_out,
    table,
    tag,
    trust_html,
)
from forensics.report.size_budget import fit_document
from forensics.run_output.reader import FILE_COUNTS, Row, RunOutput

TITLE = "Appendix"
MAX_FILES = 300
HEAD = ("File", "Bytes", "Lines", "Records", "Continued", "Blank", "Not understood", "Duplicate",
        "Events")  # fmt: skip
NUMBERS = HEAD[1:9]
MANIFEST_HEAD = ("File", "Node", "Layout", "Kafka", "Bytes", "SHA-256 of the unpacked file")
LINE_KINDS = ("records", "continuation_lines", "blank_lines", "unparsed_lines", "duplicate_lines")
GLOSSARY = {
    "ISR": (
        "In-sync replicas: the replicas that hold everything the leader has committed. Only "
        "they can be elected without loss."
    ),
    "HW": (
        "High watermark: the offset up to which every replica in the ISR has the records; "
        "consumers read no further."
    ),
    "LEO": "Log end offset: the offset after the last record that a replica has written.",
    "ELR": (
        "Eligible leader replicas: out of the ISR, but known to hold all that is committed "
        "(KRaft, Kafka 4.0 and later)."
    ),
    "Leader epoch": (
        "A number that grows by one with every new leader of a partition. It orders history "
        "whatever the clocks say."
    ),
    "Partition epoch": (
        "A number that grows with every change of a partition's leader or ISR (KRaft); on "
        "ZooKeeper, the version of its state."
    ),
    "Controller epoch": "A number that grows with every new controller; the higher one is obeyed.",
    "Unclean election": (
        "A replica from outside the ISR becomes leader; what it does not have is cut from all "
        "others."
    ),
    "Clean failover": (
        "A replica from the ISR becomes leader: nothing that acks=all acknowledged is lost."
    ),
    "Preferred election": "Leadership goes back to the first replica of a partition; routine.",
    "Fenced": "Registered with the controller, but without a session: it leads nothing (KRaft).",
    "Stale metadata": (
        "A client asks a broker that leads no more. Short errors after a move are normal; it "
        "learns the new leader and goes on."
    ),
    "acks": (
        "How many replicas a producer waits for: all in sync (all), the leader (1), nobody (0)."
    ),
}


def render(run: RunOutput) -> Markup:
    """Account for every line, explain the words, hold the data."""
    return join(
        [
            tag("h3", "Every line accounted for"),
            _line_counts(run.files),
            tag("h3", "What was read"),
            _manifest(run.files),
            tag("h3", "Rules in force"),
            _packs(run.document),
            tag("h3", "What the quoted lines mean"),
            _rules(run.document),
            tag("h3", "Glossary"),
            tag("dl", *(_term(name, text) for name, text in GLOSSARY.items()), class_="glossary"),
            tag("h3", "For machines"),
            *_machines(run),
        ]
    )


def _machines(run: RunOutput) -> Iterator[Markup]:
    """Hold findings.json, as much of it as there is room for, and say how much that is."""
    held = fit_document(run.document)
    schema = run.document.get("schema", "not known")
    text = f"findings.json, schema {schema}, stands in this page, in the element report-data. "
    text += f"This is report {run.short_digest}: the first letters of the SHA-256 of that file."
    if not held.is_whole:
        text += " It was too large: its quoted lines and longest lists are cut there"
        left = held.document.get("findings_left_out")
        text += f", and {left:,} findings left out. " if left else ". "
        text += (
            "The buttons give all of it, out of report-whole (gzip, base64)."
            if held.packed
            else "Only the file itself has all."
        )
    yield tag("p", text)
    # Filled and shown by script: a button that does nothing would only mislead.
    yield tag("p", id="report-tools", hidden=True)
    yield json_script(held.document, id="report-data")
    if held.packed:
        yield tag("script", trust_html(held.packed), type="application/gzip", id="report-whole")


def _line_counts(files: list[Row]) -> Markup:
    if not files:
        return tag("p", "No table of input files was saved.")
    totals = {name: sum(row[name] for row in files) for name in FILE_COUNTS}
    wrong = sum(1 for row in files if row["lines"] != sum(row[kind] for kind in LINE_KINDS))
    text = f"{count(wrong, 'file')} do not add up." if wrong else "Every row adds up."
    whole = table(HEAD, [_counts("All files", totals)], caption="Lines", numbers=NUMBERS)
    rows = [_counts(str(row["file"]), row) for row in files[:MAX_FILES]]
    each = table(HEAD, rows, caption="Lines of each file", numbers=NUMBERS)
    summary = tag("summary", "The same for each file")
    return join([tag("p", text), whole, tag("details", summary, each, _left_out(files))])


def _left_out(files: list[Row]) -> Markup | None:
    return note_left_out(len(files) - MAX_FILES, "file", "{} more in tables/files.")


def _manifest(files: list[Row]) -> Markup:
    """List what was read, by content: a file of another day has another digest."""
    if not files:
        return tag("p", "No table of input files was saved.")
    rows = (
        [
            str(row["file"]),
            row["node"] or "not known",
            row["layout"] or "-",
            row["kafka_version"] or "-",
            format_bytes(row["bytes"]),
            tag("code", str(row["sha256"])) if row.get("sha256") else "not read to the end",
        ]
        for row in files[:MAX_FILES]
    )
    listing = table(
        MANIFEST_HEAD, rows, caption="Input files", numbers=("Bytes",), class_="manifest"
    )
    return tag("details", tag("summary", count(len(files), "file")), listing, _left_out(files))


def _packs(document: Mapping[str, Any]) -> Markup:
    """Name the rules by their digests: the same digests read the same lines in the same way."""
    packs = document.get("packs") or ()
    if not packs:
        return tag("p", "Which rules were in force was not saved.")
    rows = (
        [str(pack.get("name")), str(pack.get("version")), tag("code", str(pack.get("sha256")))]
        for pack in packs
    )
    return table(("Pack", "Version", "SHA-256"), rows, caption="Rule packs", class_="manifest")


def _rules(document: Mapping[str, Any]) -> Markup:
    """Say what each rule reads that a finding rests on."""
    rules = document.get("rules") or {}
    if not rules:
        return tag("p", "No line is quoted.")
    terms = (
        _term(tag("code", name), f"{rule['means']} {rule['beware']}".strip(), id=f"rule-{name}")
        for name, rule in rules.items()
    )
    summary = tag("summary", f"{count(len(rules), 'rule')} that lines above were read by")
    return tag("details", summary, tag("dl", *terms, class_="glossary"))


def _counts(name: str, row: Row) -> list[Child]:
    numbers = ("lines", *LINE_KINDS, "events")
    return [name, format_bytes(row["bytes"]), *(count(row[key]) for key in numbers)]


def _term(name: Child, text: str, **attributes: str) -> Markup:
    return tag("div", tag("dt", name, **attributes), tag("dd", text))
