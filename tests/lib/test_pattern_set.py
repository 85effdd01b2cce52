"""One pass finds what RE2 finds, pattern by pattern."""

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.lib.pattern_set import PatternSet, open_pattern_set

WORDS = ["ab", "b", "ab\tc", "]", "é", "Broker id=", " is ", ".", ""]
PATTERNS = ["", "a.*b", *(re.escape(word) for word in WORDS if word), r"\]\ .*\ is\ ", "x\\\ny"]
PATTERNS += [r"(?i:token|pw\W)", r"\bab"]
pieces = st.sampled_from([*WORDS, "TOKEN", "pw", "\r", "\x00", "x\ny"])
texts = st.lists(st.lists(pieces, max_size=6).map("".join), max_size=8)
hyperscan = pytest.mark.skipif(open_pattern_set(["a"]) is None, reason="no Hyperscan")


def pairs(patterns: PatternSet, column: pa.Array) -> list[tuple[int, int]] | None:
    found = patterns.find(column)
    return None if found is None else list(zip(*map(list, found), strict=True))


def one_by_one(patterns: Sequence[str], column: pa.Array) -> list[tuple[int, int]]:
    found = []
    for number, pattern in enumerate(patterns):
        has = pc.fill_null(pc.match_substring_regex(column, pattern), False).to_pylist()
        found += [(number, row) for row, hit in enumerate(has) if hit]
    return found


@pytest.fixture(scope="module")
def known() -> PatternSet:
    return PatternSet(PATTERNS)


@hyperscan
@settings(max_examples=150)
@given(texts)
def test_every_pair_is_found_once(known: PatternSet, lines: list[str]) -> None:
    # A null has no pattern; bytes are searched as they are.
    column = pa.array([*(line.encode() for line in lines), None, b"\xff ab"], pa.binary())
    crossing = PATTERNS.index(r"(?i:token|pw\W)")
    found, expected = pairs(known, column), one_by_one(PATTERNS, column)
    assert found is not None
    assert [one for one in found if one[0] != crossing] == [
        one for one in expected if one[0] != crossing
    ]
    # This one takes the end of a line for what stands behind "pw".
    assert set(found) >= set(expected)


@hyperscan
def test_a_loaded_set_finds_the_same(known: PatternSet) -> None:
    column = pa.array([b"ab", b"Broker id=", b"", b"ab"])
    assert pairs(PatternSet(PATTERNS, known.to_bytes()), column) == pairs(known, column)


@hyperscan
def test_what_was_compiled_for_another_machine_is_compiled_again(known: PatternSet) -> None:
    column = pa.array([b"ab", b"Broker id="])
    assert pairs(PatternSet(PATTERNS, b"for another"), column) == pairs(known, column)


@hyperscan
def test_anchors_are_those_of_each_text() -> None:
    column = pa.array([b"b", b"a", b"xa", b"ax"])
    assert pairs(PatternSet(["^a", "a$", "x"]), column) == [
        (0, 1),
        (0, 3),
        (1, 1),
        (1, 2),
        (2, 2),
        (2, 3),
    ]


@hyperscan
def test_a_text_that_matches_everywhere_is_left_to_others() -> None:
    assert pairs(PatternSet(["a"]), pa.array([b"a" * 1000])) is None
    assert pairs(PatternSet(["a"]), pa.array([b"a"] * 1000)) is not None


@hyperscan
def test_no_text_has_no_pattern(known: PatternSet) -> None:
    assert pairs(known, pa.array([], pa.binary())) == []
    assert pairs(PatternSet(["a"]), pa.array([b"", None], pa.binary())) == []


def test_patterns_that_it_does_not_know_are_left_to_others() -> None:
    assert open_pattern_set([r"(?=a)b"]) is None


def test_without_hyperscan_there_is_no_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forensics.lib.pattern_set.hyperscan", None)
    assert open_pattern_set(["a"]) is None
