"""Reads archives of Apache Kafka logs and says what happened.

What other programs may import stands in `__all__`, and docs/python-api.md describes it; all other
names may change with any version.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forensics.errors import ForensicsError
    from forensics.pipeline import postmortem
    from forensics.run_output.reader import RunOutput, open_run
    from forensics.settings import Settings
    from forensics.weekly_audit import AuditRequest, audit

__version__ = "0.1.0"
__all__ = [
    "AuditRequest",
    "ForensicsError",
    "RunOutput",
    "Settings",
    "__version__",
    "audit",
    "open_run",
    "postmortem",
]
# Importing all of them takes a second, which a command such as --help does without.
_MODULES = {
    "AuditRequest": "weekly_audit",
    "ForensicsError": "errors",
    "RunOutput": "run_output.reader",
    "Settings": "settings",
    "audit": "weekly_audit",
    "open_run": "run_output.reader",
    "postmortem": "pipeline",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
