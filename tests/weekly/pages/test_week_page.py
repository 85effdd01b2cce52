"""The weekly page says what comparing the weeks says, and shows what nobody knows as unknown."""

from __future__ import annotations

import html
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from forensics.report import theme
from forensics.weekly.notes import Note, Notes, load_notes
from forensics.weekly.pages import small_multiples
from forensics.weekly.week_metrics import BROKER_SIGNALS
from tests.weekly.sample_summaries import HOUR, make_finding, make_quarter, make_week
from tests.weekly.store_pages import draw_store, read_figure, section_text

LAST = "2026-W47"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return draw_store(tmp_path_factory.mktemp("store"), make_quarter())


def signal_line(page: Path, name: str, signal: str) -> dict[str, Any]:
    """Give the line of one broker and signal."""
    title = BROKER_SIGNALS[signal]
    for trace in read_figure(page, "figure-trend")["data"]:
        is_line = trace["type"] == "scatter" and "lines" in trace["mode"]
        if is_line and trace["customdata"][-1].startswith(f"{name}: {title}, "):
            return dict(trace)
    raise AssertionError(name)


def test_the_parts_stand_in_the_order_of_use(pages: dict[str, Path]) -> None:
    parts = re.findall(r'<section id="(\w+)"', pages[LAST].read_text("utf-8"))

    assert parts == ["verdict", "findings", "trend", "flapping", "nights", "hours", "changes",
                     "coverage", "days"]  # fmt: skip


def test_the_verdict_is_the_word_the_coverage_and_the_numbers(pages: dict[str, Path]) -> None:
    worse, unknown = (section_text(pages[name], "verdict") for name in ("2026-W42", LAST))

    assert "high New: flapping-broker of broker 2 worse than last week 1 high find" in worse
    assert "Logs cover 86 % 433.4 of 504 h" in worse
    assert "cannot be compared with last week" in unknown
    assert "logs cover only 399.8 of 504 h of this window, so trouble may be hidden" in unknown
    assert "399.8 of 504 h, those of 3 brokers and controllers together" in unknown


def test_the_first_words_are_the_worst_new_finding_and_what_to_do(tmp_path: Path) -> None:
    old = make_finding("flapping-broker", brokers=[2], action="Ask the host of broker 2.")
    new = make_finding("offline-partitions", "critical", brokers=[3], action="`kafka-topics x`")
    weeks = [make_week("2026-W46", [old]), make_week("2026-W47", [new, old])]
    notes = Notes({old["signature"]: Note("ana")})
    text = section_text(draw_store(tmp_path, weeks, notes)["2026-W47"], "verdict")

    assert text.startswith(" Verdict critical New: offline-partitions of broker 3 worse than last")
    assert "Open from earlier weeks flapping-broker of broker 2 (high; recurring, since" in text
    assert "owner ana" in text
    actions = text.partition("Do this week")[2]
    assert actions.index("kafka-topics x") < actions.index("Ask the host of broker 2.")


def test_a_week_in_which_nothing_is_new_says_so(tmp_path: Path) -> None:
    old = make_finding("flapping-broker", brokers=[2])
    weeks = [make_week("2026-W45"), make_week("2026-W46", [old]), make_week("2026-W47", [old])]
    pages = draw_store(tmp_path, weeks)

    assert "Nothing new. Still there: flapping-broker" in section_text(pages["2026-W47"], "verdict")
    assert "clear No incident; the logs cover" in section_text(pages["2026-W45"], "verdict")


def test_brokers_whose_logs_are_thin_are_named(tmp_path: Path) -> None:
    weeks = [make_week("2026-W46"), make_week("2026-W47", covered={1: 1.0, 2: 0.4})]
    text = section_text(draw_store(tmp_path, weeks)["2026-W47"], "verdict")

    assert "broker 2 40 %, broker 3 0 %" in text


