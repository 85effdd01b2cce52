"""What stands before a cut or a fault is read, to the last byte where the format allows it."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ingest.sample_archives import LOG, TREE, tarred, zipped
from tests.ingest.scans import scan


def test_every_byte_before_the_cut_of_a_short_gzip_is_read(tmp_path: Path) -> None:
    packed = gzip.compress(LOG)[:2000]
    left = zlib.decompressobj(31).decompress(packed)
    (tmp_path / "cut.gz").write_bytes(packed)

    found = scan(tmp_path / "cut.gz").files["cut.gz"].counts["bytes"]

    assert abs(found - len(left)) <= 10


def test_a_wrong_checksum_loses_one_step_at_the_most(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(LOG))
    packed[-6] ^= 1
    (tmp_path / "x.gz").write_bytes(packed)

    assert scan(tmp_path / "x.gz").files["x.gz"].counts["bytes"] >= len(LOG) - (16 << 10)


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_every_byte_before_the_cut_of_a_tar_is_read(
    compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    packed = tarred({"cut.log": LOG})[: 512 + 20 * 512]
    (tmp_path / "x").write_bytes(compress(packed))

    found = scan(tmp_path / "x")

    assert found.files["x!cut.log"].counts["bytes"] == 20 * 512
    assert "x!cut.log" in found.notes()


def test_a_zip_inside_a_zip_is_whole(tmp_path: Path) -> None:
    inner = zipped(TREE, zipfile.ZIP_DEFLATED)
    (tmp_path / "x").write_bytes(zipped({"a.zip": inner}, zipfile.ZIP_DEFLATED))

    assert scan(tmp_path / "x").notes() == {}
