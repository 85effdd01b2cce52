"""What every detector must say of small cases: when it fires, when it is quiet, and at its limits.

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

__all__ = ["KINDS", "Scenario", "every", "matches", "told"]

# The last: logs that do not let anyone tell, where the detector must say so.
KINDS = ("fires", "quiet", "boundary", "blind")
_DEEP = ("measures",)


@dataclass(frozen=True)
class Scenario:
    """A case, and what one detector must find in it."""

    detector: str
    kind: str
    name: str
    # leaves tables in a folder and gives the case: tests.incidents.cases.case, or `told`
    build: Callable[[Path], DetectionContext]
    # for each finding, in their order, some of its properties; `measures` may name a few of them
    expect: Sequence[Mapping[str, Any]] = ()
    # what is said where the detector cannot tell; only for `blind`
    reason: str = ""
    # findings of other limits than the shipped ones
    limits: Mapping[str, Any] = field(default_factory=dict)


def told(files: Mapping[str, str]) -> Callable[[Path], DetectionContext]:
    """Build a case from the text of logs, each under the name of its file."""
    return lambda folder: run_lines(files, folder / "out").context()


def every() -> Iterator[Scenario]:
    """Yield the scenarios of all detectors."""
    for found in pkgutil.iter_modules(__path__):
        yield from importlib.import_module(f"{__name__}.{found.name}").SCENARIOS


def matches(findings: Sequence[Finding], expect: Sequence[Mapping[str, Any]]) -> bool:
    """Whether findings are those expected, one by one."""
    ordered = sorted(findings, key=lambda one: (one.begin, one.id))
    return len(ordered) == len(expect) and all(
        _is(one, wanted) for one, wanted in zip(ordered, expect, strict=True)
    )


def _is(finding: Finding, wanted: Mapping[str, Any]) -> bool:
    for name, value in wanted.items():
        has = getattr(finding, name)
        if name in _DEEP:
            if any(has.get(key) != one for key, one in value.items()):
                return False
        elif (sorted(has) if isinstance(has, (list, tuple)) else has) != value:
            return False
    return True