def test_each_trouble_is_told_under_its_state_with_its_weeks(pages: dict[str, Path]) -> None:
    text = section_text(pages[LAST], "findings")

    assert re.search(r"New \(1\).*offline-partitions of broker 3", text)
    assert re.search(r"Worse \(1\).*flapping-broker of broker 2.*5 of 11, first in 2026-W42", text)
    assert re.search(r"Not evaluable \(1\).*unclean-election of broker 1.*\(2026-W46\)", text)
    assert re.search(r"Accepted \(1\).*stale-metadata.*ana.*accepted until 2026-12-31", text)
    assert "1 kind of findings of level low or info" in text


def test_links_lead_into_the_postmortem_of_the_week_that_has_the_finding(
    pages: dict[str, Path],
) -> None:
    """Every link to a file leads to one, and every anchor in it is there."""
    for page in pages.values():
        hrefs = re.findall(r'href="([^"#]+)(?:#([^"]*))?"', page.read_text("utf-8"))
        local = [(name, mark) for name, mark in hrefs if not name.startswith("https://")]
        assert local
        for name, mark in local:
            target = page.parent / name
            assert target.is_file(), name
            if mark.startswith("F-"):
                assert f"id='{mark}'" in target.read_text("utf-8")


def test_a_broker_keeps_its_colour_in_every_week(pages: dict[str, Path]) -> None:
    for name in ("2026-W37", LAST):
        page = signal_line(pages[name], "broker 2", "leaders_lost")
        assert page["line"]["color"] == theme.broker_colour(2)


def test_a_line_breaks_where_rules_changed_where_a_week_is_missing_and_where_logs_are(
    pages: dict[str, Path],
) -> None:
    page = signal_line(pages[LAST], "broker 2", "absences")
    blank = [x for x, y in zip(page["x"], page["y"], strict=True) if y is None]

    # Rules changed before the fifth week, the eighth is missing, the tenth is hardly covered.
    assert blank == [3.5, 7.0, 9.0]
    assert page["connectgaps"] is False
    dotted = read_figure(pages[LAST], "figure-trend")["layout"]["shapes"]
    assert {shape["x0"] for shape in dotted} == {3.5}


def test_what_was_seen_with_too_few_logs_is_marked_as_that(pages: dict[str, Path]) -> None:
    traces = read_figure(pages[LAST], "figure-trend")["data"]
    marks = [one for one in traces if one["type"] == "scatter" and one["mode"] == "markers+text"]
    says = [word for one in marks for word in one["customdata"]]

    assert any("broker 2: Unplanned absences, 2026-W45: at least 6, logs cover 8.4 of 168 h" in word
               for word in says)  # fmt: skip
    assert all("at least" in word for word in says)


def test_bars_beneath_the_points_are_the_coverage_of_each_week(pages: dict[str, Path]) -> None:
    traces = read_figure(pages[LAST], "figure-trend")["data"]
    bars = next(one for one in traces if one["type"] == "bar")
    heights = {(x, base): y for x, base, y in zip(bars["x"], bars["base"], bars["y"], strict=True)}
    # Rows are all brokers, then 1, 2 and 3; the missing week has no bar.
    assert heights[9, -2] == pytest.approx(small_multiples.BAR_HEIGHT * 0.05, abs=0.001)
    assert heights[11, -3] == pytest.approx(small_multiples.BAR_HEIGHT * 0.51, abs=0.001)
    assert not any(x == 7 for x, _ in heights)


def test_a_count_of_half_a_week_is_drawn_as_of_a_whole_one(tmp_path: Path) -> None:
    counted = {2: {"isr_drops": 30}}
    weeks = [
        make_week("2026-W45", signals=counted),
        make_week("2026-W46", signals=counted, covered=0.5),
    ]
    page = draw_store(tmp_path, weeks, Notes())["2026-W46"]
    row = signal_line(page, "broker 2", "isr_drops")

    assert row["customdata"][0].endswith(": 30, logs cover 168 of 168 h")
    assert "30 seen, 60 were all covered; logs cover 84 of 168 h" in row["customdata"][1]
    heights = [y + 1 * 2 - small_multiples.LINE_BASE for y in row["y"]]
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.01)
    assert "30 (50 %)" in section_text(page, "trend")


