"""The page as a whole: it draws, always the same, speaks to nobody, and lets nothing in."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from plotly.offline import get_plotlyjs_version

from forensics.lib.second_process import open_second_process
from forensics.lib.time_zone import find_zone, use_zone
from forensics.report import page, plotly_sheet
from forensics.report.page import draw_report
from forensics.report.time_window import narrow_run
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import load_run
from tests.report.sample_runs import document, finding, proof, save, unclean_findings

Rewrite = Callable[[Path, dict[str, Any]], None]
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\x1b[31mred\x1b[0m",
    "safe\u202egnp.exe",
    '"><b>bold</b>',
    "<a href='https://evil.example/'>x</a>",
    "%{customdata} ${1} {{7*7}}",
    "half \udc80 pair",
)
OURS = {
    "a", "article", "body", "caption", "code", "dd", "details", "div", "dl", "dt", "figcaption",
    "figure", "footer", "h1", "h2", "h3", "h4", "head", "header", "html", "input", "label", "li",
    "main", "mark", "meta", "nav", "noscript", "ol", "output", "p", "pre", "script", "section",
    "small",
    "b", "span", "strong", "style", "summary", "table", "tbody", "td", "th", "thead", "title", "tr",
    "ul",
    # of the figures that stand without a script
    "circle", "g", "path", "rect", "svg", "text",
}  # fmt: skip


class Reader(HTMLParser):
    """Collects the tags, attributes, ids, headings and text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def drawings(html: str) -> Iterator[dict[str, Any]]:
    """Give every figure of a page."""
    for block in re.findall(r'data-figure="[^"]+">(.*?)</script>', html):
        yield json.loads(block)


def own(html: str) -> str:
    """Leave out the packed library."""
    return re.sub(r'(id="plotly-js">)[^<]*', r"\1", html)


def test_the_page_of_an_unclean_election_answers_at_once(unclean: Path) -> None:
    """What, where, how long and how sure stand before all else, and in the title of the tab."""
    html = draw_report(unclean).read_text(encoding="utf-8")

    said = "2,535 to 3,400 records lost in metrics-firehose after an unclean leader election"
    when = "Wed 2026-11-18, 11:38:25 \u2013 11:39:29 UTC (1 min 4 s), over. "
    when += "Confidence in what happened: confirmed."
    assert f"<title>{said} \u00b7 2026-11-18 \u00b7 Kafka 4.3.0, 3 brokers</title>" in html
    assert html.index(when) < html.index("<table")


def test_the_head_names_what_was_read(unclean: Path) -> None:
    """Six pages side by side must not look alike."""
    page = draw_report(unclean).read_text(encoding="utf-8")
    period = "2026-11-18 11:37\u201311:40"
    assert f">Kafka postmortem of incident.tgz \u00b7 {period} \u00b7 Kafka 4.3.0" in page


def test_every_section_has_its_place_and_headings_step_down_by_one(unclean: Path) -> None:
    """A screen reader can walk the page: one h1, no level left out, every link has an end."""
    html = draw_report(unclean).read_text(encoding="utf-8")
    tags = Reader(own(html)).tags
    levels = [int(tag[1]) for tag, _ in tags if re.fullmatch(r"h\d", tag)]
    ids = [attrs["id"] for _, attrs in tags if "id" in attrs]
    ends = {str(attrs["href"])[1:] for tag, attrs in tags if tag == "a"}

    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert len(ids) == len(set(ids))
    assert ends <= set(ids)
    # Nothing was checked, so there is no section on the quality of the data.
    assert [name for name in ids if name in page.SECTIONS] == [
        name for name in page.SECTIONS if name != "quality"
    ]


