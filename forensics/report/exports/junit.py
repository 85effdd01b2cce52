"""The findings as a test report: what a build server shows without knowing of Kafka."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forensics.lib.formatting import span_text
from forensics.report.headline import verdict_sentence
from forensics.report.html import Markup, join, tag
from forensics.run_output.reader import Finding, RunOutput

NAME = "kafka-forensics"
# Characters that XML has no way to write.
IMPOSSIBLE = re.compile("[\ufffe\uffff\U0001fffe\U0001ffff]")
QUOTED = 5


def write(run: RunOutput, _events: bool) -> Iterator[str]:
    """Write one test for the verdict, for each finding, and for each detector that found nothing.

    An incident fails; what cannot be told is an error, so that no build is green because logs were
    missing; a detector that could not be asked is skipped.
    """
    cases = [_verdict(run), *map(_finding, run.findings), *_outcomes(run)]
    kinds = [case.kind for case in cases]
    counts = {
        "tests": len(cases),
        "failures": kinds.count("failure"),
        "errors": kinds.count("error"),
        "skipped": kinds.count("skipped"),
    }
    suite = tag("testsuite", "\n", join((case.xml() for case in cases), "\n"), name=NAME, **counts)
    whole = tag("testsuites", "\n", suite, "\n", name=NAME, **counts)
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n{IMPOSSIBLE.sub("�", whole)}\n'


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
        """Write it."""
        inside: Markup | None = tag("system-out", self.text) if self.text else None
        if self.kind == "skipped":
            inside = tag("skipped", message=self.message)
        elif self.kind != "passed":
            inside = tag(self.kind, self.text, message=self.message or self.text, type=self.type)
        return tag("testcase", inside, classname=f"{NAME}.{self.detector}", name=self.name)


def _verdict(run: RunOutput) -> _Case:
    verdict = str(run.document.get("verdict"))
    # The findings of an incident fail by themselves; one incident is not two failures.
    kind = "passed" if verdict in ("clear", "incident") else "error"
    return _Case("verdict", "verdict", kind, verdict_sentence(run), verdict)


def _finding(finding: Finding) -> _Case:
    quotes = [f"{one.file}:{one.line}\n  {one.text}" for one in finding.evidence[:QUOTED]]
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
    """Give a test to each detector that found nothing: it was quiet, or could not be asked."""
    outcomes: Sequence[Mapping[str, Any]] = run.document.get("detectors") or ()
    for one in outcomes:
        status = str(one.get("status"))
        if status == "fired":
            continue
        reasons = "; ".join(map(str, one.get("reasons") or ()))
        kind = {"quiet": "passed", "not_evaluable": "skipped"}.get(status, "error")
        text = f"not seen: {reasons}" if kind == "passed" and reasons else reasons
        name = str(one.get("detector"))
        yield _Case(name, "nothing found", kind, text, status, reasons or status)