def test_the_heatmap_has_a_cell_for_each_hour_and_says_which_nobody_knows(
    pages: dict[str, Path],
) -> None:
    blank, known = read_figure(pages[LAST], "figure-hours")["data"]
    week = make_quarter()[-1].hours

    assert [cell for row in known["z"] for cell in row] == week
    dark = [(day, hour) for day, row in enumerate(blank["z"]) for hour in range(24) if row[hour]]
    assert dark == [(1, hour) for hour in range(6, 12)]
    lost = sum(many or 0 for many in week)
    assert f"{lost} leaderships lost" in section_text(pages[LAST], "hours")


def test_the_slow_burn_lists_too_many_nights_and_no_fewer(pages: dict[str, Path]) -> None:
    text = section_text(pages[LAST], "nights")

    assert "more than 2 of 7 nights" in text
    assert re.search(r"orders-2 6 38 h 20 min 66 11 of 11", text)
    assert "payments.events-0 3" in text
    assert "orders-1" not in text


def test_the_table_of_brokers_away_has_this_week_last_week_and_all_weeks(
    pages: dict[str, Path],
) -> None:
    assert re.search(
        r"broker 2 11 7 8 of 11 26 min 24 s .* 151.2 of 168 h",
        section_text(pages[LAST], "flapping"),
    )


def test_days_lead_to_the_days_of_the_postmortem(pages: dict[str, Path]) -> None:
    source = pages[LAST].read_text("utf-8")

    assert 'href="report.html#t/2026-11-16T00:00:00Z..2026-11-17T00:00:00Z"' in source
    assert 'href="report.html#t/2026-11-22T00:00:00Z..2026-11-23T00:00:00Z"' in source
    assert "Mon 2026-11-16 2 high, 1 medium 5" in section_text(pages[LAST], "days")


def test_a_day_without_logs_is_not_a_day_without_incidents(tmp_path: Path) -> None:
    hours: list[int | None] = [0] * 24 + [None] * 144
    page = draw_store(tmp_path, [make_week("2026-W46", covered=0.1, hours=hours)], Notes())
    days = section_text(page["2026-W46"], "days")

    assert "Mon 2026-11-09 none 0 0" in days
    assert "Tue 2026-11-10 ? ? ?" in days


def test_a_week_of_silence_says_that_it_cannot_tell(tmp_path: Path) -> None:
    quiet = make_week("2026-W46", covered=0.0, hours=[None] * 168, verdict="cannot_tell")
    page = draw_store(tmp_path, [quiet], Notes())["2026-W46"]

    assert "cannot tell Cannot tell: no incident found, but the" in section_text(page, "verdict")
    assert "No log shows a broker that was away" in section_text(page, "flapping")
    assert "no log covers 168 hours" in section_text(page, "hours")
    assert "0 (0 %)" not in section_text(page, "trend")


def test_rules_that_are_mixed_within_a_week_are_told_of_at_once(tmp_path: Path) -> None:
    mixed = make_week("2026-W46", older_rules=["a.log", "b.log"])
    pages = draw_store(tmp_path, [make_week("2026-W45"), mixed], Notes())
    says = "were read by older rules than the rest"

    assert f"2 files of this week {says}" in section_text(pages["2026-W46"], "verdict")
    assert says not in section_text(pages["2026-W45"], "verdict")


def test_the_same_weeks_give_the_same_bytes(tmp_path: Path) -> None:
    one, other = (draw_store(tmp_path / name, make_quarter()[-3:]) for name in ("a", "b"))

    assert {name: path.read_bytes() for name, path in one.items()} == {
        name: path.read_bytes() for name, path in other.items()
    }


