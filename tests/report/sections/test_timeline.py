"""The timeline's caption: who was away, how many partitions at once, and nothing that is not so."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from forensics.report import partition_groups, plotly_sheet, theme
from forensics.report.incident_span import incident_span
from forensics.report.lane_intervals import LaneInterval, read_client_lanes, read_lanes
from forensics.report.plotly_sheet import incident_bands
from forensics.report.sections import timeline
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import load_run
from tests.report.sample_runs import END, START, at, document, file, finding, iso, save


def lane(node: str, state: str, start: int, end: int) -> dict[str, Any]:
    """Make one stretch of a broker's lane."""
    return {
        "node": node, "role": "broker", "broker": int(node[-1]), "state": state,
        "started_at": at(start), "ended_at": at(end),
    }  # fmt: skip


def draw(
    out: Path, *lanes: dict[str, Any], events: Sequence[dict[str, Any]] = (),
    findings: Sequence[dict[str, Any]] = (), files: Sequence[dict[str, Any]] = (),
) -> str:  # fmt: skip
    """Draw the timeline of a run with these lanes."""
    for name in ("leadership", "isr"):
        save(out, name, [])
    save(out, "events", list(events))
    save(out, "files", [file("broker-1", "server"), *files])
    save(out, "lanes", list(lanes))
    told = findings or [finding("F-1", "long-pause", "medium", brokers=[2])]
    write_findings(document(list(told)), out / "findings.json")
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

    html = draw(tmp_path, lane("broker-1", "up", 0, 900), lane("broker-1", "stopped", 900, END))
    assert "were in service until they were shut down at the end" in html


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


def test_partitions_at_once_are_told_where_no_summary_does(
    unclean: Path, rewrite: Callable[[Path, dict[str, Any]], None]
) -> None:
    """Two numbers for one thing leave a reader wondering which one is wrong."""
    assert "unavailable" not in timeline.render(load_run(unclean)).partition("Shown:")[0]

    rewrite(unclean, {"findings": [], "verdict": "clear"})
    html = timeline.render(load_run(unclean))
    assert "partitions at the same moment, at most: 3 unavailable" in html


def test_the_legend_has_every_look_of_the_lanes_and_no_other(unclean: Path) -> None:
    """Colour is never the only sign, and nothing on the figure goes without words."""
    html = timeline.render(load_run(unclean))
    words = re.findall(r"</span>([^<]+)</li>", html.partition("</ul>")[0])

    assert words[:3] == ["broker 1 (up or leading)", "broker 2", "broker 3"]
    assert ">U</b>leader that was not in sync (unclean election)</li>" in html
    assert {"crashed", "no leader", "starting", "incident"} <= set(words)
    assert not {"stopping (clean shutdown)", "frozen", "fenced (by the controller)"} & set(words)
    # A dead broker and a partition without a leader look different.
    assert theme.STATE["crashed"][0] != theme.STATE["no leader"][0]


def test_under_zookeeper_nobody_is_fenced(tmp_path: Path) -> None:
    lanes = [lane("broker-1", "up", 0, 60_000), lane("broker-1", "fenced", 60_000, 90_000),
             lane("broker-1", "up", 90_000, END)]  # fmt: skip
    kraft, zookeeper = tmp_path / "kraft", tmp_path / "zookeeper"
    seen = {"kind": "setting_seen", "node": "broker-1", "ts": at(0), "file": "a", "line": 1,
            "setting": "zookeeper.connect", "value": "127.0.0.1:2181"}  # fmt: skip

    assert "fenced (by the controller)</li>" in draw(kraft, *lanes)
    html = draw(zookeeper, *lanes, events=[seen])
    assert "session lost (with ZooKeeper)</li>" in html
    assert "fenced" not in html


