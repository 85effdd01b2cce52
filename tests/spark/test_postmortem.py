"""The whole program on the three samples, held against what really happened in them."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from forensics import pipeline, schemas
from forensics.settings import SEVERITIES, Settings
from tests.spark.conftest import SAMPLES, Postmortem, Run
from tests.spark.truth import claimed_isr, claimed_leaders, claimed_losses, table
from tests.spark.unpacked import contents, quoted, shuffled_tar

pytestmark = pytest.mark.spark

Recorded = Callable[[str], Run]
KINDS_OF_LINES = (
    "records",
    "continuation_lines",
    "blank_lines",
    "unparsed_lines",
    "duplicate_lines",
)


def test_every_leader_epoch_is_right_and_none_is_invented(run: Run) -> None:
    assert len(run.truth.leaders) > 50
    assert run.truth.leaders == claimed_leaders(run.out, run.truth)


def test_in_sync_replicas_are_right_where_they_are_known(run: Run) -> None:
    wanted, found = run.truth.isr, claimed_isr(run.out)

    assert {} == {
        key: found[key] for key, isr in wanted.items() if key in found and found[key] != isr
    }
    assert len(found.keys() & wanted.keys()) >= 0.98 * len(wanted)


def test_every_line_of_every_file_has_one_place_in_the_account(run: Run) -> None:
    texts = contents(run.archive)
    rows = {row["file"]: row for row in table(run.out, "files")}

    assert set(texts) == set(rows)
    for name, row in rows.items():
        text = texts[name]
        lines = text.count(b"\n") + (text[-1:] not in (b"", b"\n"))
        assert (lines, len(text)) == (row["lines"], row["bytes"]), name
        assert lines == sum(row[kind] for kind in KINDS_OF_LINES), name
    assert sum(row["lines"] for row in rows.values()) == run.document["archive"]["lines"]
    assert len(table(run.out, "events")) == run.document["archive"]["events"]


def test_evidence_quotes_the_archive(run: Run) -> None:
    texts = contents(run.archive)
    places = [one for finding in run.document["findings"] for one in finding["evidence"]]

    for one in random.Random(430).sample(places, min(50, len(places))):
        assert quoted(texts[one["file"]], one["line"]) == one["text"].split("\n")[0]


def test_events_and_histories_point_at_lines_of_the_archive(run: Run) -> None:
    texts = contents(run.archive)
    events = random.Random(282).sample(table(run.out, "events"), 50)
    said = {(row["file"], row["line"]) for row in table(run.out, "events")}

    for row in events:
        whole, text = quoted(texts[row["file"]], row["line"]), row["text"].split("\n")[0]
        # A line that names thousands of partitions is quoted in full only once.
        assert whole == text or (whole.startswith(text) and len(text) == 240)
        record = texts[row["file"]][row["offset"] :]
        if row["kind"].endswith("setting_seen"):
            # It stands in the middle of the record that begins there.
            record = record[record.index(b"\n" + row["text"].encode()[:200]) + 1 :]
        assert record.startswith(row["text"].encode()[:200])
    for name in ("leadership", "isr"):
        for row in table(run.out, name):
            assert {(place["file"], place["line"]) for place in row["evidence"]} <= said


def test_findings_come_worst_first_and_each_has_evidence(run: Run) -> None:
    found = run.document["findings"]
    order = [(-SEVERITIES.index(one["severity"]), one["from"], one["id"]) for one in found]

    assert sorted(order) == order
    assert len({one["id"] for one in found}) == len(found)
    assert all(one["evidence"] and one["from"] <= one["to"] for one in found)


@pytest.mark.parametrize("name", ["events", "leadership", "isr", "files", "clocks", "lanes"])
def test_tables_have_the_columns_that_were_promised(name: str, run: Run) -> None:
    found = ds.dataset(run.out / "tables" / name, format="parquet").schema

    assert getattr(schemas, name.upper()).names == found.names


def test_clocks_that_are_right_are_said_to_be_right(run: Run) -> None:
    """All three clusters ran on one machine; what is found lies within its own doubt."""
    known = [row for row in table(run.out, "clocks") if row["offset_ms"] is not None]

    assert len(known) >= 2
    assert {0} == {row["zone_shift_minutes"] for row in known}
    assert all(abs(row["offset_ms"]) <= max(200, row["uncertainty_ms"]) for row in known)
    assert "clock-skew" not in {one["detector"] for one in run.document["findings"]}


def test_every_unclean_election_is_found_and_no_other(run: Run) -> None:
    assert run.truth.unclean == set(claimed_losses(run.document))


def test_what_an_unclean_election_cost_is_bounded_closely(recorded: Recorded) -> None:
    run = recorded("430-unclean")
    claimed = list(claimed_losses(run.document).values())

    assert 3400 == sum(run.truth.lost.values())
    for name, lost in run.truth.lost.items():
        mine = [one for one in claimed if one["partition"] == name]
        low = sum(one["lost_records_min"] for one in mine)
        high = sum(one["lost_records_max"] for one in mine)
        assert low <= high
        assert lost <= high <= max(lost * 1.25, lost + 50), name


def test_the_brokers_that_flap_are_named_and_no_others(run: Run) -> None:
    said = {
        broker
        for finding in run.document["findings"]
        if finding["detector"] == "flapping-broker"
        for broker in finding["brokers"]
    }

    assert run.truth.flapping == said
    assert ({2, 3} if "282" in str(run.archive) else set()) == said


def test_a_rolling_restart_is_no_incident(recorded: Recorded) -> None:
    document = recorded("391-rolling").document

    assert "clear" == document["verdict"]
    assert {one["severity"] for one in document["findings"]} <= {"info", "low"}


@pytest.mark.parametrize("name", ["430-unclean", "282-flapping"])
def test_what_went_wrong_is_an_incident(name: str, recorded: Recorded) -> None:
    assert "incident" == recorded(name).document["verdict"]


def test_a_shuffled_tar_on_one_core_gives_the_same_bytes(
    recorded: Recorded, postmortem: Postmortem, tmp_path: Path
) -> None:
    """Only the names of the files differ, since the archive has another one."""
    plain = recorded("430-unclean")
    packed = postmortem(
        shuffled_tar(plain.archive, tmp_path / "x.tgz"), tmp_path / "out", "local[1]"
    )

    assert plain.findings == re.sub(rb'"file": "x.tgz!', b'"file": "logs/', packed.findings)


def test_one_process_without_spark_gives_the_same_bytes(recorded: Recorded, tmp_path: Path) -> None:
    plain = recorded("430-unclean")
    settings = Settings((str(plain.archive),), tmp_path, engine="local")
    pipeline.postmortem(settings, lambda _: None)

    assert plain.findings == (tmp_path / "findings.json").read_bytes()


def test_a_file_that_is_there_twice_counts_once_and_leaves_nothing_for_the_next_run(
    recorded: Recorded, postmortem: Postmortem, tmp_path: Path
) -> None:
    once = recorded("430-unclean")
    tree = shutil.copytree(once.archive, tmp_path / "logs")
    shutil.copy(tree / "broker-1/server.log", tree / "broker-1/server.log.bak")

    twice = postmortem(tree, tmp_path / "out")

    wanted, found = once.document["findings"], twice.document["findings"]
    assert wanted == found
    rows = {row["file"]: row for row in table(twice.out, "files")}
    copy = rows["logs/broker-1/server.log.bak"]
    assert copy["lines"] == copy["duplicate_lines"] > 1000
    assert "logs/broker-1/server.log" == copy["duplicate_of"]
    assert 0 == rows["logs/broker-1/server.log"]["duplicate_lines"]

    fresh = recorded("391-rolling")
    reused = postmortem(SAMPLES / "391-rolling/logs.zip", twice.out)

    assert fresh.findings == reused.findings
    assert (fresh.out / "report.html").read_bytes() == (reused.out / "report.html").read_bytes()
    assert {path.relative_to(fresh.out) for path in fresh.out.glob("*/*")} == {
        path.relative_to(reused.out) for path in reused.out.glob("*/*")
    }
    assert table(fresh.out, "leadership") == table(reused.out, "leadership")
