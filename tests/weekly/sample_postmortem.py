"""The output folder of a recording, read in this process."""

from __future__ import annotations

from pathlib import Path

from forensics.detection import verdict
from forensics.detection.registry import detect
from forensics.events.packs import load_rule_set
from forensics.run_output.findings import write_findings
from forensics.sandbox import run_archives

SAMPLES = Path(__file__).parents[2] / "sample_logs"


def run_postmortem(sample: str, out: Path) -> Path:
    """Read a recording and write what a postmortem of it writes, but for the page."""
    logs = next(one for one in (SAMPLES / sample).iterdir() if one.name.startswith("logs"))
    trial = run_archives([str(logs)], out)
    answers = detect(trial.tables, trial.past)
    document = verdict.build_findings_document(
        trial.tables, trial.files.values(), trial.past.clocks, answers, load_rule_set([])
    )
    write_findings(document, out / "findings.json")
    return out
