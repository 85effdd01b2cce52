"""A postmortem whose output nobody sees but redacted: it is made in private, and then renamed.

What the logs really say stands in a folder beside the output, which only its owner can read, and
which is gone at the end. Nothing of it ever lies in the output itself, not even after a kill.
"""

from __future__ import annotations

import fcntl
import shutil
import signal
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from forensics import run_result
from forensics.engine.base import Notify
from forensics.engine.progress import SILENT, ProgressListener
from forensics.errors import ForensicsError
from forensics.pipeline import postmortem as plainly
from forensics.redaction.pseudonyms import CLASSES, default_map_path
from forensics.redaction.rewrite import check_target, redact_result, redact_run
from forensics.run_result import ExitCode, RunOutcome
from forensics.settings import Settings

_LOCK = ".in-use"
_TERMINATED = 143


def postmortem(
    settings: Settings,
    classes: Collection[str],
    secret: Path | None,
    say: Notify,
    watcher: ProgressListener = SILENT,
) -> dict[str, Any]:
    """Do what `pipeline.postmortem` does, and leave the redacted run alone in the output folder."""
    out = settings.out
    secret = secret or default_map_path(out)
    check_target(out, secret)
    run_result.clear_result(out)
    try:
        with _private_folder(out) as folder:
            result = plainly(
                replace(settings, out=folder / "run"), _without_page_line(say), watcher
            )
            return _save_redacted_result(
                out, result, redact_run(folder / "run", out, classes, secret), say
            )
    except BaseException as error:
        stopped = isinstance(error, KeyboardInterrupt)
        code = ExitCode.INTERRUPTED if stopped else ExitCode.FAILED
        # Why it failed may hold names: who may read those has seen it on the terminal.
        because = "interrupted" if stopped else type(error).__name__
        run_result.save_result(out, RunOutcome(code, because))
        raise


def redact_saved_run(
    source: Path, out: Path, classes: Collection[str], secret: Path | None
) -> Path:
    """Redact a saved run into another folder, and give the page."""
    redact_run(source, out, classes, secret or default_map_path(out))
    return out / "report.html"


def parse_classes(text: str) -> tuple[str, ...]:
    """Read which classes somebody wants to have redacted.

    >>> parse_classes("topics, hosts")
    ('hosts', 'topics')
    """
    named = {one.strip() for one in text.lower().split(",") if one.strip()}
    if unknown := sorted(named - {*CLASSES, "all"}):
        known = ", ".join(CLASSES)
        raise ForensicsError(f"--redact {unknown[0]}: there are {known}, and all.")
    return tuple(kind for kind in CLASSES if kind in named or "all" in named)


def _save_redacted_result(
    out: Path, result: dict[str, Any], treatment: Any, say: Notify
) -> dict[str, Any]:
    page = out / "report.html"
    say(f"redacted   {page}")
    told = redact_result(result, treatment)
    end = RunOutcome(ExitCode(told.pop("exit_code")), str(told.pop("reason")))
    return run_result.save_result(out, end, **told | {"page": str(page)})


def _without_page_line(say: Notify) -> Notify:
    """Keep back where the private page is: it will not be there for long."""
    return lambda text: None if text.startswith("report ") else say(text)


@contextmanager
def _private_folder(out: Path) -> Iterator[Path]:
    """Give a folder beside the output that nobody else can read, and take it away at the end."""
    parent = out.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{out.name}.private-"
    _remove_abandoned(parent, prefix)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    before = signal.getsignal(signal.SIGTERM)
    try:
        with (folder / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            signal.signal(signal.SIGTERM, _exit_on_sigterm)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        signal.signal(signal.SIGTERM, before)


def _remove_abandoned(parent: Path, prefix: str) -> None:
    """Take away what a killed run has left: nobody holds its lock any more."""
    for folder in parent.glob(f"{prefix}*"):
        try:
            with (folder / _LOCK).open("r") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue


def _exit_on_sigterm(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(_TERMINATED)
