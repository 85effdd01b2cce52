"""The ledger: who led before and after, what was cut by whom, and bounds where there are any."""

from __future__ import annotations

from pathlib import Path

from forensics.report.sections import data_loss
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import load_run
from tests.report.sample_runs import at, document, finding, iso, lost, save


def rows(html: str) -> list[list[str]]:
    """Read the cells of the first table."""
    body = html.split("<tbody>")[1].split("</tbody>", maxsplit=1)[0]
    return [
        [cell.rpartition(">")[2] for cell in line.replace("</a>", "").split("</t")[:-2]]
        for line in body.split("<tr>")[1:]
    ]


def test_a_row_tells_the_whole_way_of_a_loss(unclean: Path) -> None:
    """Last safe leader by the table of leaders, the cut by the table of cuts."""
    save(unclean, "cuts", [
        {"topic": "metrics-firehose", "partition": 0, "leader_epoch": 2, "broker": 1, "cut_to": 0,
         "log_end": 845, "high_watermark": 822, "unclean": True, "started_at": at(109_000)},
        {"topic": "metrics-firehose", "partition": 0, "leader_epoch": 3, "broker": 2, "cut_to": 9,
         "log_end": 9, "high_watermark": 9, "unclean": True, "started_at": at(130_000)},
    ])  # fmt: skip
    row = lost(0, 2, 845) | {
        "acknowledged_min": 822, "acknowledged_max": 845, "manner": "automatic",
        "written_from": iso(30_000), "written_to": iso(70_000),
    }  # fmt: skip
    one = finding("F-1", "unclean-election", "critical", measures={"partitions": [row]})
    write_findings(document([one]), unclean / "findings.json")

    assert rows(data_loss.render(load_run(unclean)))[0] == [
        "metrics-firehose-0", "broker 1, epoch 0", "broker 2, epoch 2 (automatic)", "822, 845",
        "to 0 by broker 1 at 11:39:29", "0 to 844", "845", "822 to 845", "11:38:10 to 11:38:50",
        "F-1",
    ]  # fmt: skip


def test_what_no_line_tells_is_said_to_be_unknown(unclean: Path) -> None:
    row = lost(9, 7, None) | {"lost_from": None, "leader_epoch": 5}
    one = finding("F-1", "unclean-election", "critical", measures={"partitions": [row]})
    write_findings(document([one]), unclean / "findings.json")

    assert rows(data_loss.render(load_run(unclean)))[0] == [
        "metrics-firehose-9", "broker 1, epoch not known", "broker 2, epoch 5", "not logged",
        "no line tells", "not bounded", "845 to not bounded", "not known", "not known", "F-1",
    ]  # fmt: skip


def test_clean_cuts_are_apart_and_acks_all_is_safe_only_where_no_cut_reached_below(
    unclean: Path,
) -> None:
    """Below the high watermark even acks=all was acknowledged."""
    bounds = {"lost_from": 359, "lost_to": 363, "lost_records_min": 4, "lost_records_max": 4}
    cut = {"partition": "orders-v2-7", "leader": 3, "leader_epoch": 1, "cut_on": [1]} | bounds
    for below, is_safe in ((0, True), (2, False), (None, False)):
        row = cut | {"below_high_watermark": below}
        one = finding("F-1", "truncation", "low", measures={"partitions": [row]})
        write_findings(document([one]), unclean / "findings.json")
        html = data_loss.render(load_run(unclean))

        assert "No unclean election was seen." in html
        assert "4 records of 1 partition." in html
        assert ("so none was acknowledged to a producer with acks=all" in html) is is_safe
        assert rows(html)[0][:5] == [
            "orders-v2-7",
            "broker 3, epoch 1",
            "broker 1",
            "359 to 362",
            "4",
        ]
