"""Starts audits as processes that are there at once: forks of one that has everything imported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

_ROOT = Path(__file__).parents[2]


class AuditProcesses:
    """A process that forks others, and says how they ended."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Take the process."""
        self._process = process

    def start(self, store: Path, *given: Path, **wishes: object) -> int:
        """Start an audit and give its process id.

        With `dies_at` it kills itself when so many files have found their places.
        """
        asked = {"store": str(store), "given": [str(one) for one in given], **wishes}
        return int(self._asked(asked))

    def join(self, pid: int) -> int:
        """Wait for the end of one: its exit code, or the number of a signal with a minus."""
        return int(self._asked({"join": pid}))

    def _asked(self, what: dict[str, Any]) -> str:
        into, out = self._process.stdin, self._process.stdout
        assert into is not None
        assert out is not None
        into.write(json.dumps(what) + "\n")
        into.flush()
        return out.readline()


@contextmanager
def start_audit_processes() -> Iterator[AuditProcesses]:
    """Open one for some time."""
    command = [sys.executable, "-m", "tests.weekly.audit_processes"]
    with subprocess.Popen(
        command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # It says so when it has everything.
        process.stdout.readline()
        yield AuditProcesses(process)
        process.stdin.close()


def serve() -> None:
    """Fork whenever a line asks for it."""
    import great_expectations  # noqa: F401, PLC0415 - what each of them would load

    import tests.weekly.audits  # noqa: F401, PLC0415 - the same
    from forensics.events.scan import load_scanner  # noqa: PLC0415 - the same

    load_scanner("[]")

    answers = os.fdopen(os.dup(1), "w")
    # What an audit prints must not be taken for an answer.
    os.dup2(2, 1)
    _answer(answers, 0)
    for line in sys.stdin:
        asked = json.loads(line)
        if "join" in asked:
            status = os.waitpid(asked["join"], 0)[1]
            _answer(answers, os.waitstatus_to_exitcode(status))
            continue
        if (pid := os.fork()) == 0:
            code = 70
            try:
                code = _work(**asked)
            finally:
                os._exit(code)
        _answer(answers, pid)


def _answer(answers: IO[str], number: int) -> None:
    answers.write(f"{number}\n")
    answers.flush()


def _work(store: str, given: list[str], dies_at: int | None = None, **wishes: Any) -> int:
    from tests.weekly.audits import Audits, ignore_message  # noqa: PLC0415

    if dies_at is not None:
        _die_at(dies_at)
    audits = Audits(Path(store), say=ignore_message)
    return int(audits.run(*map(Path, given), **wishes)["exit_code"])


def _die_at(step: int) -> None:
    from forensics.weekly.atomic_commit import StoreFiles  # noqa: PLC0415 - only the fork needs it

    count = 0

    def counted(do: Callable[..., object]) -> Callable[..., object]:
        def done(path: Path, *more: object, **named: object) -> object:
            nonlocal count
            count += 1
            if count > step:
                os.kill(os.getpid(), signal.SIGKILL)
            return do(path, *more, **named)

        return done

    follow = StoreFiles._replay_journal

    def watched(shelf: StoreFiles) -> None:
        Path.replace = counted(Path.replace)  # type: ignore[method-assign,assignment]
        Path.unlink = counted(Path.unlink)  # type: ignore[method-assign,assignment]
        follow(shelf)

    StoreFiles._replay_journal = watched  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    serve()
