"""From the past to what is said of it: findings, their document, and the checks of the tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from forensics import history, incidents, quality
from forensics.ending import Stopwatch
from forensics.events.accounting import FileAccount
from forensics.events.packs import Catalogue, open_pack
from forensics.flow import write_table
from forensics.settings import Settings

__all__ = ["judge"]


def _all(answers: incidents.Answers) -> incidents.Answers:
    return answers


def judge(  # noqa: PLR0913
    files: Mapping[str, FileAccount],
    past: history.Past,
    rules: Catalogue,
    settings: Settings,
    watch: Stopwatch,
    *,
    chosen: Callable[[incidents.Answers], incidents.Answers] = _all,
) -> tuple[dict[str, Any], incidents.Answers]:
    """Turn history into findings, check what they rest on, and trust them no further than that.

    `chosen` takes the answers that are told of out of all that are found.
    """
    packs = [open_pack(path) for path in settings.packs]
    with watch.stage("incidents"):
        answers = chosen(incidents.find(settings.tables, past, packs))
    with watch.stage("quality"):
        given = quality.Given(settings.tables, list(files.values()), past.clocks, answers.findings)
        gate = quality.check(given, quality.suites(packs), settings.data_docs)
        answers, gate = quality.lowered(answers, gate, given)
        write_table(gate.table(), settings.tables / "checks")
        document = incidents.document(settings.tables, files.values(), past.clocks, answers, rules)
    return quality.told(document, gate, given), answers