def test_a_broker_without_lines_is_not_said_to_serve_all_the_time(tmp_path: Path) -> None:
    html = draw(tmp_path, lane("broker-1", "up", 0, END), lane("broker-2", "up", 0, 40_000),
                lane("broker-2", "up", 70_000, END))  # fmt: skip

    assert (
        "All brokers in these logs were in service all the time, as far as their lines show: "
        "no lines for a while from broker 2" in html
    )
    assert "not in the logs</li>" in html


def test_the_band_of_the_incident_has_the_times_of_the_headline(tmp_path: Path) -> None:
    """Two findings with a pause between them are one incident, and so one band."""
    findings = [
        finding(name, "long-pause", "high", brokers=[2], **{"from": iso(start), "to": iso(end)})
        for name, start, end in (("F-1", 50_000, 55_000), ("F-2", 90_000, 95_000))
    ]
    draw(tmp_path, lane("broker-2", "up", 0, END), findings=findings)
    run = load_run(tmp_path)
    span = incident_span(run)

    assert span is not None
    assert incident_bands(run.findings, START + END) == [(span.start, span.end)]
    assert (span.start - START, span.end - START) == (50_000, 95_000)


def client_lane(node: str, state: str, start: int, end: int) -> dict[str, Any]:
    return lane("broker-0", state, start, end) | {"node": node, "role": "client", "broker": None}


def client_line(node: str, after: int, kind: str) -> dict[str, Any]:
    return {"kind": kind, "node": node, "ts": at(after), "file": "a", "line": after, "client": node}


def test_clients_are_drawn_as_their_logs_tell(tmp_path: Path) -> None:
    """One that was closed, or whose log ended, does not run; one with a finding shows it."""
    findings = [
        finding("F-1", "record-too-large", "medium", clients=["app-photos", "file:a.zip!x/y.log"],
                title="app-photos: 10 records were too large",
                **{"from": iso(30_000), "to": iso(50_000)}),
    ]  # fmt: skip
    draw(
        tmp_path, lane("broker-1", "up", 0, END),
        client_lane("app-mail", "healthy", 5_000, 100_000),
        client_lane("app-photos", "healthy", 0, END),
        findings=findings, files=[file("app-mail", "client") | {"role": "client"}],
        events=[client_line("app-mail", 20_000, "group_leaving"),
                client_line("app-mail", 70_000, "kafka_version"),
                # It was thrown out of its group and came back: it never stopped.
                client_line("app-mail", 80_000, "group_leaving"),
                client_line("app-mail", 81_000, "group_joining")],
    )  # fmt: skip
    lanes = read_client_lanes(load_run(tmp_path))
    told = {
        name: [(one.words or one.state, one.start - START, one.end - START)
               for one in sorted(lanes, key=lambda one: one.start) if one.name == name]
        for name in ("app-mail", "app-photos", "x/y.log")
    }  # fmt: skip

    assert told["app-mail"] == [
        ("no lines yet", 0, 5_000), ("healthy", 5_000, 20_000), ("stopped", 20_000, 70_000),
        ("healthy", 70_000, 100_000), ("log ended", 100_000, END),
    ]  # fmt: skip
    assert told["app-photos"] == [
        ("healthy", 0, 30_000), ("Record too large", 30_000, 50_000), ("healthy", 50_000, END),
    ]  # fmt: skip
    assert [words for words, *_ in told["x/y.log"]] == ["unknown", "Record too large", "unknown"]


def test_a_broker_whose_start_failed_is_not_called_stopped(tmp_path: Path) -> None:
    """Its host or somebody started it, and it ended by itself: nobody stopped it."""
    draw(
        tmp_path,
        lane("broker-1", "up", 0, 50_000), lane("broker-1", "stopped", 50_000, 60_000),
        lane("broker-1", "starting", 60_000, 65_000), lane("broker-1", "stopped", 65_000, END),
    )  # fmt: skip
    lanes = read_lanes(load_run(tmp_path), "broker")

    assert [lane.words or lane.state for lane in lanes] == [
        "up", "stopped", "starting", "start failed",
    ]  # fmt: skip


