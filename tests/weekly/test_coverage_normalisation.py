"""Only where a log tells something is a node covered; what is a hole in it is not."""

from __future__ import annotations

from pathlib import Path

from forensics.lib.intervals import total_length
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import load_run
from forensics.weekly.coverage_normalisation import NodeCoverage, measure_window_coverage
from tests.report import sample_runs as samples
from tests.report.sample_runs import Row

START = samples.START
WINDOW = START, START + 1_000_000


def measure(out: Path, files: list[Row], holes: list[Row] | None = None) -> dict[str, NodeCoverage]:
    samples.save(out, "files", files)
    samples.save(out, "coverage", holes or [])
    samples.save(out, "clocks", [])
    write_findings(samples.document([], "clear"), out / "findings.json")
    return {one.node: one for one in measure_window_coverage(load_run(out), WINDOW)}


def log(node: str, kind: str, first: int, last: int, **more: object) -> Row:
    return samples.file(node, kind, first_ts=samples.at(first), last_ts=samples.at(last), **more)


def hole(node: str, state: str, first: int, last: int, log: str | None = None) -> Row:
    return {
        "node": node, "role": "broker", "log": log, "state": state,
        "started_at": samples.at(first), "ended_at": samples.at(last),
    }  # fmt: skip


def test_files_that_overlap_count_once_and_the_gap_between_two_not_at_all(tmp_path: Path) -> None:
    files = [
        log("broker-1", "server", 0, 300_000),
        log("broker-1", "state-change", 200_000, 400_000),
        log("broker-1", "server", 900_000, 1_200_000),
    ]

    assert total_length(measure(tmp_path, files)["broker-1"].intervals) == 500_000


def test_a_silence_is_not_covered_but_that_a_process_was_down_is_known(tmp_path: Path) -> None:
    files = [log("broker-1", "server", 0, 1_000_000), log("broker-2", "server", 0, 1_000_000)]
    holes = [hole("broker-1", "silent", 100_000, 400_000), hole("broker-2", "down", 0, 400_000),
             hole("broker-1", "rotated", 500_000, 600_000, "server")]  # fmt: skip
    measured = measure(tmp_path, files, holes)

    assert measured["broker-1"].intervals == (
        (START, START + 100_000), (START + 400_000, START + 500_000), (START + 600_000, WINDOW[1])
    )  # fmt: skip
    assert total_length(measured["broker-2"].intervals) == 1_000_000


def test_a_log_that_hides_info_or_tells_of_the_jvm_alone_covers_nothing(tmp_path: Path) -> None:
    files = [log("broker-1", "server", 0, 900_000), log("broker-2", "kafkaServer-gc", 0, 900_000)]
    holes = [hole("broker-1", "hidden", 0, 900_000, "server"),
             hole("broker-2", "missing", 0, 900_000, "server")]  # fmt: skip
    measured = measure(tmp_path, files, holes)

    assert [measured[name].intervals for name in ("broker-1", "broker-2")] == [(), ()]


def test_who_is_named_and_has_no_log_is_expected_and_who_is_of_another_time_is_not(
    tmp_path: Path,
) -> None:
    files = [log("broker-1", "server", 0, 900_000), log("broker-3", "server", -90_000, -50_000)]
    measured = measure(tmp_path, files, [hole("broker-2", "missing", 0, 900_000)])

    assert list(measured) == ["broker-1", "broker-2"]
    assert measured["broker-2"] == NodeCoverage("broker-2", "broker", 2, ())


def test_the_same_file_twice_covers_no_more(tmp_path: Path) -> None:
    files = [log("broker-1", "server", 0, 100_000),
             log("broker-1", "server", 500_000, 900_000, file="copy/server.log",
                 duplicate_of="incident.tgz!broker-1/server.log")]  # fmt: skip

    assert total_length(measure(tmp_path, files)["broker-1"].intervals) == 100_000
