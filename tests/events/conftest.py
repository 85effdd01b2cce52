"""The shipped layouts and rules, read once for all tests of events."""

from __future__ import annotations

import pytest

from forensics.events.log_reader import LogReader
from forensics.events.rules import Rule, load_rules
from forensics.parsing.layouts import Layout, load_layouts


@pytest.fixture(scope="session")
def layouts() -> tuple[Layout, ...]:
    return load_layouts()


@pytest.fixture(scope="session")
def rules() -> tuple[Rule, ...]:
    return load_rules()


@pytest.fixture(scope="session")
def book(layouts: tuple[Layout, ...], rules: tuple[Rule, ...]) -> LogReader:
    return LogReader(layouts, rules)
