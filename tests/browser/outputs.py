"""Output folders for the browser: an incident, and the same one told by hostile logs."""

from __future__ import annotations

from pathlib import Path

from forensics.run_output.findings import write_findings
from tests.report import sample_runs as samples
from tests.report.sample_runs import Row, document, finding, proof, save

# Each would run, or show something that no log said, on a page that trusts what it quotes.
ATTACKS = (
    "</script><script>window.attacked = 1</script>",
    "</title></style><img src=x onerror='window.attacked = 2'>",
    "<svg onload='window.attacked = 3'><a href='javascript:window.attacked = 4'>go</a></svg>",
    "\"' onmouseover=window.attacked=5 autofocus onfocus=window.attacked=6 x=\"'><h1>Forged</h1>",
    "<b>bold</b> <i>lean</i> <a href='https://evil.example/'>link</a> <span style='color:red'>",
    "\x1b]8;;https://evil.example/\x1b\\click\x1b]8;;\x1b\\ \x1b[31mred\x1b[0m \x07",
    "safe\u202egnp.exe \u2066isolated\u2069 zero\u200bwidth \u2028 line",
    "%{customdata} %{x|%{y}} ${window.attacked = 7} {{constructor}} $\\href{javascript:1}{x}$",
    "half \udc80 pair &lt;b&gt;twice&lt;/b&gt; &#60;b&#62;",
)
TABLES = ("leadership", "isr", "lanes", "files", "clocks")


def unclean(out: Path) -> Path:
    """Save the run of an unclean election."""
    for name in TABLES:
        save(out, name, getattr(samples, name)())
    save(out, "events", samples.errors())
    write_findings(document(samples.unclean_findings()), out / "findings.json")
    return out


def told_by(text: str, out: Path) -> Path:
    """Save a run whose logs put one text into every place that a log can fill."""
    unclean(out)
    stored = text.encode("utf-8", "replace").decode()
    # Two topics stay two: a table tells of each partition once.
    for make in (samples.leadership, samples.isr):
        rows = [row | {"topic": f"{stored}{row['topic'][:1]}"} for row in make()]
        save(out, make.__name__, rows)
    client: Row = {"node": stored, "role": "client", "state": "stale"}
    lanes = [*samples.lanes(), client | {"started_at": samples.at(0), "ended_at": None}]
    save(out, "lanes", lanes)
    save(out, "files", [row | _named(stored) for row in samples.files()])
    save(out, "clocks", [row | {"node": stored} for row in samples.clocks()[:1]])
    errors = [row | {"client": stored, "node": stored} for row in samples.errors()]
    save(out, "events", errors)
    write_findings(document(_findings(text)), out / "findings.json")
    return out


def _named(text: str) -> Row:
    return {"file": text, "node": text, "layout": text, "kafka_version": text, "damaged": text}


def _findings(text: str) -> list[Row]:
    lost = samples.lost(0, 2, 845) | {"partition": text, "note": text}
    return [
        finding(
            "F-00000001", "unclean-election", "critical", title=f"Broker 2, {text}",
            partitions=[text], clients=[text], brokers=[2], measures={"partitions": [lost]},
            explanation=f"It was {text}.", actions=[f"Look at {text}."],
            evidence=[proof(1, 7, text) | {"file": text, "rule": "quorum.unclean@3.5"}],
        ),
        finding(
            "F-00000002", "stale-metadata", "medium", title=text, clients=[text],
            partitions=[text], evidence=[proof(1, 8, text)],
            measures={"errors": 3, "duration_s": 2.0, "verdict": text, "cause": text},
        ),
        finding("F-00000003", "broker-restart", "info", title=text, confidence="possible",
                measures={text: text, "reasons": [text, text]}, evidence=[proof(1, 9, text)]),
    ]  # fmt: skip
