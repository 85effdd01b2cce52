"""Tries declared detectors on the logs that they carry as samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from forensics.detection.declarative.interpreter import make_detector
from forensics.detection.declarative.spec import DeclaredDetector
from forensics.detection.registry import all_detectors, load_declarations, load_shipped_declarations
from forensics.detection.thresholds import load_limits
from forensics.errors import Problem, collect_problems
from forensics.events.packs import Pack
from forensics.lib.formatting import quantity
from forensics.sandbox import run_lines


def find_detector_problems(packs: Sequence[Pack], *, shipped: bool) -> list[Problem]:
    """Find what is wrong with the detectors of packs, and with their samples."""
    problems: list[Problem] = []
    rules = list(load_shipped_declarations()) if shipped else []
    for pack in packs:
        with collect_problems(problems):
            rules += load_declarations(pack.pages_in("detectors"))
    if not problems:
        with collect_problems(problems):
            all_detectors(packs)
    return problems or list(find_sample_problems(rules, packs))


def find_sample_problems(
    rules: Iterable[DeclaredDetector], packs: Sequence[Pack] = ()
) -> Iterator[Problem]:
    """Try declared detectors on their own samples; each must find as much as a sample says."""
    limits = load_limits()
    for rule in rules:
        find = make_detector(rule).find
        for sample in rule.samples:
            with TemporaryDirectory() as scratch:
                context = run_lines(sample.logs, Path(scratch), packs).context(limits)
                count = len(list(find(context)))
            if count != sample.expected:
                wanted = quantity(sample.expected, "finding")
                message = f"sample {sample.name!r} must give {wanted} and gives {count}"
                yield Problem(rule.origin, sample.line, message)
