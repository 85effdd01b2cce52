"""A postmortem whose output is only seen redacted.

The plain run lies in a folder beside the output, which only its owner can read, and which is
deleted at the end. Nothing of it ever lies in the output itself, not even after a kill.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from forensics import pipeline, run_result
from forensics.engine.base import Notify
from forensics.engine.progress import SILENT, ProgressListener
from forensics.errors import ForensicsError
from forensics.lib.folder_lock import lock_output
from forensics.lib.second_process import ALONE, SecondProcess
from forensics.redaction.pseudonyms import CLASSES, default_map_path
from forensics.redaction.redact_run import check_target, redact_result, redact_run
from forensics.run_result import ExitCode, RunOutcome
from forensics.settings import Settings

_LOCK = ".in-use"


def redacted_postmortem(  # noqa: PLR0913, PLR0917
    settings: Settings,
    classes: Collection[str],
    map_path: Path | None,
    notify: Notify,
    listener: ProgressListener = SILENT,
    second: SecondProcess = ALONE,
) -> dict[str, Any]:
    """Run `pipeline.postmortem`, and leave only the redacted run in the output folder."""
    out = settings.out
    map_path = map_path or default_map_path(out)
    check_target(out, map_path)
    with lock_output(out):
        run_result.clear_result(out)
        try:
            with _private_folder(out) as folder:
                private = replace(settings, out=folder / "run")
                result = pipeline.postmortem(private, _without_page_line(notify), listener, second)
                redacted = redact_result(result, redact_run(private.out, out, classes, map_path))
            page = out / "report.html"
            notify(f"redacted   {page}")
            outcome = RunOutcome(ExitCode(redacted.pop("exit_code")), str(redacted.pop("reason")))
            return run_result.save_result(out, outcome, **redacted | {"page": str(page)})
        except BaseException as error:
            # The text of an error may hold names; whoever may read them saw it on the terminal.
            with suppress(OSError):
                outcome = run_result.failure_outcome(error, type(error).__name__)
                run_result.save_result(out, outcome)
            raise


def redact_saved_run(
    source: Path, out: Path, classes: Collection[str], map_path: Path | None
) -> Path:
    """Redact a saved run into another folder, and return its page."""
    redact_run(source, out, classes, map_path or default_map_path(out))
    return out / "report.html"


def parse_classes(text: str) -> tuple[str, ...]:
    """Read the classes of `--redact`.

    >>> parse_classes("topics, hosts")
    ('hosts', 'topics')
    """
    named = {name.strip() for name in text.lower().split(",") if name.strip()}
    if unknown := sorted(named - {*CLASSES, "all"}):
        known = ", ".join(CLASSES)
        raise ForensicsError(f"--redact {unknown[0]}: there are {known}, and all.")
    return tuple(kind for kind in CLASSES if kind in named or "all" in named)


def _without_page_line(notify: Notify) -> Notify:
    """Leave out where the private page is: it will not be there for long."""
    return lambda text: None if text.startswith("report ") else notify(text)


@contextmanager
def _private_folder(out: Path) -> Iterator[Path]:
    """Make a folder beside the output that nobody else can read, and delete it at the end."""
    parent = out.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{out.name}.private-"
    _remove_abandoned(parent, prefix)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        with (folder / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(parent: Path, prefix: str) -> None:
    """Delete the folders of killed runs: nobody holds their lock any more."""
    for folder in parent.glob(f"{prefix}*"):
        try:
            with (folder / _LOCK).open("r") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue
