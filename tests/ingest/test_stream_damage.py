"""Compressed streams: every member is read, also behind a broken one, and what follows is said."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ingest.sample_archives import LOG
from tests.ingest.scans import account_of, scan

HALF = LOG.index(b"\n", len(LOG) // 2) + 1


def by(*command: str) -> Callable[[bytes], bytes]:
    def compress(text: bytes) -> bytes:
        if not shutil.which(command[0]):
            pytest.skip(f"no {command[0]} here")
        return subprocess.run(command, input=text, capture_output=True, check=True).stdout

    return compress


FORMATS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": by("zstd", "-c"),
    "lz4": by("lz4", "-c"),
}
SINGLE: dict[str, Callable[[bytes], bytes]] = {
    "lzma": lambda text: lzma.compress(text, format=lzma.FORMAT_ALONE),
    "zlib": zlib.compress,
}
formats = pytest.mark.parametrize("kind", FORMATS)
TEXTS: dict[str, Callable[[bytes], bytes]] = {
    "UTF-8 with a mark": lambda text: b"\xef\xbb\xbf" + text,
    "UTF-16 without a mark": lambda text: text.decode().encode("utf-16-le"),
    "UTF-16, big end first, without a mark": lambda text: text.decode().encode("utf-16-be"),
    "UTF-32": lambda text: text.decode().encode("utf-32"),
    "UTF-32 without a mark": lambda text: text.decode().encode("utf-32-le"),
    "CR alone": lambda text: text.replace(b"\n", b"\r"),
}


@pytest.mark.parametrize("kind", [*FORMATS, *SINGLE])
def test_every_format_gives_what_the_plain_file_gives(kind: str, tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(LOG)
    (tmp_path / "packed").write_bytes({**FORMATS, **SINGLE}[kind](LOG))

    wanted, found = scan(tmp_path / "plain"), scan(tmp_path / "packed")

    assert {} == found.notes()
    assert account_of(wanted.files["plain"]) == account_of(found.files["packed"])
    assert wanted.facts() == found.facts()
    assert (kind, 1, 1) == (
        found.containers["packed"].format,
        found.containers["packed"].entries,
        found.containers["packed"].read,
    )


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("split_size", [4096, 64 << 20])
def test_text_of_every_coding_gives_the_same_lines(
    text: str, split_size: int, tmp_path: Path
) -> None:
    (tmp_path / "plain").write_bytes(LOG)
    (tmp_path / "coded").write_bytes(TEXTS[text](LOG))

    wanted = scan(tmp_path / "plain", split_size=split_size)
    found = scan(tmp_path / "coded", split_size=split_size)

    assert {} == found.notes()
    assert account_of(wanted.files["plain"]) == account_of(found.files["coded"])
    assert wanted.facts() == found.facts()


@formats
def test_members_behind_a_broken_one_are_read(kind: str, tmp_path: Path) -> None:
    compress = FORMATS[kind]
    broken = bytearray(compress(LOG[:HALF]))
    at = len(broken) // 2
    broken[at : at + 8] = bytes(255 - byte for byte in broken[at : at + 8])
    (tmp_path / "plain").write_bytes(LOG[HALF:])
    (tmp_path / "two").write_bytes(bytes(broken) + compress(LOG[HALF:]))

    whole, found = scan(tmp_path / "plain"), scan(tmp_path / "two")

    assert found.files["two"].broken
    told = [row["text"] for row in found.facts()]
    assert all(row["text"] in told for row in whole.facts())


@formats
def test_what_follows_the_end_is_said_and_is_no_damage(kind: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(FORMATS[kind](LOG) + b"no more of that\n" * 3)

    one = scan(tmp_path / "x").files["x"]

    assert 300 == one.counts["lines"]
    assert [f"48 bytes that are no {kind} data follow its end"] == one.notes
    assert not one.broken


@formats
def test_zeros_that_fill_a_block_are_no_damage(kind: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(FORMATS[kind](LOG) + bytes(1000))

    one = scan(tmp_path / "x").files["x"]

    assert (300, [], False) == (one.counts["lines"], one.notes, one.broken)


@pytest.mark.parametrize("left", [9, 30, 200, 500])
def test_a_small_gzip_that_is_cut_gives_what_is_left(left: int, tmp_path: Path) -> None:
    packed = gzip.compress(LOG[:3000])[:left]
    text = zlib.decompressobj(31).decompress(packed)
    (tmp_path / "cut.gz").write_bytes(packed)

    one = scan(tmp_path / "cut.gz").files["cut.gz"]

    assert one.broken
    assert len(text) - 10 <= one.counts["bytes"] <= len(text)
    assert "gzip data cut off after" in one.notes[-1]


def lzw(text: bytes, most: int = 16) -> bytes:
    """Pack as `compress` does."""
    out, bits = bytearray(b"\x1f\x9d" + bytes([0x80 | most])), 9
    group: list[int] = []
    table = {bytes([byte]): byte for byte in range(256)}

    def flush(*, whole: bool) -> None:
        number = sum(code << bits * at for at, code in enumerate(group))
        size = bits if whole else -(-len(group) * bits // 8)
        out.extend(number.to_bytes(size, "little"))
        group.clear()

    known = b""
    for byte in text:
        longer = known + bytes([byte])
        if longer in table:
            known = longer
            continue
        group.append(table[known])
        if len(group) == 8:
            flush(whole=True)
        if len(table) + 1 < 1 << most:
            table[longer] = len(table) + 1
            if len(table) >= 1 << bits and bits < most:
                if group:
                    flush(whole=True)
                bits += 1
        known = bytes([byte])
    group.append(table[known])
    flush(whole=False)
    return bytes(out)


@pytest.mark.parametrize("most", [12, 16])
def test_what_compress_has_written_is_read(most: int, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(lzw(LOG, most))

    found = scan(tmp_path / "x")

    assert {} == found.notes()
    assert len(LOG) == found.files["x"].counts["bytes"]
    assert 300 == found.files["x"].counts["lines"]


def test_a_debian_package_is_read(tmp_path: Path) -> None:
    packed = b"!<arch>\n"
    for name, content in (("server.log.gz", gzip.compress(LOG)), ("empty", b"")):
        packed += b"%-16s%-12d%-6d%-6d%-8o%-10d`\n" % (
            name.encode(), 0, 0, 0, 0o644, len(content)
        ) + content + b"\n" * (len(content) % 2)  # fmt: skip
    (tmp_path / "x.deb").write_bytes(packed)

    found = scan(tmp_path / "x.deb")

    assert 300 == found.files["x.deb!server.log.gz"].counts["lines"]
    assert {} == found.notes()
    assert ("ar", 2, 2) == (
        found.containers["x.deb"].format,
        found.containers["x.deb"].entries,
        found.containers["x.deb"].read,
    )
