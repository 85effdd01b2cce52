"""The findings as a JUnit report, which build servers show."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from forensics.lib.text_format import span_text
from forensics.report.headline import verdict_sentence
from forensics.report.html import Markup, join, tag
from forensics.run_output.reader import RunOutput, SavedFinding

_NAME = "kafka-forensics"
# Characters that XML cannot hold.
_IMPOSSIBLE = re.compile("[\ufffe\uffff\U0001fffe\U0001ffff]")
_MAX_QUOTES = 5


def write(run: RunOutput, _events: bool) -> Iterator[str]:
    """Write a test for the verdict, for each finding, and for each detector that found nothing.

    An incident fails. A verdict that cannot be told is an error, so that no build is green because
    logs were missing. A detector that could not be evaluated is skipped.
    """
    cases = [_verdict(run), *map(_finding, run.findings), *_outcomes(run)]
    kinds = Counter(case.kind for case in cases)
    plurals = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    counts = {"tests": len(cases)} | {plural: kinds[kind] for plural, kind in plurals.items()}
    suite = tag("testsuite", "\n", join((case.xml() for case in cases), "\n"), name=_NAME, **counts)
    whole = tag("testsuites", "\n", suite, "\n", name=_NAME, **counts)
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n{_IMPOSSIBLE.sub("�", whole)}\n'


@dataclass(frozen=True)
class _Case:
    """One test: passed, failure, error or skipped."""

    detector: str
    name: str
    kind: str = "passed"
    text: str = ""
    type: str = ""
    message: str = ""

    def xml(self) -> Markup:
        """Render the test case."""
        inside: Markup | None = tag("system-out", self.text) if self.text else None
        if self.kind == "skipped":
            inside = tag("skipped", message=self.message)
        elif self.kind != "passed":
            inside = tag(self.kind, self.text, message=self.message or self.text, type=self.type)
        return tag("testcase", inside, classname=f"{_NAME}.{self.detector}", name=self.name)


def _verdict(run: RunOutput) -> _Case:
    verdict = str(run.document.get("verdict"))
    kind = {"clear": "passed", "incident": "failure"}.get(verdict, "error")
    return _Case("verdict", "verdict", kind, verdict_sentence(run), verdict)


def _finding(finding: SavedFinding) -> _Case:
    evidence = finding.evidence[:_MAX_QUOTES]
    quotes = [f"{line.file}:{line.line}\n  {line.text}" for line in evidence]
    when = f"confidence {finding.confidence}, {span_text(finding.start_ms, finding.end_ms)}"
    return _Case(
        finding.detector,
        name=f"{finding.id} {finding.title}",
        kind="failure" if finding.is_incident else "passed",
        text="\n".join([when, finding.explanation, *quotes]),
        type=finding.severity,
        message=finding.title,
    )


def _outcomes(run: RunOutput) -> Iterator[_Case]:
    """Yield a test for each detector that found nothing."""
    for outcome in run.document.get("detectors") or ():
        status = str(outcome.get("status"))
        if status == "fired":
            continue
        reasons = "; ".join(map(str, outcome.get("reasons") or ()))
        kind = {"quiet": "passed", "not_evaluable": "skipped"}.get(status, "error")
        text = f"not seen: {reasons}" if kind == "passed" and reasons else reasons
        name = str(outcome.get("detector"))
        yield _Case(name, "nothing found", kind, text, status, reasons or status)
