"""The order of the work: archives, entries, events, history, incidents, quality, report."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

from forensics import history, incidents, quality, report
from forensics.archives.planning import plan
from forensics.events.accounting import FileAccount
from forensics.events.packs import Catalogue, catalogue, open_pack, packed
from forensics.flow import Say, read, rebuild, write
from forensics.settings import Settings
from forensics.spark import Cluster, told_plainly

__all__ = ["postmortem"]


def postmortem(settings: Settings, say: Say) -> dict[str, Any]:
    """Read archives and leave tables, findings and the page in the output folder."""
    packs = [open_pack(path) for path in settings.packs]
    rules = catalogue(packs)
    work = plan(settings.archives, settings.split_size)
    for label, problem in work.problems:
        say(f"warning: {label}: {problem}; the rest is read")
    shutil.rmtree(settings.staging, ignore_errors=True)
    settings.tables.mkdir(parents=True, exist_ok=True)
    with told_plainly():
        cluster = Cluster(settings.master)
        try:
            files = read(cluster, work, packed(packs), settings, say)
            past = rebuild(cluster, files, settings, say)
        finally:
            cluster.stop()
            shutil.rmtree(settings.staging, ignore_errors=True)
    return conclude(files, past, rules, settings, say)


def conclude(
    files: Mapping[str, FileAccount],
    past: history.Past,
    rules: Catalogue,
    settings: Settings,
    say: Say,
) -> dict[str, Any]:
    """Turn history into findings, check the tables, and draw the page."""
    packs = [open_pack(path) for path in settings.packs]
    answers = incidents.find(settings.tables, past, packs)
    document = incidents.document(settings.tables, files.values(), past.clocks, answers, rules)
    say(f"incidents  {len(answers.findings)} findings, verdict: {document['verdict']}")
    checks = quality.check(settings.tables)
    write(checks, settings.tables / "checks")
    report.write(document, settings.out / "findings.json")
    page = report.draw(settings.out)
    say(f"report     {page}")
    return document
