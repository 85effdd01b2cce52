"""One Chromium and one Firefox for all tests, and a loud word where one of them is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forensics.report.page import draw_report
from tests.browser import chromium as of_chromium
from tests.browser import firefox as of_firefox
from tests.browser import outputs
from tests.browser.chromium import Chromium, Tab
from tests.browser.firefox import Firefox
from tests.browser.walking import Reader

NONE = {
    "no Chromium: browser tests not run": (
        of_chromium.executable, "install chromium or Chrome, or name one by $CHROMIUM"
    ),
    "no Firefox: tests of the page in Firefox not run": (
        of_firefox.executable, "install firefox-esr or Firefox, or name one by $FIREFOX"
    ),
}  # fmt: skip


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """The browser."""
    program = of_chromium.executable()
    if program is None:
        pytest.skip(next(iter(NONE)))
    with Chromium(program) as browser:
        yield browser


@pytest.fixture(scope="session")
def firefox() -> Iterator[Firefox]:
    """The other browser."""
    program = of_firefox.executable()
    if program is None:
        pytest.skip(list(NONE)[-1])
    with Firefox(program) as browser:
        yield browser


@pytest.fixture
def tab(chromium: Chromium) -> Iterator[Tab]:
    """An empty tab, as wide as a small notebook."""
    with chromium.tab() as tab:
        tab.size(1280)
        yield tab


@pytest.fixture(params=["Chromium", "Firefox"])
def reader(request: pytest.FixtureRequest) -> Reader:
    """Each of the browsers in turn."""
    found: Reader = request.getfixturevalue("tab" if request.param == "Chromium" else "firefox")
    return found


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of an unclean election."""
    return draw_report(outputs.unclean(tmp_path_factory.mktemp("unclean")))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say it where nobody overlooks it: a skip is one letter among thousands."""
    for says, (executable, hint) in NONE.items():
        if executable() is None:
            terminalreporter.section(f"{says}; {hint}", "!", red=True, bold=True)
