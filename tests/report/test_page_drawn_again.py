"""The page drawn again: the same bytes, another zone, a shorter window; no log and no Spark."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from forensics.cli.app import jobs_folder, make_group
from forensics.lib.time_zone import Zone, find_zone, shift_figure, use_zone
from forensics.report.page import draw_report
from forensics.report.time_window import narrow_run
from forensics.run_output.reader import load_run
from tests.report.sample_runs import START, errors, save

Rewrite = Callable[[Path, dict[str, Any]], None]


def report(*arguments: str | Path) -> Result:
    return CliRunner().invoke(make_group(jobs_folder()), ["report", *map(str, arguments)])


def redrawn(out: Path, *arguments: str) -> str:
    """Draw with some options and give the page."""
    done = report(out, *arguments, "--html", out / "again.html")
    assert done.exit_code == 0, done.output
    return (out / "again.html").read_text(encoding="utf-8")


def drawings(html: str) -> dict[str, Any]:
    found = re.findall(r'data-figure="([^"]+)">(.*?)</script>', html)
    return {name: json.loads(block) for name, block in found}


def test_nothing_narrowed_gives_the_very_bytes_of_the_run(unclean: Path) -> None:
    first = draw_report(unclean).read_bytes()
    (unclean / "report.html").unlink()

    done = report(unclean)

    assert (0, f"page: {unclean / 'report.html'}\n") == (done.exit_code, done.output)
    assert (unclean / "report.html").read_bytes() == first
    assert redrawn(unclean, "--report-tz", "UTC").encode() == first


def test_a_page_that_shows_less_takes_no_other_page_s_place(unclean: Path) -> None:
    first = draw_report(unclean).read_bytes()

    for options in (["--from", "11:38:40"], ["--report-tz", "Asia/Kolkata"]):
        assert report(unclean, *options).exit_code == 0

    assert (unclean / "report.html").read_bytes() == first
    names = {path.name for path in unclean.glob("report-*.html")}
    assert "report-Asia-Kolkata.html" in names
    assert len(names) == 2


def test_neither_spark_nor_an_archive_is_touched(unclean: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from forensics.report.page import redraw_report; "
        "redraw_report(Path(sys.argv[1])); "
        "print(sorted({'pyspark', 'great_expectations', 'py4j'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, unclean], capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"


def test_a_window_tells_of_what_reaches_into_it_and_says_so(unclean: Path) -> None:
    """After the election only the election itself and the clock are still going on."""
    html = redrawn(unclean, "--from", "11:39:10")
    block = re.search(r'id="report-data">(.*?)</script>', html)
    assert block
    told = json.loads(block[1])

    assert {"F-3f2a91c0", "F-5f"} == {one["id"] for one in told["findings"]}
    assert "2 of 5 findings reach into it" in html
    assert told["window"]["from"] == "2026-11-18T11:39:10.000Z"
    assert told["whole_window"]["from"] == "2026-11-18T11:37:40.000Z"
    shown = drawings(html)["figure-timeline"]["layout"]["xaxis"]["range"]
    assert shown == ["2026-11-18 11:39:10", "2026-11-18 11:40:10"]


def test_the_verdict_of_a_window_is_its_own(unclean: Path, rewrite: Rewrite) -> None:
    """Before the incident nothing was wrong, but a cut file could hide what was."""
    assert "Cannot tell" in redrawn(unclean, "--to", "11:38:00")

    rows = [row | {"damaged": None} for row in load_run(unclean).rows("files", FILE)]
    save(unclean, "files", rows)

    assert "No incident in this window" in redrawn(unclean, "--to", "11:38:00")
    rewrite(unclean, {"verdict": "cannot_tell", "findings": []})
    assert "Cannot tell" in redrawn(unclean, "--to", "11:38:00")


FILE = ("file", "node", "role", "lines", "unparsed_lines", "records", "damaged")


def test_a_finding_that_ends_after_the_window_is_not_said_to_be_open(unclean: Path) -> None:
    """The window ends before the logs do: what ends between the two is over by then."""
    html = redrawn(unclean, "--from", "11:38:30", "--to", "11:39:00")

    assert "goes on after this window" in html
    assert "not over when the logs end" not in html
    worst = html.partition('id="F-3f2a91c0"')[2].partition("</article>")[0]
    assert "to the end of the logs" not in worst


def test_the_impact_of_a_window_is_what_happened_in_it(unclean: Path) -> None:
    run = load_run(unclean)
    before = narrow_run(run, (START, START + 50_000)).document
    inside = narrow_run(run, (START + 69_922, START + 70_922)).document

    assert before["impact"]["partitions_unavailable"] == 0
    assert inside["impact"]["partitions_unavailable"] == 3
    assert inside["impact"]["partition_seconds"] == 3.0
    assert inside["impact"]["longest_s"] == 1.0


def test_events_are_chosen_by_the_corrected_clock(unclean: Path) -> None:
    """A node's own time is what it logged; the window is in the reference's."""
    late = [row | {"node": "broker-3", "ts": row["ts"] + 37_000_000} for row in errors()]
    save(unclean, "events", late)
    run = load_run(unclean)
    first = START + 69_822
    seen = narrow_run(run, (first, first + 44))

    assert seen.table("events", ["node"]).num_rows == 1
    assert sum(part.num_rows for part in seen.chunks("events", ["client"])) == 1
    assert run.table("events", ["node"]).num_rows == 400


def test_states_are_kept_that_reach_into_the_window_and_keep_their_times(unclean: Path) -> None:
    run = load_run(unclean)
    seen = narrow_run(run, (START + 60_000, START + 61_000))
    columns = ["topic", "partition", "leader", "started_at", "ended_at"]
    rows = seen.rows("leadership", columns)

    assert len(rows) == 11
    assert min(row["started_at"] for row in rows) == START
    assert {row["leader"] for row in rows} == {1, 3}
    assert seen.count_rows("leadership") == 11
    assert seen.partition_count == run.partition_count


def test_a_zone_moves_text_and_figures_alike(unclean: Path) -> None:
    plain, moved = (redrawn(unclean, "--report-tz", name) for name in ("UTC", "Asia/Kolkata"))

    assert "2026-11-18 17:08:51-17:09:29 Asia/Kolkata (38.3 s)" in moved
    assert "Asia/Kolkata is UTC+05:30." in moved
    own = re.sub(r"<script.*?</script>|<pre>.*?</pre>", "", moved, flags=re.DOTALL)
    assert "UTC" not in own.replace("Asia/Kolkata is UTC+05:30.", "")
    before, after = drawings(plain), drawings(moved)
    dated = {name for name, one in before.items() if one["layout"]["xaxis"]["type"] == "date"}
    assert len(dated) >= 2
    for name in dated:
        drawing = before[name]
        there = after[name]["layout"]
        assert there["xaxis"]["range"] == [
            later(one) for one in drawing["layout"]["xaxis"]["range"]
        ]
        for one, other in zip(drawing["data"], after[name]["data"], strict=True):
            if one.get("xaxis") == "x2" and there["xaxis2"]["type"] != "date":
                assert other == one
                continue
            key = "base" if one.get("orientation") == "h" else "x"
            assert other[key] == [at if at is None else later(at) for at in one[key]]
            if key == "base":
                assert other["x"] == one["x"]
        marks, moved_marks = (one.get("shapes") or [] for one in (drawing["layout"], there))
        assert [later(mark["x0"]) for mark in marks] == [mark["x0"] for mark in moved_marks]
    assert before["figure-timeline"]["layout"]["shapes"]


def later(text: str) -> str:
    """Add what Kolkata is ahead of UTC."""
    moment = datetime.fromisoformat(text) + timedelta(hours=5, minutes=30)
    return moment.isoformat(sep=" ", timespec="milliseconds").removesuffix(".000")


def test_the_window_is_asked_for_in_the_zone_of_the_page(unclean: Path) -> None:
    """A time that is read off the page can be typed; one that names its zone is in that zone."""
    here = redrawn(unclean, "--report-tz", "Asia/Kolkata", "--from", "17:09:10")
    there = redrawn(unclean, "--report-tz", "Asia/Kolkata", "--from", "2026-11-18T11:39:10Z")

    assert here == there
    assert "Narrowed to 2026-11-18 17:09:10-17:10:10 Asia/Kolkata" in here


def test_a_change_of_clocks_within_the_logs_is_said_and_splits_no_page() -> None:
    """On 2026-10-25 Berlin had the hour from two to three twice."""
    before = 1_792_886_400_000
    found = find_zone("Europe/Berlin", (before, before + 6 * 3_600_000))

    assert found.label == "UTC+02:00"
    assert found.offset == 2 * 3_600_000
    assert "Europe/Berlin went from UTC+02:00 to UTC+01:00 around 2026-10-25 0" in found.note
    assert "stays at UTC+02:00" in found.note
    assert find_zone("Europe/Berlin", (before, before + 60_000)).label == "Europe/Berlin"


def test_utc_is_utc_by_every_name() -> None:
    assert find_zone("UTC", (0, 1)) == find_zone("Etc/UTC", None) == Zone()
    assert (
        find_zone("Europe/London", (1_767_225_600_000, 1_767_225_700_000)).label == "Europe/London"
    )


def test_times_are_written_and_what_is_no_time_stays_as_it_is() -> None:
    """Plotly shows a number by the reader's own clock, and a text as it stands."""
    drawing: dict[str, Any] = {
        "data": [
            {"type": "scatter", "x": [1000, None, 3], "y": [5]},
            {"type": "bar", "orientation": "h", "base": [1], "x": [7]},
            {"type": "bar", "x": [1], "width": [9]},
        ],
        "layout": {
            "xaxis": {"range": [0, 9]},
            "yaxis": {"range": [0, 1]},
            "shapes": [{"xref": "paper", "x0": 0, "x1": 1}, {"xref": "x", "x0": 0, "x1": 1}],
        },
    }

    with use_zone(Zone("here", 60_000)):
        moved = shift_figure(drawing)

    first = "1970-01-01 00:01:00.001"
    assert moved["data"][0]["x"] == ["1970-01-01 00:01:01", None, "1970-01-01 00:01:00.003"]
    assert (moved["data"][1]["base"], moved["data"][1]["x"]) == ([first], [7])
    assert (moved["data"][2]["x"], moved["data"][2]["width"]) == ([first], [9])
    assert moved["layout"]["xaxis"]["range"] == ["1970-01-01 00:01:00", "1970-01-01 00:01:00.009"]
    assert moved["layout"]["yaxis"]["range"] == [0, 1]
    assert [mark["x1"] for mark in moved["layout"]["shapes"]] == [1, first]
    assert shift_figure(drawing)["data"][1]["base"] == ["1970-01-01 00:00:00.001"]
    assert drawing["data"][0]["x"] == [1000, None, 3]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--report-tz", "Mars/Olympus"], "there is no such time zone"),
        (["--report-tz", "../../etc/passwd"], "there is no such time zone"),
        (["--from", "soon"], "write a time such as 2026-11-18 11:37:40"),
        (["--from", "12:00"], "The logs reach over 2026-11-18 11:37:40-11:40:10 UTC"),
        (["--from", "11:39", "--to", "11:38"], "exchange them"),
        (["--html", "nowhere/page.html"], "there is no folder nowhere"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(unclean: Path, options: list[str], says: str) -> None:
    done = report(unclean, *options)

    assert (1, 1) == (done.exit_code, done.stderr.count("\n"))
    assert says in done.stderr


def test_a_folder_that_is_no_output_is_named(tmp_path: Path) -> None:
    assert "is no output folder of a postmortem" in report(tmp_path).stderr
    (tmp_path / "findings.json").write_text("{")
    assert "is no JSON" in report(tmp_path).stderr
