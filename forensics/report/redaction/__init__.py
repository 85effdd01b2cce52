"""A run with other names in it: pseudonyms instead of hosts, addresses, clients, topics, people."""

from __future__ import annotations

from forensics.report.redaction.pseudonyms import CLASSES, Pseudonyms, beside
from forensics.report.redaction.redacting import check, redact, redacted_result

__all__ = ["CLASSES", "Pseudonyms", "beside", "check", "redact", "redacted_result"]
