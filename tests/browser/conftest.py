"""One browser for all tests, a fresh tab for each, and a loud word where there is no browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forensics.report import draw
from tests.browser import outputs
from tests.browser.chromium import Chromium, Tab, executable

NONE = "no Chromium: browser tests not run"
HINT = "install chromium or Chrome, or name one by $CHROMIUM"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """The browser."""
    program = executable()
    if program is None:
        pytest.skip(NONE)
    with Chromium(program) as browser:
        yield browser


@pytest.fixture
def tab(chromium: Chromium) -> Iterator[Tab]:
    """An empty tab, as wide as a small notebook."""
    with chromium.tab() as tab:
        tab.size(1280)
        yield tab


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of an unclean election."""
    return draw(outputs.unclean(tmp_path_factory.mktemp("unclean")))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say it where nobody overlooks it: a skip is one letter among thousands."""
    if executable() is None:
        terminalreporter.section(f"{NONE}; {HINT}", "!", red=True, bold=True)
