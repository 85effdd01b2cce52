"""The examples in the docstrings are true."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# It imports pyspark, and its examples would need a session.
SPARK = "spark.py"
AT_LEAST = 15

# Only what holds an example is imported, so that no test pays for the heavy packages.
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "forensics").rglob("*.py"))
    if path.name != SPARK and ">>>" in path.read_text("utf-8")
]


def run(name: str) -> doctest.TestResults:
    return doctest.testmod(importlib.import_module(name))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_are_true(name: str) -> None:
    result = run(name)

    assert result.attempted > 0
    assert result.failed == 0


def test_there_are_examples_at_all() -> None:
    """A search that found nothing would find nothing wrong."""
    assert sum(run(name).attempted for name in MODULES) >= AT_LEAST
