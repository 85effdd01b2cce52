"""A record and a line count must not depend on where the bytes were split."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.ingest.record_splitter import LineCounts, Records, RecordSplitter, SplitterOptions
from forensics.ingest.record_starts import Signature

SIGNATURES = [Signature.of("[dd] "), Signature.of("d|")]

lines = st.sampled_from(
    [b"[12] hello", b"[34] x", b"7|rd", b"\tat java", b"", b"   ", b"loose", b"[1", b"\r", b" \t\r",
     b"\0[\x001\x002\0]\0 \0w\0i\0d\0e\0", b"\xef\xbb\xbf[12] marked"]
)  # fmt: skip
texts = st.builds(
    lambda parts, end: b"\n".join(parts) + end,
    st.lists(lines, max_size=30),
    st.sampled_from([b"", b"\n"]),
)


def records_of(cut: Records | None, base: int) -> list[tuple[int, int, bytes]]:
    if cut is None:
        return []
    return [
        (int(number) + base, int(place), cut.data[start:end].tobytes())
        for number, place, start, end in zip(
            cut.lines, cut.offsets, cut.starts, cut.ends, strict=True
        )
    ]


def run(
    text: bytes, begin: int, limit: int | None, block: int, base: int, *, headless: bool
) -> tuple[list[tuple[int, int, bytes]], LineCounts]:
    """Do what a reader does: skip the line that began before the split, then feed on blocks."""
    at = begin
    if begin:
        newline = text.find(b"\n", begin - 1)
        at = len(text) if newline < 0 else newline + 1
    cutter = RecordSplitter(SIGNATURES, SplitterOptions(at, limit, begin > 0, headless))
    found = []
    while at < len(text) and not cutter.done:
        part = text[at : at + block]
        at += len(part)
        found += records_of(cutter.feed(part, final=at >= len(text)), base)
    return found, cutter.counts


@settings(max_examples=400, deadline=None)
@given(texts, st.lists(st.integers(1, 200), max_size=4), st.integers(1, 40), st.booleans())
def test_any_split_and_any_block_give_the_same_records_and_the_same_account(
    text: bytes, points: list[int], block: int, headless: bool
) -> None:
    """Splitting anywhere changes neither a record, nor its line number, nor the sums."""
    whole, expected = run(text, 0, None, 1 << 20, 0, headless=headless)
    bounds = [0, *sorted({point for point in points if point < len(text)}), len(text)]
    found: list[tuple[int, int, bytes]] = []
    total = LineCounts()
    for begin, end in zip(bounds, bounds[1:], strict=False):
        part, account = run(text, begin, end, block, total.lines, headless=headless)
        found += part
        for name in (
            "bytes",
            "lines",
            "records",
            "continuation_lines",
            "blank_lines",
            "unparsed_lines",
            "stray_lines",
        ):
            setattr(total, name, getattr(total, name) + getattr(account, name))
        for kind, count in account.layouts.items():
            total.layouts[kind] = total.layouts.get(kind, 0) + count

    assert found == whole
    assert total == expected
    assert total.bytes == len(text)
    assert total.lines == text.count(b"\n") + (not text.endswith(b"\n") and text != b"")
    kinds = total.records + total.continuation_lines + total.blank_lines + total.unparsed_lines
    assert kinds == total.lines


def strays(text: bytes) -> tuple[int, int]:
    _, account = run(text, 0, len(text), 1 << 16, 0, headless=False)
    return account.continuation_lines, account.stray_lines


def test_lines_that_look_like_nobodys_are_counted_among_the_later_ones() -> None:
    trace = (
        b"org.apache.kafka.common.errors.TimeoutException: no\n\tat a.B.c(D.java:1)\n"
        b"Caused by: java.lang.OutOfMemoryError: heap\n\t... 12 more\n"
        b"    listeners = null\n]\n}\n"
    )
    assert (7, 0) == strays(b"[12] hello\n" + trace)
    assert (9, 2) == strays(b"[12] hello\n" + trace + b"request 7 took 3 ms\n\xff\xfe?\n")
    # what PowerShell appends to a file of other text
    assert (3, 3) == strays(b"[12] hello\n" + "a\nb\n".encode("utf-16-le"))


def test_what_comes_before_the_first_record_is_unknown_and_not_stray() -> None:
    assert (1, 1) == strays(b"loose\nloose\n[12] hello\nloose\n")
