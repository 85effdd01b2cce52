"""Of what Spark throws, the sentence that helps is told."""

from __future__ import annotations

import pytest

from forensics.engine.spark import root_cause

ABORTED = "Job aborted due to stage failure: Task 3 in stage 1.0 failed 4 times\n"
FRAMES = "\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handle(x.scala:9)\n"
TRACE = 'Traceback (most recent call last):\n  File "worker.py", line 1, in main\n    process()\n'


CHAINED = "\n\nThe above exception was the direct cause of the following exception:\n\n"
TWICE = f"{TRACE}OSError: a{CHAINED}{TRACE}forensics.errors.ArchiveError: it is gone.\n{FRAMES}"
NO_PROGRAM = 'Cannot run program "./environment/bin/python"'
JAVA = (
    f"Failed\n{FRAMES}Caused by: org.apache.spark.SparkException: Job failed\n{FRAMES}"
    f"Caused by: java.io.IOException: {NO_PROGRAM}\n{FRAMES}"
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{ABORTED}{TRACE}KeyError: 'isr'\n\n{FRAMES}", "KeyError: 'isr'"),
        (ABORTED + TWICE, "it is gone."),
        (JAVA, f"IOException: {NO_PROGRAM}"),
        (f"\n  [PATH_NOT_FOUND] Path: a\n{FRAMES}", "[PATH_NOT_FOUND] Path: a"),
        ("", "no reason given"),
    ],
)
def test_the_innermost_reason_is_told(text: str, told: str) -> None:
    assert told == root_cause(text)


def test_what_was_not_sent_to_executors_is_said_to_be_sent() -> None:
    told = root_cause(f"{ABORTED}{TRACE}ModuleNotFoundError: No module named 'numpy'\n{FRAMES}")

    assert told.startswith("ModuleNotFoundError: No module named 'numpy'; the Python of executors")
    assert "docs/running/clusters.md" in told
