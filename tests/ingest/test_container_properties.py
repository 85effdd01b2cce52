"""However archives are packed, cut, flipped or put together: no exception, all sums are right."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingest.packings import PACKINGS, Found, damage, random_tree, unpack

packings = st.sampled_from(sorted(PACKINGS))
seeds = st.integers(0, 1 << 32)
quickly = settings(max_examples=25, deadline=None)


def read(content: bytes) -> Found:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "logs")
        path.write_bytes(content)
        return unpack(path)


@quickly
@given(packings, seeds)
def test_what_is_whole_gives_every_text_and_no_word(packing: str, seed: int) -> None:
    tree = random_tree(Random(seed))

    found = read(PACKINGS[packing](tree))

    assert sorted(tree.values()) == sorted(found.texts.elements())
    assert () == found.said


@quickly
@given(packings, seeds)
def test_two_archives_put_together_are_both_read(packing: str, seed: int) -> None:
    first, second = random_tree(Random(seed)), random_tree(Random(seed + 1))

    found = read(PACKINGS[packing](first) + PACKINGS[packing](second))

    assert all(found.texts[text] for text in (*first.values(), *second.values()))


@settings(max_examples=60, deadline=None)
@given(packings, seeds, st.integers(1, 3))
def test_damage_ends_no_run_and_is_said(packing: str, seed: int, times: int) -> None:
    random = Random(seed)
    tree = random_tree(random)
    packed = PACKINGS[packing](tree)
    for _ in range(times):
        packed = damage(random, packed)

    # The sums of all containers are compared on the way.
    found = read(packed)

    lost = [text for text in tree.values() if not found.texts[text]]
    # A tar has no checksum of its members, and what nobody knows for an archive is a file.
    checked = packing != "tar" and found.containers
    assert not lost or found.said or not checked
