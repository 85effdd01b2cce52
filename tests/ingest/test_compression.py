"""What bytes are is told by looking at them, and streams are inflated piece by piece."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
from collections.abc import Callable

import pytest

from forensics.ingest.compression import Decompressed, PeekableStream
from forensics.ingest.formats import SNIFF_BYTES, sniff_format
from forensics.ingest.packed_files import UnpackedFile, read_blocks
from forensics.ingest.read_limits import Budget, DamageError
from forensics.ingest.text_buffer import DecodedText
from forensics.lib.limits import Limits
from tests.ingest.sample_archives import LOG, tarred, zipped

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        *((kind, compress(LOG)) for kind, compress in COMPRESSIONS.items()),
        ("zip", zipped()),
        ("zip", zipped({})),
        ("tar", tarred()),
        ("zstd", bytes.fromhex("28b52ffd")),
        ("utf-16", "[2026".encode("utf-16")),
        ("utf-16", b"\xfe\xff\0["),
        ("plain", LOG),
        ("plain", b"BZ"),
        ("plain", b""),
    ],
)
def test_the_first_bytes_say_what_a_file_is(kind: str, content: bytes) -> None:
    assert kind == sniff_format(content[:SNIFF_BYTES])


def test_looking_at_the_head_takes_nothing_away() -> None:
    class Slow:
        """Gives ten bytes at a time, as a network would."""

        def __init__(self, text: bytes) -> None:
            self.rest = io.BytesIO(text)

        def read(self, size: int = -1, /) -> bytes:
            return self.rest.read(min(10, size) if size > 0 else 10)

    stream = PeekableStream(Slow(LOG[:9000]))

    assert LOG[:SNIFF_BYTES] == stream.head
    assert LOG[:9000] == b"".join(iter(lambda: stream.read(300), b""))


@pytest.mark.parametrize("kind", COMPRESSIONS)
@pytest.mark.parametrize("size", [100, 5000, 1 << 20])
def test_a_stream_is_the_same_whatever_is_asked_for_at_once(kind: str, size: int) -> None:
    stream = Decompressed(io.BytesIO(COMPRESSIONS[kind](LOG)), kind)

    assert LOG == b"".join(iter(lambda: stream.read(size), b""))


@pytest.mark.parametrize(("kind", "compress"), COMPRESSIONS.items())
def test_a_cut_is_told_after_the_last_good_byte(
    kind: str, compress: Callable[[bytes], bytes]
) -> None:
    stream = Decompressed(io.BytesIO(compress(LOG)[:-20]), kind)
    got = b""

    damage = None
    try:
        while part := stream.read(1 << 20):
            got += part
    except DamageError as error:
        damage = str(error)

    assert re.match(f"{kind} data (cut off|broken) after {len(got)} bytes of text", str(damage))
    assert LOG.startswith(got)


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_a_stream_without_a_byte_is_empty(kind: str) -> None:
    assert b"" == Decompressed(io.BytesIO(b""), kind).read()


def test_what_unpacks_to_far_too_much_is_stopped() -> None:
    budget = Budget(Limits(ratio_bytes=1 << 20))
    stream = Decompressed(io.BytesIO(gzip.compress(bytes(8 << 20))), "gzip", budget)
    item = UnpackedFile("bomb.gz", stream)
    got = sum(len(block) for block in read_blocks(item, 1 << 16))

    assert "it unpacks to more than 500 times its size (limit ratio); not read further" == (
        item.damaged
    )
    assert 1 << 20 <= got < 5 << 20


def test_a_log_that_shrinks_well_is_no_bomb() -> None:
    """Both must be too much: the size, and how often the file's own."""
    text = LOG * 20
    budget = Budget(Limits(ratio_bytes=1 << 10, repeated_bytes=1))
    stream = Decompressed(io.BytesIO(gzip.compress(text)), "gzip", budget)

    assert text == b"".join(iter(lambda: stream.read(1 << 16), b""))


def test_what_only_repeats_itself_is_stopped() -> None:
    budget = Budget(Limits(repeated_bytes=1 << 20))
    item = UnpackedFile(
        "zeros.gz", Decompressed(io.BytesIO(gzip.compress(bytes(32 << 20))), "gzip", budget)
    )
    got = sum(len(block) for block in read_blocks(item, 1 << 16))

    assert "only repeat a few (limit repeated_bytes)" in str(item.damaged)
    assert 4 << 20 <= got <= 5 << 20


def test_of_members_without_text_only_some_are_read() -> None:
    budget = Budget(Limits(repeated_bytes=10 << 10))
    packed = gzip.compress(LOG) + gzip.compress(b"") * 50 + gzip.compress(b"more")
    item = UnpackedFile("a.gz", Decompressed(io.BytesIO(packed), "gzip", budget))

    assert LOG == b"".join(read_blocks(item))
    assert "(limit repeated_bytes); not read further" in str(item.damaged)


def test_many_short_members_are_read_to_the_last() -> None:
    packed = b"".join(gzip.compress(b"%d\n" % number) for number in range(2000))
    stream = Decompressed(io.BytesIO(packed), "gzip")

    text = b"".join(iter(lambda: stream.read(1 << 16), b""))
    assert text == b"".join(b"%d\n" % number for number in range(2000))


def test_utf_16_that_ends_in_half_a_character_is_read_to_there() -> None:
    stream = DecodedText(io.BytesIO("[é€😀".encode("utf-16")[:-1]), "utf-16")

    assert "[é€\ufffd" == b"".join(iter(lambda: stream.read(3), b"")).decode()


@pytest.mark.parametrize("size", [1, 7, 4096])
@pytest.mark.parametrize("coding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_utf_16_that_turns_into_utf_8_and_back_is_read_to_the_end(coding: str, size: int) -> None:
    first, second, third = (f"[2026-11-18 {n}] INFO é and some words more\n" for n in range(3))
    raw = first.encode(coding) + (second * 2).encode() + third.encode(coding)
    stream = DecodedText(io.BytesIO(raw), coding)

    text = b"".join(iter(lambda: stream.read(size), b"")).decode()
    assert text == first + second * 2 + third
