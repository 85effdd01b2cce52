"""What is no Kafka log is told before the work begins, and what may be one is never refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from forensics.errors import ArchiveError
from forensics.events.preflight import refuse_other_input
from forensics.ingest.read_plan import plan_reading

SAMPLES = Path(__file__).parents[2] / "sample_logs"
CLIENT = SAMPLES / "430-unclean/logs/app-report/client.log"
ACCESS = '10.0.0.7 - - [18/Nov/2026:11:38:51 +0000] "GET / HTTP/1.1" 200 17\n'
APPLICATION = "[2026-11-18 11:38:51,321] INFO order 17 was shipped (com.acme.Shipping)\n"


def look(*paths: Path) -> None:
    refuse_other_input(plan_reading([str(path) for path in paths]))


@pytest.mark.parametrize("text", [ACCESS * 2000, APPLICATION * 500, "# notes on kafka\n", "x"])
def test_files_without_a_kafka_line_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "other.log").write_text(text)
    with pytest.raises(ArchiveError, match=r"other\.log is no Kafka log.* collect-logs\.md|docs"):
        look(tmp_path)


def test_a_kafka_log_among_others_is_enough(tmp_path: Path) -> None:
    (tmp_path / "access.log").write_text(ACCESS * 2000)
    (tmp_path / "client.log.gz").write_bytes(gzip.compress(CLIENT.read_bytes()))

    look(tmp_path)


def test_a_kafka_line_deep_in_a_log_is_found(tmp_path: Path) -> None:
    line = "[2026-11-18 11:38:51,321] WARN gone (org.apache.kafka.clients.NetworkClient)\n"
    (tmp_path / "app.log").write_text(APPLICATION * 30_000 + line)

    look(tmp_path)


def test_lines_that_do_not_name_kafka_are_read_by_the_rules(tmp_path: Path) -> None:
    text = (SAMPLES / "430-unclean/logs/broker-1/state-change.log").read_text("utf-8")
    lines = [line for line in text.splitlines() if "kafka" not in line.lower()]
    assert "Leader audit_log-1" in "".join(lines)
    (tmp_path / "server.log").write_text("\n".join(lines) + "\n")

    look(tmp_path)


def test_what_is_too_much_to_look_at_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forensics.events.preflight._MOST_BYTES", 100_000)
    (tmp_path / "access.log").write_text(ACCESS * 5000)

    look(tmp_path)


def test_kafkas_data_is_told_from_its_logs(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=2\n")
    (tmp_path / "orders-0/00000000000000000000.log").write_bytes(bytes(100) + b"kafka 11:38:51")
    (tmp_path / "orders-0/00000000000000000000.index").write_bytes(bytes(10))
    with pytest.raises(ArchiveError, match=r"data folder \(log\.dirs\), not its logs: 2 segment"):
        look(tmp_path)

    (tmp_path / "client.log").write_bytes(CLIENT.read_bytes())
    look(tmp_path)


def test_an_empty_log_is_not_refused_and_an_empty_folder_is(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with pytest.raises(ArchiveError, match=r"no files\. Kafka writes its logs to"):
        look(tmp_path / "logs")

    (tmp_path / "logs/server.log").touch()
    look(tmp_path / "logs")


@pytest.mark.parametrize(
    ("packed", "says"),
    [
        (b"PK\3\4" + bytes(3000), r"nothing to read in logs\.bin \(.*the zip was cut off"),
        (gzip.compress(CLIENT.read_bytes())[:12], r"nothing to read in .* cut off after 0 bytes"),
        (gzip.compress(bytes(8 << 20)), "is no Kafka log"),
        (bytes(9000), "is no Kafka log"),
    ],
    ids=["no zip", "ten bytes of a gzip", "zeros, packed", "zeros"],
)
def test_what_cannot_be_read_at_all_ends_here_with_its_reason(
    packed: bytes, says: str, tmp_path: Path
) -> None:
    (tmp_path / "logs.bin").write_bytes(packed)
    with pytest.raises(ArchiveError, match=says):
        look(tmp_path / "logs.bin")

    (tmp_path / "client.log").write_bytes(CLIENT.read_bytes())
    look(tmp_path / "logs.bin", tmp_path / "client.log")


@pytest.mark.parametrize(
    "sample", sorted(SAMPLES.glob("*/logs*")), ids=lambda path: path.parent.name
)
def test_every_sample_passes(sample: Path) -> None:
    look(sample)
