"""The order of the work: archives, entries, events, history, incidents, quality, report."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from forensics import ending, history, incidents, quality, report
from forensics.archives.planning import plan
from forensics.ending import Code, Ending, Stopwatch
from forensics.engine_base import Say
from forensics.events.accounting import FileAccount
from forensics.events.packs import Catalogue, catalogue, open_pack, packed
from forensics.flow import read, rebuild
from forensics.judging import judge
from forensics.progress import SILENT, Watcher
from forensics.settings import Settings
from forensics.spark import Cluster, told_plainly
from forensics.summary import coverage_of
from forensics.tables import give_back

__all__ = ["postmortem"]


def postmortem(settings: Settings, say: Say, watcher: Watcher = SILENT) -> dict[str, Any]:
    """Read archives, leave tables, findings and the page in the output folder, and how it ended.

    What is given back is what `_RESULT.json` says: the exit code, its reason, and the figures.
    """
    with Stopwatch(watcher) as watch:
        try:
            ending.clear(settings.out)
            return _run(settings, say, watch)
        except BaseException as error:
            stopped = isinstance(error, KeyboardInterrupt)
            code = Code.INTERRUPTED if stopped else Code.FAILED
            because = "interrupted" if stopped else f"{type(error).__name__}: {error}"
            # Where the folder cannot be written, that is what went wrong, and is told.
            with suppress(OSError):
                end = Ending(code, because)
                ending.save(settings.out, end, command=settings.command, **watch.told())
            raise


def _run(settings: Settings, say: Say, watch: Stopwatch) -> dict[str, Any]:
    packs = [open_pack(path) for path in settings.packs]
    rules = catalogue(packs)
    # What is wrong with somebody's own expectations is told before the work, not after it.
    quality.checked_suites(packs)
    with watch.stage("plan"):
        work = plan(settings.archives, settings.split_size)
    for label, problem in work.problems:
        say(f"warning: {label}: {problem}; the rest is read")
    shutil.rmtree(settings.staging, ignore_errors=True)
    settings.tables.mkdir(parents=True, exist_ok=True)
    with told_plainly():
        with watch.stage("start"):
            quality.prepare()
            cluster = Cluster(settings.master, watch.watcher)
        try:
            with watch.stage("scan"):
                files = read(cluster, work, packed(packs), settings, say)
            with watch.stage("history"):
                past = rebuild(cluster, files, settings, say)
        finally:
            cluster.stop()
            shutil.rmtree(settings.staging, ignore_errors=True)
    give_back()
    return conclude(files, past, rules, settings, say, watch=watch)


def conclude(  # noqa: PLR0913
    files: Mapping[str, FileAccount],
    past: history.Past,
    rules: Catalogue,
    settings: Settings,
    say: Say,
    *,
    watch: Stopwatch | None = None,
) -> dict[str, Any]:
    """Turn history into findings, check the tables, draw the page, and say how it ended."""
    watch = watch or Stopwatch()
    document, answers = judge(files, past, rules, settings, watch)
    say(f"incidents  {len(answers.findings)} findings, verdict: {document['verdict']}")
    with watch.stage("report"):
        report.write_findings(document, settings.out / "findings.json")
        page = report.draw(settings.out)
    say(f"report     {page}")
    problems = [f"{name}: {', '.join(one.notes)}" for name, one in files.items() if one.broken]
    end = ending.ending_of(document, problems, document["quality"]["closed"], settings)
    figures = _figures(document, files, answers)
    seen = {"coverage": coverage_of(settings.tables), "page": str(page)}
    told = {"command": settings.command, **figures, **seen, **watch.told()}
    return ending.save(settings.out, end, **told)


def _figures(
    document: Mapping[str, Any], files: Mapping[str, FileAccount], answers: incidents.Answers
) -> dict[str, Any]:
    """Gather the figures that an end summary tells."""
    levels = Counter(one["severity"] for one in document["findings"])
    answered = Counter(one.status for one in answers.outcomes)
    lines = sum((one.counts for one in files.values()), Counter[str]())
    buckets = ("records", "continuation_lines", "blank_lines", "unparsed_lines", "duplicate_lines")
    return {
        "verdict": document["verdict"],
        "summary": document["summary"],
        "archive": document["archive"],
        "lines": {name: lines[name] for name in buckets},
        "damaged": sum(one.broken for one in files.values()),
        "findings": {level: levels[level] for level in reversed(ending.LEVELS)},
        "suppressed": len(answers.suppressed),
        "quality": _of_gate(document["quality"]),
        "detectors": {name: answered[name] for name in sorted(answered)},
        "slowest": dict(sorted(answers.seconds.items(), key=lambda one: (-one[1], one[0]))[:5]),
    }


def _of_gate(told: Mapping[str, Any]) -> dict[str, Any]:
    """Say how the checks of quality went, in numbers."""
    failed = Counter(one["consequence"] for one in told["failed"])
    return {"gate": told["gate"], "checks": told["checks"], "failed": dict(sorted(failed.items()))}
