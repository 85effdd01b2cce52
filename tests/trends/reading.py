"""Output folders for trends: one of a recording, read in this process, and ones made by hand."""

from __future__ import annotations

from pathlib import Path

from forensics import incidents, report
from forensics.events.packs import catalogue
from forensics.trial import tried

__all__ = ["SAMPLES", "read"]

SAMPLES = Path(__file__).parents[2] / "sample_logs"


def read(sample: str, out: Path) -> Path:
    """Read a recording and leave what a postmortem of it leaves, but for the page."""
    logs = next(one for one in (SAMPLES / sample).iterdir() if one.name.startswith("logs"))
    trial = tried([str(logs)], out)
    answers = incidents.find(trial.tables, trial.past)
    document = incidents.document(
        trial.tables, trial.files.values(), trial.past.clocks, answers, catalogue([])
    )
    report.write_findings(document, out / "findings.json")
    return out
