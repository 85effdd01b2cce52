"""The master timeline: a strip of the whole time under its last row, and cells that lead on."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.report.page import draw_report
from tests.browser import outputs
from tests.browser.chromium import Tab
from tests.browser.walking import read_through
from tests.report.sample_runs import leadership, reign, save

pytestmark = pytest.mark.browser

BOX = "document.getElementById('figure-timeline')"


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with a partition that one broker led for 40 ms."""
    out = outputs.unclean(tmp_path_factory.mktemp("brief"))
    spans = [(0, 1, 0, 60_000), (1, 2, 60_000, 60_040), (2, 1, 60_040, None)]
    save(out, "leadership", [*leadership(), *reign("brief", 0, *spans)])
    return draw_report(out)


def click(tab: Tab, x: float, y: float) -> None:
    """Press and release where a mouse would, having come from somewhere."""
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x - 3, y=y)
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    tab.wait(f"{BOX}._hoverdata?.some((one) => one.data.type === 'heatmap')")
    for kind in ("mousePressed", "mouseReleased"):
        tab.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


def test_the_strip_is_under_the_last_row_and_moves_all_rows(tab: Tab, page: Path) -> None:
    """It shows the volume of the logs alone, over all of them; on paper it is not there."""
    tab.open(page)
    read_through(tab)

    assert tab.run("document.querySelectorAll('.rangeslider-container').length") == 1
    edges = f"""(() => {{
      const layout = {BOX}._fullLayout, names = Object.keys(layout);
      const rows = names.filter((name) => /^yaxis/.test(name)).map((name) => layout[name]);
      const top = {BOX}.getBoundingClientRect().top;
      return [top + Math.max(...rows.map((row) => row._offset + row._length)),
        {BOX}.querySelector(".rangeslider-bg").getBoundingClientRect().top];
    }})()"""
    rows, strip = tab.run(edges)
    assert rows <= strip
    assert tab.run(f"{BOX}.querySelectorAll('.rangeslider-rangeplot').length") == 1

    tab.run("location.hash = 't/2026-11-18T11:38:40Z..11:38:50Z'")
    tab.wait(f"{BOX}.layout.xaxis2.range[0] === '2026-11-18 11:38:40.000'", patience=10)
    assert tab.run(f"{BOX}.layout.xaxis.range") == tab.run(f"{BOX}.layout.xaxis2.range")

    tab.run("document.documentElement.classList.add('print-all')")
    tab.run("dispatchEvent(new Event('beforeprint'))")
    tab.wait(f"!{BOX}.querySelector('.rangeslider-container')")
    tab.run("dispatchEvent(new Event('afterprint'))")
    tab.wait(f"!!{BOX}.querySelector('.rangeslider-container')")


def test_a_leader_of_forty_milliseconds_is_seen_and_leads_to_its_exact_bar(
    tab: Tab, brief: Path
) -> None:
    """Its cell says "several"; a click on it opens the swimlanes at the time of the cell."""
    tab.prefer(prefers_reduced_motion="reduce")
    tab.open(brief)
    read_through(tab)
    tab.run(f"{BOX}.scrollIntoView({{behavior: 'instant'}})")
    where = tab.run(f"""(() => {{
      const box = {BOX}, map = box.calcdata.find(([one]) => one.trace.type === "heatmap")[0];
      const x = box._fullLayout.xaxis;
      const y = box._fullLayout[map.trace.yaxis.replace("y", "yaxis")];
      const column = [...map.z[y.d2c("brief-0")]].findIndex((code) => code === -3);
      const at = (side) => x._offset + x.d2p(map.trace.x[column + side]);
      const frame = box.getBoundingClientRect();
      return {{ column, x: frame.left + (at(0) + at(1)) / 2, wide: at(1) - at(0),
        y: frame.top + y._offset + y.d2p("brief-0") }};
    }})()""")
    assert where["column"] >= 0
    assert where["wide"] >= 1

    click(tab, where["x"], where["y"])

    tab.wait("location.hash.startsWith('#figure-leaders&t/2026-11-18T11:38:')", patience=10)
    lanes = "document.getElementById('figure-leaders')"
    tab.wait(f"{lanes}.layout.xaxis.range[0] > '2026-11-18 11:38:30'", patience=10)
    bars = tab.run(f"""{lanes}.data.filter((one) => one.name === "broker 2")
      .flatMap((one) => one.x.filter((ms, at) => one.y[at] === "brief-0"))""")
    assert bars == [40]
    assert not tab.run("document.getElementById('no-such-place')")
