"""What single figures say and show."""

from __future__ import annotations

import base64
import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from forensics.detection.thresholds import load_limits
from forensics.report import plotly_sheet, theme
from forensics.report.figures import (
    broker_absences,
    client_episodes,
    clock_offsets,
    controller_terms,
    log_coverage,
)
from forensics.report.page import draw_report
from forensics.report.partition_ranking import read_unavailable_times
from forensics.report.plotly_sheet import TimelineData
from forensics.run_output.broker_lifecycles import read_lifecycles
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import SavedFinding, load_run
from tests.report.sample_runs import (
    END,
    START,
    Row,
    at,
    clocks,
    document,
    finding,
    iso,
    lanes,
    save,
)

MINUTE = 60_000
# Figures whose tables their sections show anyway.
BESIDE = ("figure-coverage", "figure-isr", "figure-returns", "figure-courses")


def life(*spans: tuple[str, int, int | None], broker: int = 1) -> list[Row]:
    """Make the life of a broker from (state, start, end)."""
    return [
        {"node": f"broker-{broker}", "role": "broker", "broker": broker, "state": state,
         "started_at": at(start), "ended_at": at(end)}
        for state, start, end in spans
    ]  # fmt: skip


def test_an_absence_ends_when_the_broker_is_up_again(unclean: Path) -> None:
    """Starting belongs to being away; an ordered shutdown is a ring; unknown is no absence."""
    crash = life(("up", 0, 1000), ("crashed", 1000, 9000), ("starting", 9000, 12_000),
                 ("up", 12_000, None))  # fmt: skip
    asked = life(("up", 0, 5000), ("stopping", 5000, 6000), ("stopped", 6000, 8000),
                 ("recovering", 8000, 9000), ("up", 9000, None), broker=2)  # fmt: skip
    silent = life(("up", 0, 1000), ("up", 9000, None), broker=3)
    save(unclean, "lanes", crash + asked + silent)

    returns = broker_absences.find_returns(read_lifecycles(load_run(unclean)))

    assert [(broker.broker, one.left_at, one.back_at, one.kind) for broker, [one] in returns] == [
        (1, START + 1000, START + 12_000, "crash"),
        (2, START + 5000, START + 9000, "clean shutdown"),
    ]


def test_who_has_not_come_back_has_no_return(unclean: Path) -> None:
    save(unclean, "lanes", life(("up", 0, 1000), ("crashed", 1000, None)))

    run = load_run(unclean)

    assert broker_absences.render(run, read_lifecycles(run)) is None


def test_terms_of_controllers_that_overlap_are_counted(unclean: Path) -> None:
    office = {"role": "controller", "state": "active"}
    save(unclean, "lanes", [
        office | {"node": "c-1", "broker": 1, "started_at": at(0), "ended_at": at(30_000)},
        office | {"node": "c-2", "broker": 2, "started_at": at(20_000), "ended_at": None},
    ])  # fmt: skip
    drawn = controller_terms.render(load_run(unclean))

    assert drawn is not None
    assert "the active controller changed 1 time; 1 overlap of two" in drawn


def test_a_node_that_should_speak_and_does_not_is_named(unclean: Path) -> None:
    covered = {"node": "broker-1", "role": "broker", "log": "server", "state": "covered"}
    save(unclean, "coverage", [
        covered | {"started_at": at(0), "ended_at": at(30_000)},
        covered | {"log": None, "state": "rotated", "why": "older files are gone",
                   "started_at": at(30_000), "ended_at": at(90_000)},
    ])  # fmt: skip
    drawn = log_coverage.render(load_run(unclean))

    assert drawn is not None
    assert "1 node without logs at some time, longest broker-1 for 1 min" in drawn
    assert "(older files are gone)" in drawn


def test_a_hole_is_shaded_alike_on_every_figure_without_lanes(unclean: Path) -> None:
    save(unclean, "coverage", [
        {"node": "broker-1", "role": "broker", "log": "server", "state": "covered",
         "started_at": at(0), "ended_at": at(30_000)},
        {"node": "broker-1", "role": "broker", "state": "missing", "why": "no file",
         "started_at": at(30_000), "ended_at": at(90_000)},
    ])  # fmt: skip
    next_term = {"node": "controller-2", "role": "controller", "broker": 101, "state": "active"}
    save(unclean, "lanes", [*lanes(), next_term | {"started_at": at(9000), "ended_at": None}])
    html = draw_report(unclean).read_text("utf-8")
    figures = re.findall(r'data-figure="(figure-(?:leaders|isr|terms))">(.*?)</scr', html)

    assert len(figures) == 3
    band = '"x0":"2026-11-18 11:38:10","x1":"2026-11-18 11:39:10"'
    assert [name for name, block in figures if band not in block] == []


