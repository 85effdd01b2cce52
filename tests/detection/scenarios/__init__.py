"""Small cases for every detector: where it fires, where it is quiet, and at its limits.

Each module here is about one detector and lists SCENARIOS. tests/detection/test_scenarios.py runs
them all, and moves every limit of every detector by one step: some scenario must then fail.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.run_output.findings import Finding
from forensics.sandbox import run_lines

# `blind`: logs from which nothing can be concluded, and the detector must say so.
KINDS = ("fires", "quiet", "boundary", "blind")
_DEEP = ("measures",)


@dataclass(frozen=True)
class Scenario:
    """A case, and what one detector must find in it."""

    detector: str
    kind: str
    name: str
    # leaves tables in a folder and returns the context: tests.detection.cases.case, or `from_logs`
    build: Callable[[Path], DetectionContext]
    # for each finding, in their order, some of its properties; `measures` may name a few of them
    expect: Sequence[Mapping[str, Any]] = ()
    # the reason that is given if the detector cannot be evaluated; only for `blind`
    reason: str = ""
    # findings of other limits than the shipped ones
    limits: Mapping[str, Any] = field(default_factory=dict)


def from_logs(files: Mapping[str, str]) -> Callable[[Path], DetectionContext]:
    """Build a case from the text of logs, each under the name of its file."""
    return lambda folder: run_lines(files, folder / "out").context()


def all_scenarios() -> Iterator[Scenario]:
    """Yield the scenarios of all detectors."""
    for found in pkgutil.iter_modules(__path__):
        yield from importlib.import_module(f"{__name__}.{found.name}").SCENARIOS


def matches(findings: Sequence[Finding], expect: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if findings are those expected, one by one."""
    ordered = sorted(findings, key=lambda finding: (finding.begin, finding.id))
    return len(ordered) == len(expect) and all(
        _fits(finding, expected) for finding, expected in zip(ordered, expect, strict=True)
    )


def _fits(finding: Finding, expected: Mapping[str, Any]) -> bool:
    for name, value in expected.items():
        actual = getattr(finding, name)
        if name in _DEEP:
            if any(actual.get(key) != measure for key, measure in value.items()):
                return False
        elif (sorted(actual) if isinstance(actual, (list, tuple)) else actual) != value:
            return False
    return True
