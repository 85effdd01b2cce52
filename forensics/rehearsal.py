"""A run on a tiny archive, end to end, to see that everything is there: Spark, workers, page.

The archive is made from the logs that a detector carries as its sample, so what must be found in
it is known.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from forensics.checkup import OK, PROBLEM, Check
from forensics.errors import ForensicsError
from forensics.incidents.declared import Declared
from forensics.incidents.guests import shipped_declared
from forensics.progress import SILENT, Watcher, amount
from forensics.settings import Settings

__all__ = ["with_spark", "without_spark"]

_REINSTALL = "The installation is damaged: pip install --force-reinstall kafka-forensics"
_START = "See what Spark says by itself: pyspark --master 'local[1]' </dev/null"
_EMPTY_PAGE = 10_000


def with_spark(master: str | None, watcher: Watcher = SILENT) -> Iterator[Check]:
    """Read a tiny archive as `postmortem` does, on Spark."""
    with TemporaryDirectory(prefix="kafka-forensics-") as folder:
        rule, logs, expected = _sample()
        archive = Path(folder) / "sample.tar.gz"
        _pack(logs, archive)
        settings = Settings((str(archive),), Path(folder) / "out", master or "local[2]")
        try:
            # Spark is wanted only now.
            from forensics.pipeline import postmortem  # noqa: PLC0415

            result = postmortem(settings, _hush, watcher)
        except ForensicsError as error:
            yield Check("spark", PROBLEM, str(error), _START)
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            yield Check("sample", PROBLEM, f"{type(error).__name__}: {error}", _REINSTALL)
            return
        seconds = result["seconds"]
        yield Check("spark", OK, f"started in {seconds['start']:.0f} s on {settings.master}")
        yield _judged(result, rule, settings.out, expected)


def without_spark() -> Iterator[Check]:
    """Read the same in this process: rules, layouts and detectors, but neither Spark nor page."""
    from forensics.incidents.declared import detector  # noqa: PLC0415
    from forensics.trial import tried  # noqa: PLC0415

    with TemporaryDirectory(prefix="kafka-forensics-") as folder:
        rule, logs, expected = _sample()
        archive = Path(folder) / "sample.tar.gz"
        _pack(logs, archive)
        try:
            trial = tried([str(archive)], Path(folder) / "out")
            found = len(list(detector(rule).find(trial.case())))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            yield Check("sample", PROBLEM, f"{type(error).__name__}: {error}", _REINSTALL)
            return
        lines = sum(one.counts["lines"] for one in trial.files.values())
        says = f"{lines} lines read without Spark, {found} finding of {expected}"
        good = found == expected
        yield Check("sample", OK if good else PROBLEM, says, "" if good else _REINSTALL)


def _sample() -> tuple[Declared, Mapping[str, str], int]:
    """Give the sample of a detector that has the most logs, and what must be found in it."""
    firing = [(rule, one) for rule in shipped_declared() for one in rule.samples if one.finds]
    rule, sample = max(firing, key=lambda pair: (len(pair[1].logs), pair[1].name))
    return rule, sample.logs, sample.finds


def _pack(logs: Mapping[str, str], target: Path) -> None:
    with tarfile.open(target, "w:gz") as archive:
        for name, text in logs.items():
            data = text.encode("utf-8")
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def _judged(result: Mapping[str, Any], rule: Declared, out: Path, expected: int) -> Check:
    document = json.loads((out / "findings.json").read_text("utf-8"))
    found = sum(one["detector"] == rule.id for one in document["findings"])
    size = (out / "report.html").stat().st_size
    lines = result["archive"]["lines"]
    says = f"{lines} lines read, {found} finding of {expected}, page of {amount(size)} drawn"
    good = found == expected and size > _EMPTY_PAGE
    return Check("sample", OK if good else PROBLEM, says, "" if good else _REINSTALL)


def _hush(text: str) -> None:
    """Say nothing: only the outcome counts."""
