"""What holds for every test: the same run tries the same examples, and none is too slow."""

from __future__ import annotations

import gc
import os
import sys
import tarfile

import pytest
from hypothesis import settings

from forensics.events.log_reader import LogReader
from forensics.events.rules import Rule, load_rules
from forensics.events.scan import load_scanner
from forensics.parsing.layouts import Layout, load_layouts

settings.register_profile("same", derandomize=True, deadline=None)
settings.load_profile("same")

# PySpark takes a main module without a file for a doctest, and ends the process. The workers of
# pytest-xdist have such a one.
if "PYTEST_XDIST_WORKER" in os.environ:
    sys.modules["__main__"].__file__ = __file__

# What Python 3.14 does by itself; 3.11 knows these filters since 3.11.4 only.
if hasattr(tarfile, "data_filter"):
    tarfile.TarFile.extraction_filter = staticmethod(tarfile.data_filter)


# So many tests save more than the half second that compiling patterns takes.
_MANY_TESTS = 300


def pytest_collection_finish(session: pytest.Session) -> None:
    """Prepare what many tests share, as a run that reads much does.

    The collector of garbage need not look at modules and tests again and again. The reader of the
    shipped rules searches for all patterns at once; tests/events/test_log_reader.py holds that the
    events are those of searching one by one, as a run that reads little does.
    """
    if len(session.items) >= _MANY_TESTS:
        reader = load_scanner().reader
        reader.search_at_once(reader.compile_patterns())
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def layouts() -> tuple[Layout, ...]:
    """Return the shipped layouts, read once."""
    return load_layouts()


@pytest.fixture(scope="session")
def rules() -> tuple[Rule, ...]:
    """Return the shipped rules, read once."""
    return load_rules()


@pytest.fixture(scope="session")
def book(layouts: tuple[Layout, ...], rules: tuple[Rule, ...]) -> LogReader:
    """Return a reader of logs by the shipped layouts and rules."""
    return LogReader(layouts, rules)