def test_the_same_input_gives_the_same_bytes(unclean: Path, tmp_path: Path) -> None:
    """Neither the clock nor the place nor a second run changes the page."""
    first = draw_report(unclean).read_bytes()
    copy = tmp_path / "elsewhere"
    shutil.copytree(unclean, copy)

    assert draw_report(unclean).read_bytes() == first
    assert draw_report(copy).read_bytes() == first


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("has_window", [False, True])
def test_two_processes_draw_the_same_bytes(
    unclean: Path, monkeypatch: pytest.MonkeyPatch, *, has_window: bool, is_lost: bool
) -> None:
    """Each draws a part of the sections, in the zone of the page, or the first one draws all."""
    monkeypatch.setattr(page, "_MANY_EVENTS", 0)
    run = load_run(unclean)
    assert run.window is not None
    run = narrow_run(run, (run.window[0], run.window[1] - 1)) if has_window else run
    zone, load = find_zone("Asia/Kolkata", run.window), partial(replace, run)
    pages = [unclean / name for name in ("one.html", "two.html")]
    with open_second_process() as second, use_zone(zone):
        page.render_report(load, pages[0])
        if is_lost and second.pid:
            second.start(os._exit, 1)
        page.render_report(load, pages[1], second=second)

    assert pages[0].read_bytes() == pages[1].read_bytes()
    assert b"+05:30" in pages[1].read_bytes()


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_stays_text(unclean: Path, hostile: str) -> None:
    """No tag, attribute, link or hidden character of a log becomes one of the page."""
    found = [
        finding(
            hostile, "unclean-election", "critical", title=hostile, clients=[hostile],
            partitions=[hostile], explanation=hostile, actions=[hostile], confidence=hostile,
            evidence=[proof(1, 1, hostile) | {"file": hostile}],
            measures={hostile: hostile, "partitions": [{"partition": hostile, "lost_from": 1}]},
        ),
        finding("F-2", hostile, hostile, measures={"verdict": hostile}),
        finding("F-3", "stale-metadata", "low", clients=[hostile],
                measures={"verdict": hostile, "cause": hostile}),
    ]  # fmt: skip
    text = hostile.encode("utf-8", "replace").decode()
    lane = {"node": text, "role": "broker", "state": text}
    write_findings(document(found), unclean / "findings.json")
    save(unclean, "lanes", [lane])
    save(unclean, "files", [{"file": text, "node": text, "layout": text, "damaged": text}])
    save(unclean, "leadership", [{"topic": text, "partition": 0, "leader": 1, "election": text}])

    html = own(draw_report(unclean).read_text(encoding="utf-8"))
    tags = Reader(html).tags

    assert {tag for tag, _ in tags} <= OURS
    assert not [name for _, attrs in tags for name in attrs if name.startswith("on")]
    assert all(str(attrs["href"]).startswith("#") for tag, attrs in tags if tag == "a")
    # The figures' data, two blocks more, the library, and our own.
    blocks = html.count('data-figure="') + 3 + len(page.SCRIPTS)
    assert html.count("<script") == html.count("</script>") == blocks
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", html)
    for drawing in drawings(html):
        words = json.dumps(drawing["data"]) + json.dumps(drawing["layout"])
        assert not re.search(r"<(?!br>|extra>|/extra>)", words)
        assert not re.search(r"hovertemplate[^,]*evil", words)


def test_the_page_asks_nobody_for_anything(unclean: Path) -> None:
    """No address stands where a browser would load it, and the policy forbids the rest."""
    html = draw_report(unclean).read_text(encoding="utf-8")
    tags = Reader(own(html)).tags
    policy = next(attrs["content"] for _, attrs in tags if "http-equiv" in attrs)

    assert not [attrs for tag, attrs in tags if tag in {"link", "img", "iframe", "base"}]
    assert not [attrs for _, attrs in tags if "src" in attrs]
    assert not re.search(r"url\(|@import|https?://", own(html))
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert "connect-src" not in policy


def test_the_policy_names_the_very_scripts_that_run(unclean: Path) -> None:
    """Each script's hash is in the policy, the packed library's after unpacking."""
    html = draw_report(unclean).read_text(encoding="utf-8")
    packed = re.search(r'id="plotly-js">([^<]+)<', html)
    plain = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert packed

    sources = [gzip.decompress(base64.b64decode(packed[1])), *(text.encode() for text in plain)]
    hashes = [base64.b64encode(hashlib.sha256(source).digest()).decode() for source in sources]

    assert len(hashes) == 1 + len(page.SCRIPTS)
    policy = next(str(attrs["content"]) for _, attrs in Reader(own(html)).tags if len(attrs) == 2)
    assert all(f"'sha256-{digest}'" in policy for digest in hashes)


