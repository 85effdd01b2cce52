"""Starts audits in processes of their own, at once: forks of one that has everything imported."""

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

ROOT = Path(__file__).parents[2]


class AuditProcesses:
    """A process that forks audits, and reports how they ended."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def start(self, store: Path, *archives: Path, **options: object) -> int:
        """Start an audit and return its process id.

        With `dies_at` it kills itself after so many files of its commit.
        """
        return self._send({"store": str(store), "archives": list(map(str, archives)), **options})

    def join(self, pid: int) -> int:
        """Wait for the end of one: return its exit code, or the number of a signal with a minus."""
        return self._send({"join": pid})

    def _send(self, request: dict[str, Any]) -> int:
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        requests.write(json.dumps(request) + "\n")
        requests.flush()
        return int(answers.readline())


@contextmanager
def start_audit_processes() -> Iterator[AuditProcesses]:
    """Start the process that forks audits, and end it."""
    command = [sys.executable, "-m", "tests.weekly.audit_processes"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # It writes a line when it has imported everything.
        process.stdout.readline()
        yield AuditProcesses(process)
        process.stdin.close()


def serve() -> None:
    """Fork an audit for each request on standard input."""
    import great_expectations  # noqa: F401, PLC0415 - what each of them would load

    import tests.weekly.audits  # noqa: F401, PLC0415 - the same
    from forensics.events.scan import load_scanner  # noqa: PLC0415 - the same

    load_scanner("[]")

    answers = os.fdopen(os.dup(1), "w")
    # What an audit prints must not be taken for an answer.
    os.dup2(2, 1)
    _answer(answers, 0)
    for line in sys.stdin:
        request = json.loads(line)
        if "join" in request:
            status = os.waitpid(request["join"], 0)[1]
            _answer(answers, os.waitstatus_to_exitcode(status))
            continue
        if (pid := os.fork()) == 0:
            code = 70
            try:
                code = _audit(**request)
            finally:
                os._exit(code)
        _answer(answers, pid)


def _answer(answers: IO[str], number: int) -> None:
    answers.write(f"{number}\n")
    answers.flush()


def _audit(store: str, archives: list[str], dies_at: int | None = None, **options: Any) -> int:
    from tests.weekly.audits import Audits, ignore_message  # noqa: PLC0415

    if dies_at is not None:
        _die_in_commit(dies_at)
    audits = Audits(Path(store), say=ignore_message)
    return int(audits.run(*map(Path, archives), **options)["exit_code"])


def _die_in_commit(files: int) -> None:
    """Kill this process when its commit moves or deletes one file more than this."""
    from forensics.weekly.atomic_commit import StoreFiles  # noqa: PLC0415 - only the fork needs it

    count = 0

    def counted(method: Callable[..., object]) -> Callable[..., object]:
        def count_and_call(path: Path, *args: object, **kwargs: object) -> object:
            nonlocal count
            count += 1
            if count > files:
                os.kill(os.getpid(), signal.SIGKILL)
            return method(path, *args, **kwargs)

        return count_and_call

    replay_journal = StoreFiles._replay_journal

    def replay_and_die(store: StoreFiles) -> None:
        Path.replace = counted(Path.replace)  # type: ignore[method-assign,assignment]
        Path.unlink = counted(Path.unlink)  # type: ignore[method-assign,assignment]
        replay_journal(store)

    StoreFiles._replay_journal = replay_and_die  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    serve()
