"""A row of the table of partitions opens its history, whichever way one comes to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.report.page import draw_report
from tests.browser.chromium import Tab
from tests.browser.outputs import unclean
from tests.report.large_run import large
from tests.report.sample_runs import leadership, save

pytestmark = pytest.mark.browser

HISTORY = """[...document.querySelectorAll(".history tbody tr")]
  .map((row) => [...row.cells].map((cell) => cell.innerText))"""
ROW = "document.querySelector('#partitions-table tbody th a')"


def test_a_row_opens_and_closes(tab: Tab, page: Path) -> None:
    """The history is that of the tables, to the millisecond."""
    tab.open(page)
    tab.run(f"{ROW}.click()")
    tab.wait("document.querySelectorAll('.history').length === 1", patience=10)

    assert tab.run(HISTORY) == [
        ["11:37:40.000", "1", "0", "1, 2"],
        ["11:38:35.403", "1", "0", "1"],
        ["11:38:48.922", "none", "1", "none"],
        ["11:38:51.318", "2 (unclean)", "2", "2"],
        ["11:39:29.666", "2 (unclean)", "2", "1, 2"],
        ["11:39:46.936", "1", "3", "1, 2"],
    ]
    tab.run(f"{ROW}.click()")
    tab.wait("!document.querySelector('.history')", patience=10)


def test_a_link_to_a_partition_that_is_not_in_the_table_brings_it_there(
    tab: Tab, tmp_path: Path
) -> None:
    page = draw_report(large(tmp_path, partitions=2000, findings=5))
    tab.open(page)
    last = tab.run("(({topic, number}) => `${topic}/${number}`)(partitions.all().at(-1))")
    assert not tab.run(f"!!document.getElementById('p/{last}')")

    tab.run(f"location.hash = '#p/{last}'")

    tab.wait(f"document.getElementById('p/{last}')?.nextElementSibling.className === 'history'")
    assert len(tab.run(HISTORY)) > 1


def test_names_of_topics_are_text_whatever_is_in_them(tab: Tab, tmp_path: Path) -> None:
    """In rows that came with the page, in those of the search, and in addresses."""
    name = "<b>x</b>'\"(y)! \u202egnp & 1/2"
    out = unclean(tmp_path)
    mine = [row for row in leadership() if row["topic"] == "metrics-firehose"]
    save(out, "leadership", [row | {"topic": name} for row in mine])
    tab.open(draw_report(out))
    tab.run("filter.set('gnp')")

    said = tab.run(f"{ROW}.innerText")
    assert "<b>x</b>'\"(y)! ⟨U+202E⟩gnp & 1/2-" in said
    assert not tab.run("!!document.querySelector('#partitions-table b')")
    tab.run(f"{ROW}.click()")
    tab.wait("!!document.querySelector('.history')", patience=10)
    assert not tab.run("!!document.getElementById('no-such-place')")


def test_the_script_draws_the_very_rows_that_the_page_came_with(tab: Tab, page: Path) -> None:
    """Two programs write this table; they must not differ."""
    tab.open(page)
    rows = "document.querySelector('#partitions-table tbody').innerText"
    ids = "[...document.querySelectorAll('#partitions-table tbody tr')].map((one) => one.id)"
    before = tab.run(rows), tab.run(ids)
    tab.run("partitions.show(null)")

    assert (tab.run(rows), tab.run(ids)) == before