def test_figures_use_three_traces_and_no_cloud(unclean: Path) -> None:
    """Only scatter, bar and heatmap; nothing to share; UTC on every time axis."""
    drawn = list(drawings(draw_report(unclean).read_text(encoding="utf-8")))

    assert len(drawn) >= 3
    assert {trace["type"] for one in drawn for trace in one["data"]} <= {
        "scatter",
        "bar",
        "heatmap",
    }
    for one in drawn:
        assert one["config"] == plotly_sheet.CONFIG
        times = [axis for axis in one["layout"].values() if _of_time(axis) and "title" in axis]
        assert [axis["title"]["text"] for axis in times] in ([], ["time, UTC (2026-11-18)"])
    assert plotly_sheet.CONFIG["plotlyServerURL"] == ""
    assert plotly_sheet.CONFIG["showSendToCloud"] is False
    assert plotly_sheet.CONFIG["displaylogo"] is False


def _of_time(axis: object) -> bool:
    return isinstance(axis, dict) and axis.get("type") == "date"


def test_the_library_is_the_one_that_plotly_for_python_is_made_for() -> None:
    """Whoever takes a newer Plotly takes its bundle too: npm, plotly.js-cartesian-dist-min."""
    library = (files("forensics.report") / "assets" / page.LIBRARY).read_bytes()
    licence = files("forensics.report") / "assets" / "plotly-cartesian.LICENSE"

    assert library.startswith(
        f"/**\n* plotly.js (cartesian - minified) v{get_plotlyjs_version()}\n".encode()
    )
    assert hashlib.sha256(library).hexdigest() == (
        "79542150855a52c567260e3137095dbe2b744e6d702a5cabe67da246942fba7a"
    )
    assert licence.read_text("utf-8").startswith("MIT License")


def test_the_page_of_a_recording_is_small(unclean: Path) -> None:
    """The packed library takes 0.66 MB of it; what logs may fill has bounds of its own."""
    assert draw_report(unclean).stat().st_size < 1_100_000


def test_findings_json_stands_in_the_page(unclean: Path) -> None:
    """A machine that has the page alone has everything that it says."""
    html = draw_report(unclean).read_text(encoding="utf-8")
    block = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', html)
    assert block

    assert json.loads(block[1]) == json.loads((unclean / "findings.json").read_text("utf-8"))


def test_without_any_table_the_page_is_still_drawn(tmp_path: Path) -> None:
    """Findings alone make a page; what is missing is said."""
    write_findings(document(unclean_findings()), tmp_path / "findings.json")

    html = draw_report(tmp_path).read_text(encoding="utf-8")

    assert "Tables that were not saved: events, leadership, isr, lanes, clocks, files." in html
    assert "No leader epoch of any partition was read." in html


def test_empty_tables_and_an_empty_document_are_drawn(quiet: Path, rewrite: Rewrite) -> None:
    """No rows, no window, no archive: a page all the same."""
    for name in ("leadership", "files"):
        save(quiet, name, [])
    rewrite(quiet, {"window": None, "archive": None})

    assert "No finding." in draw_report(quiet).read_text(encoding="utf-8")


def test_a_folder_without_any_file_counts_as_an_empty_table(quiet: Path) -> None:
    """Spark leaves such a folder when a job writes no rows."""
    shutil.rmtree(quiet / "tables" / "lanes")
    (quiet / "tables" / "lanes").mkdir()

    assert draw_report(quiet).exists()


def test_damage_and_silence_are_said_aloud(unclean: Path) -> None:
    """A cut file is named in the coverage and among what could not be seen."""
    html = draw_report(unclean).read_text(encoding="utf-8")

    assert html.count("gzip ends early, after 812 lines") >= 2
    assert "No logs from controller-1 between" in html
    assert "1 file without a node" in html
    assert "Every row adds up." in html


def test_a_client_that_its_file_alone_names_is_called_by_its_folder(unclean: Path) -> None:
    """Quoted lines name the file; nothing else does."""
    name = "file:logs.tar.gz!logs/app-images/client.log"
    refused = finding("F-1", "record-too-large", "medium", clients=[name],
                      title=f"{name}: 9 records were too large", explanation=f"{name} goes on.",
                      actions=[f"Let '{name}' make its records smaller."])  # fmt: skip
    write_findings(document([refused]), unclean / "findings.json")
    html = draw_report(unclean).read_text(encoding="utf-8")

    assert "app-images: 9 records were too large" in html
    assert "Let app-images make its records smaller." in html
    assert "file:logs" not in own(html).partition('id="report-data"')[0]