def test_the_share_of_episodes_that_are_over_reaches_all_and_shows_the_limits(
    unclean: Path,
) -> None:
    """The limits are those in force; where a pack of one's own may have others, there are none."""
    lasted = (0, 40, 40, 9000)
    told = [
        finding(f"F-{at}", "stale-metadata", "info", clients=["app"],
                measures={"verdict": "transient"}, **{"from": iso(1000), "to": iso(1000 + ms)})
        for at, ms in enumerate(lasted)
    ]  # fmt: skip
    write_findings(document(told), unclean / "findings.json")
    known = load_limits()["stale-metadata"]
    drawn = json.loads(re.findall(r'data-figure="figure-episodes">(.*?)</script>',
                                  str(client_episodes.render(load_run(unclean))))[0])  # fmt: skip
    beside = [trace for trace in drawn["data"] if trace.get("xaxis") == "x2"]
    curve, *lines = beside

    steps = list(zip(curve["x"], curve["y"], strict=True))
    assert (40, 75.0) in steps
    assert (9000, 100.0) in steps
    assert steps[-1][1] == 100
    assert curve["y"] == sorted(curve["y"])
    assert drawn["layout"]["xaxis2"]["type"] == "log"
    assert [line["x"][0] for line in lines] == [known["settled"] * 1000, known["long"] * 1000]

    write_findings(
        document(told) | {"packs": [{"name": "a"}, {"name": "b"}]}, unclean / "findings.json"
    )
    assert client_episodes.read_limits(load_run(unclean)) == {}


def test_a_clock_that_was_set_or_drifts_has_a_line_of_its_course(unclean: Path) -> None:
    """A step goes straight up on the reference clock; a steady clock has no line."""
    stretch = {"since": None, "at": at(0), "offset_ms": 0.0, "drift_ppm": 0.0}
    after = {"since": at(80_000), "at": at(80_000), "offset_ms": 20_000.0, "drift_ppm": 0.0}
    stepped = clocks()[1] | {
        "kind": "step", "offset_ms": 20_000, "steps": [{"at": at(60_000), "ms": 20_000}],
        "stretches": [stretch, after], "drift_ppm": 0.0,
    }  # fmt: skip
    drifting = clocks()[2] | {"steps": [], "drift_ppm": 200.0, "offset_ms": 30,
                              "stretches": [stretch | {"drift_ppm": 200.0}]}  # fmt: skip
    save(unclean, "clocks", [clocks()[0], stepped, drifting])
    run = load_run(unclean)
    rows = run.rows("clocks", run.tables.column_names("clocks"))
    drawn = clock_offsets.draw_courses(rows, (START, START + 150_000))

    assert drawn is not None
    assert [row["node"] for row in clock_offsets.find_moved_clocks(rows)] == [
        "broker-2",
        "broker-3",
    ]
    step, drift = drawn["data"]
    assert step["y"] == [0, 0, 20_000, 20_000]
    assert step["x"][1] == step["x"][2] == "2026-11-18 11:38:40"
    assert drift["y"] == [0, 30]
    assert clock_offsets.draw_courses(rows[:1], run.window) is None


def test_a_single_term_has_no_figure_and_each_table_stands_once(unclean: Path) -> None:
    one = draw_report(unclean).read_text("utf-8")
    next_term = {"node": "controller-2", "role": "controller", "broker": 101, "state": "active"}
    save(unclean, "lanes", [*lanes(), next_term | {"started_at": at(9000), "ended_at": None}])
    two = draw_report(unclean).read_text("utf-8")

    assert "figure-terms" not in one
    assert 'id="figure-terms"' in two
    for html in (one, two):
        assert html.count("<caption>Terms of") == 1
        assert html.count("Returns of brokers") == 0
        assert html.count("<caption>Absences of broker 2") == 1


def test_every_figure_says_what_it_shows_and_has_a_table(unclean: Path) -> None:
    """A sentence that is not empty, and the data for who sees no figure."""
    html = draw_report(unclean).read_text("utf-8")
    figures = re.findall(r"<figure .*?</figure>", html, re.DOTALL)

    assert len(figures) >= 5
    for figure in figures:
        says = re.search(r"<figcaption[^>]*>(.*?)</figcaption>", figure, re.DOTALL)
        name = re.search(r'class="plot" id="([^"]+)"', figure)
        assert says, name
        assert len(says[1]) > 20, name
        # Those of the others stand beside them.
        assert "<table" in figure or (name and name[1] in BESIDE)


def test_the_timeline_is_there_without_a_script(unclean: Path) -> None:
    """Flags, lives, leaders: as plain SVG, with the numbers of the findings."""
    html = draw_report(unclean).read_text("utf-8")
    svg = re.search(r'<svg class="still".*?</svg>', html, re.DOTALL)

    assert svg
    for words in ("Findings, numbered as below", "broker 2", "crashed", "metrics-firehose-0"):
        assert words in svg[0]
    assert svg[0].count("<circle") == 5
    assert "NaN" not in svg[0]


