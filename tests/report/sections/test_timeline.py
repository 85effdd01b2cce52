"""The timeline's caption: who was away, how many partitions at once, and nothing that is not so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forensics.report.sections import timeline
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import load_run
from tests.report.sample_runs import END, at, document, file, finding, save


def lane(node: str, state: str, start: int, end: int) -> dict[str, Any]:
    """Make one stretch of a broker's lane."""
    return {
        "node": node, "role": "broker", "broker": int(node[-1]), "state": state,
        "started_at": at(start), "ended_at": at(end),
    }  # fmt: skip


def draw(out: Path, *lanes: dict[str, Any]) -> str:
    """Draw the timeline of a run with these lanes."""
    for name in ("leadership", "isr", "events"):
        save(out, name, [])
    save(out, "files", [file("broker-1", "server")])
    save(out, "lanes", list(lanes))
    write_findings(document([finding("F-1", "long-pause", "medium", brokers=[2])]),
                   out / "findings.json")  # fmt: skip
    return timeline.render(load_run(out))


def test_first_starts_and_last_stops_are_no_absences(tmp_path: Path) -> None:
    """All brokers start when the logs begin and are stopped when they end."""
    html = draw(
        tmp_path,
        lane("broker-1", "starting", 0, 1000), lane("broker-1", "up", 1000, 140_000),
        lane("broker-1", "stopping", 140_000, 145_000), lane("broker-1", "stopped", 145_000, END),
        lane("broker-2", "up", 0, 60_000), lane("broker-2", "paused", 60_000, 74_000),
        lane("broker-2", "up", 74_000, END),
        lane("broker-3", "up", 0, 80_000), lane("broker-3", "crashed", 80_000, END),
    )  # fmt: skip

    assert "Not in service at some time: broker 2, broker 3" in html
    # Nobody counted an error, so none is said.
    assert "clients logged" not in html


def test_all_were_in_service(tmp_path: Path) -> None:
    html = draw(tmp_path, lane("broker-1", "starting", 0, 900), lane("broker-1", "up", 900, END))

    assert "All brokers in these logs were in service all the time" in html


def test_a_state_has_one_word_in_text_bar_and_legend(tmp_path: Path) -> None:
    html = draw(
        tmp_path,
        lane("broker-2", "up", 0, 60_000), lane("broker-2", "paused", 60_000, 90_000),
        lane("broker-2", "fenced", 90_000, 95_000), lane("broker-2", "up", 95_000, END),
    )  # fmt: skip

    assert "paused" not in html
    legend, drawing = html.split("</ul>", 1)
    assert "frozen</li>" in legend
    assert "fenced (by the controller)</li>" in legend
    # It stands before the figure, where the first screen ends.
    assert "data-figure" not in legend
    assert '"frozen"' in drawing


def test_partitions_at_once_and_in_all_are_told_apart(unclean: Path) -> None:
    """Two numbers for one thing leave a reader wondering which one is wrong."""
    html = timeline.render(load_run(unclean))

    assert "partitions at the same time: at most 3 unavailable" in html
