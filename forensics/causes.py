"""Finds in what Spark throws, pages long, the sentence that says what went wrong."""

from __future__ import annotations

import re

__all__ = ["cause"]

_TRACEBACK = "Traceback (most recent call last):"
# An error by its name, at the margin: so ends a traceback of Python.
_RAISED = re.compile(r"^([\w.]+): (\S.*)", re.MULTILINE)
_CAUSED = re.compile(r"^Caused by: ([\w$.]+): (\S.*)", re.MULTILINE)
_OURS = "forensics."
_UNSENT = (
    "; the Python of executors needs this package and what it imports,"
    " and docs/running/clusters.md says how to send both"
)


def cause(text: str) -> str:
    r"""Give the innermost reason: what Python raised, or else Java, or else the first line.

    >>> cause("Aborted.\nTraceback (most recent call last):\n  File 1\nKeyError: 'isr'\n\tat x")
    "KeyError: 'isr'"
    >>> cause("Job aborted.\n\tat x\nCaused by: java.io.IOException: No space left on device")
    'IOException: No space left on device'
    """
    _, traceback, after = text.rpartition(_TRACEBACK)
    if traceback and (raised := _RAISED.search(after)):
        name, says = raised.groups()
        if name.startswith(_OURS):
            return says.strip()
        missing = name == "ModuleNotFoundError"
        return f"{_last(name)}: {says.strip()}{_UNSENT if missing else ''}"
    if caused := _CAUSED.findall(text):
        name, says = caused[-1]
        return f"{_last(name)}: {says.strip()}"
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")


def _last(name: str) -> str:
    return name.rpartition(".")[2]