def test_with_shared_assets_the_library_lies_beside_the_page(unclean: Path) -> None:
    page = draw_report(unclean, shared=True)
    html = unescape(page.read_text("utf-8"))
    beside = [one.name for one in unclean.glob("plotly.*.js")]

    assert len(beside) == 1
    assert f'data-file="{beside[0]}"' in html
    assert page.stat().st_size < 600_000
    assert "script-src 'sha256-" in html
    assert re.search(r"script-src [^;]*'self'", html)
    # The page that holds everything does not let any file run.
    assert not re.search(
        r"script-src [^;]*'self'", unescape(draw_report(unclean).read_text("utf-8"))
    )


@pytest.mark.parametrize("numbers", [[1, 8, 15, 22], list(range(0, 80, 10)), [1001, 1008]])
def test_a_few_brokers_never_share_a_colour(numbers: list[int]) -> None:
    """Even where their ids fall on the same one; who had it first keeps it."""
    given = theme.assign_colours(numbers)

    assert len(set(given.values())) == len(numbers)
    assert given[numbers[0]] == theme.OKABE_ITO[numbers[0] % 7]


def test_a_broker_without_any_log_stands_first_and_red(unclean: Path) -> None:
    """In the section on coverage: what is missing, and what that hides, before what is there."""
    covered = {"node": "broker-1", "role": "broker", "log": "server", "state": "covered"}
    save(unclean, "coverage", [
        covered | {"started_at": at(0), "ended_at": at(90_000)},
        {"node": "broker-3", "role": "broker", "state": "missing", "why": "no file",
         "started_at": at(0), "ended_at": at(90_000)},
    ])  # fmt: skip
    html = draw_report(unclean).read_text("utf-8")
    section = html[html.index('<section id="coverage"') : html.index('<section id="unseen"')]
    first = re.search(r"</summary>\s*<p (.*?)</p>", section, re.DOTALL)
    drawn = json.loads(re.findall(r'data-figure="figure-coverage">(.*?)</script>', section)[0])

    assert first
    assert "level-critical" in first[1]
    assert "No logs of broker 3" in first[1]
    assert drawn["layout"]["yaxis"]["categoryarray"][-1] == "broker-3 (no logs)"
    assert "no log of a broker or controller that others name" in section


def test_names_of_flags_do_not_stand_on_each_other() -> None:
    """Two short findings close together: their names are longer than they."""
    found = [
        SavedFinding(name, "undelivered-records", "medium", "confirmed", "x", at_, at_ + 100)
        for name, at_ in (("F-1", START + 50_000), ("F-2", START + 60_000))
    ]
    data = TimelineData((START, START + END), found, (), (), {})

    assert plotly_sheet.flag_rows(data) == [0, 1]


def test_cells_are_hovered_in_words_and_never_in_codes(unclean: Path) -> None:
    """Every code that a cell holds has words, and no template shows the code itself."""
    html = draw_report(unclean).read_text("utf-8")
    maps = [
        trace
        for block in re.findall(r'data-figure="[^"]+">(.*?)</script>', html)
        for trace in json.loads(block)["data"]
        if trace["type"] == "heatmap"
    ]

    assert len(maps) >= 2
    for trace in maps:
        codes = np.frombuffer(base64.b64decode(trace["z"]["bdata"]), trace["z"]["dtype"])
        assert {str(code) for code in codes.tolist()} <= set(trace["meta"]["words"])
        assert "%{z}" not in trace["hovertemplate"]


def test_planned_outages_are_in_no_column_of_partitions(unclean: Path) -> None:
    """As the shutdown at the end of the logs, after which nobody leads anything."""
    row = {"topic": "metrics-firehose", "partition": 0, "reason": "no leader"}
    save(unclean, "outages", [
        row | {"started_at": at(40_000), "ended_at": at(52_000), "planned": False},
        row | {"started_at": at(100_000), "ended_at": None, "planned": True},
    ])  # fmt: skip

    assert read_unavailable_times(load_run(unclean)) == {("metrics-firehose", 0): 12_000}
    assert re.search(
        r'metrics-firehose-0</a></th><td class="number">845</td><td class="number">1</td>'
        r'<td class="number">12 s</td>',
        draw_report(unclean).read_text("utf-8"),
    )


def test_what_shades_the_timeline_is_in_its_legend(unclean: Path) -> None:
    html = draw_report(unclean).read_text("utf-8")
    timeline = html[html.index('<section id="timeline"') : html.index('<section id="happened"')]

    assert "</span>incident</li>" in timeline
