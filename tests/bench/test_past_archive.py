"""The archives of the bench are what their figures are told of."""

import gzip
import json
from pathlib import Path

from forensics.events.scan import load_scanner
from forensics.ingest.read_plan import plan_reading
from tests.bench.past_archive import SMALL_FILE, build_past, write_past

SIZE = 800_000
SHARE = 0.15


def texts(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.stat().st_size
    }


def test_an_archive_has_the_size_and_the_share_that_were_asked_for(tmp_path: Path) -> None:
    size = build_past(SHARE).bytes
    found = texts(write_past(tmp_path / "logs", size, SHARE))
    lines = sum(text.count(b"\n") for text in found.values())
    splits = plan_reading([str(tmp_path / "logs")]).splits
    batches = [batch for split in splits for batch in load_scanner().scan(split)]
    stating = {
        (row["file"], row["offset"])
        for batch in batches
        for row in batch.select(["file", "offset"]).to_pylist()
        if row["offset"] is not None
    }
    assert abs(sum(map(len, found.values())) - size) < size / 50
    assert abs(len(stating) / lines - SHARE) < SHARE / 4


def test_the_second_time_is_later_and_of_other_topics(tmp_path: Path) -> None:
    past = build_past(SHARE)
    text = texts(write_past(tmp_path / "logs", past.bytes * 3 // 2, SHARE))["broker-1/server.log"]
    begun = len(past.files["broker-1/server.log"])
    first, second = text[:begun], text[begun:]
    assert b" 11:37:" in first
    assert b" 11:42:" not in first
    assert b" 11:42:" in second
    assert b" 11:37:" not in second
    assert b" partition=orders-v2-" not in second
    assert b" partition=r1.orders-v2-" in second


def test_gzip_json_and_small_files_hold_the_same_lines(tmp_path: Path) -> None:
    plain = texts(write_past(tmp_path / "plain", SIZE, SHARE))["broker-1/server.log"]
    packed = texts(write_past(tmp_path / "gzip", SIZE, SHARE, "gzip"))
    assert gzip.decompress(packed["broker-1/server.log.gz"]) == plain
    wrapped = texts(write_past(tmp_path / "json", SIZE, SHARE, "json"))["broker-1/server.log"]
    assert "".join(json.loads(line)["log"] for line in wrapped.splitlines()) == plain.decode()
    cut = texts(write_past(tmp_path / "small", SIZE, SHARE, small=True))
    parts = [text for name, text in cut.items() if name.startswith("broker-1/server.log.")]
    assert b"".join(parts) == plain
    assert max(map(len, parts)) < 2 * SMALL_FILE
