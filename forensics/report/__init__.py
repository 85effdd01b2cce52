"""Every saved table becomes one page, and every finding one row of findings.json."""

from __future__ import annotations

from forensics.report.findings import write_findings
from forensics.report.page import draw

__all__ = ["draw", "write_findings"]