def test_no_word_stands_below_the_hatching() -> None:
    """A leader that did not serve is cut out of its bar; one of several epochs is one bar."""
    lanes = [LaneInterval("a-0", 1, "leader", 0, 90), LaneInterval("a-0", 2, "leader", 90, 100)]
    cut = list(timeline._cut_at(lanes, {(40, 60)}))

    assert [(one.broker, one.start, one.end, plotly_sheet.lane_label(one)) for one in cut] == [
        (1, 0, 40, "led by 1"), (1, 60, 90, "led by 1"), (1, 40, 60, " "), (2, 90, 100, "led by 2"),
    ]  # fmt: skip


def test_a_broker_that_lost_a_disk_is_not_drawn_as_whole(tmp_path: Path) -> None:
    """It serves the rest, until it is started anew."""
    lost = finding("F-1", "disk-failure", "high", brokers=[2], **{"from": iso(60_000)})
    html = draw(
        tmp_path, lane("broker-2", "up", 0, 100_000), lane("broker-2", "stopped", 100_000, 110_000),
        lane("broker-2", "up", 110_000, END), findings=[lost],
    )  # fmt: skip

    assert "; without a log directory: broker 2" in html
    assert "up without one of its log directories (disk lost)</li>" in html
    run = load_run(tmp_path)
    pieces = timeline._lost_disks(run, read_lanes(run, "broker"))
    assert [(one.start - START, one.end - START) for one in pieces] == [(60_000, 100_000)]


def test_a_moment_of_trouble_hides_no_word_of_what_follows() -> None:
    lanes = [
        LaneInterval("app", None, state, start, end)
        for state, start, end in (("healthy", 0, 50), ("stale", 50, 50), ("healthy", 50, 100))
    ]

    assert list(plotly_sheet.shown_spans(lanes, 4).values()) == [(0, 50), (50, 54), (54, 100)]


def test_a_figure_with_fewer_rows_than_clients_says_so(tmp_path: Path) -> None:
    clients = [client_lane(f"app-{number}", "healthy", 0, END) for number in range(9)]
    html = draw(tmp_path, lane("broker-1", "up", 0, END), *clients)

    assert "Clients: 6 of 9, those in most trouble" in html


def test_a_leader_is_drawn_from_the_moment_that_lines_show_it(tmp_path: Path) -> None:
    """No line says since when broker 3 led; one shows that it did at 90 s. Before, nothing is told.

    Nor is what began nobody knows when painted as a partition without a leader.
    """
    draw(tmp_path, lane("broker-1", "up", 0, END))
    row = {"topic": "t", "partition": 0, "how": "observed", "election": "failover",
           "clean": True, "ended": "observed"}  # fmt: skip
    save(tmp_path, "leadership", [
        row | {"leader_epoch": 0, "leader": 1, "started_at": at(0), "ended_at": at(50_000)},
        row | {"leader_epoch": 1, "leader": -1, "started_at": at(50_000),
               "ended_at": at(52_000), "ended": "unknown"},
        row | {"leader_epoch": 2, "leader": 3, "started_at": None, "ended_at": None,
               "started_before": at(90_000)},
        row | {"leader_epoch": 0, "partition": 1, "leader": -1, "started_at": None,
               "ended_at": at(60_000)},
    ])  # fmt: skip
    run = load_run(tmp_path)
    view = (at(0) // 1000, at(END) // 1000)  # type: ignore[operator]
    lanes = timeline._read_partition_lanes(run, partition_groups.group_partitions(run), view)
    shown = {(one.name, one.words or one.state, one.start - START, one.end - START)
             for one in lanes}  # fmt: skip

    assert ("t-0", "leader", 90_000, END) in shown
    assert ("t-0", timeline.NOT_TOLD, 52_000, 90_000) in shown
    assert {start for name, state, start, _ in shown if state == "no leader"} == {50_000}