def test_hundreds_of_brokers_and_findings_stay_readable(tmp_path: Path) -> None:
    brokers = range(1, 301)
    counted = {at: {"absences": at % 7, "leaders_lost": at} for at in brokers}
    many = [make_finding("flapping-broker", brokers=[at]) for at in brokers]
    weeks = [make_week(f"2026-W{at}", many, brokers=brokers, signals=counted) for at in (45, 46)]
    page = draw_store(tmp_path, weeks, Notes())["2026-W46"]
    marks = sum(len(trace["x"]) for trace in read_figure(page, "figure-trend")["data"])

    assert page.stat().st_size < 1_500_000
    assert marks < 4_000
    assert "And 100 more." in section_text(page, "findings")


def test_what_the_page_says_to_write_into_notes_can_be_read(tmp_path: Path) -> None:
    """Whatever a client calls itself: what is copied from the page is YAML, and names it."""
    odd = 'app "x": \\ #1'
    bad = make_finding("stale-metadata", "high", clients=[odd])
    page = draw_store(tmp_path, [make_week("2026-W46", [bad])], Notes())["2026-W46"]
    copied = re.search(
        r'<pre class="command"[^>]*><code>(.*?)</code>', page.read_text("utf-8"), re.DOTALL
    )
    assert copied
    (tmp_path / "notes.yaml").write_text(html.unescape(copied[1]), encoding="utf-8")
    notes = load_notes(tmp_path)

    assert notes.accepts(f"stale-metadata: client {odd}", date(2026, 12, 13))
    assert not notes.accepts(f"stale-metadata: client {odd}", date(2026, 12, 14))


HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m\u202e%{x}"


def test_what_logs_and_people_write_stays_text(tmp_path: Path) -> None:
    bad = make_finding(
        "stale-metadata", "high", clients=[HOSTILE], title=HOSTILE, signature=HOSTILE
    )
    week = make_week(
        "2026-W46", [bad | {"findings": [[HOSTILE, "high", 0]]}],
        nights={"nights": 7, "partitions": [[HOSTILE, 5, 9.0]], "left_out": 0, "often": 1},
        versions={"broker-1": [HOSTILE]}, topic_turns={"created": [HOSTILE], "deleted": []},
        older_rules=[HOSTILE], rules=[[HOSTILE, "b" * 64]],
    )  # fmt: skip
    week.nodes[HOSTILE] = {"role": "client", "broker": None, "covered_ms": HOUR, "days": [HOUR]}
    page = draw_store(tmp_path, [make_week("2026-W45"), week], Notes())

    for name in ("2026-W46", "index"):
        source = page[name].read_text("utf-8")
        assert "<img" not in source
        assert "\x1b" not in source
        assert "\u202e" not in source
    assert "⟨U+001B⟩" in page["2026-W46"].read_text("utf-8")


def test_on_paper_stands_what_answers_and_each_sheet_is_named(pages: dict[str, Path]) -> None:
    """What figures show once more as a table would be pages of small numbers."""
    text = pages[LAST].read_text("utf-8")
    folded = re.findall(r'<details class="([^"]*)"><summary>([^<]*)', text)

    assert {words: classes for classes, words in folded if "of findings" not in words} == {
        "Say who looks after a finding, or accept it for a while": "off-paper",
        "Signals as a table": "off-paper", "Hours as a table": "off-paper",
    }  # fmt: skip
    assert f'content: "Kafka in week {LAST}, page " counter(page)' in text


def test_weeks_of_two_clusters_have_two_titles(tmp_path: Path) -> None:
    week = make_week("2026-W47")
    week.cluster = "cluster abc\u2026 \u00b7 Kafka 4.3.0, 3 brokers"
    drawn = draw_store(tmp_path, [week])
    page, index = (drawn[name].read_text("utf-8") for name in ("2026-W47", "index"))

    assert f"<title>Kafka in week 2026-W47 \u00b7 {week.cluster}</title>" in page
    assert f"<title>Kafka, week by week \u00b7 {week.cluster}</title>" in index
    assert "from 2026-11-16" in index
