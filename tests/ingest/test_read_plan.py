"""The plan: who reads which bytes. Every byte has one reader, and the same plan comes out again."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.ingest.read_plan import Split, bundle_splits, plan_reading
from forensics.settings import SPLIT_SIZE
from tests.ingest.sample_archives import LOG, gzipped, tarred, write, zipped

splits = st.builds(
    lambda name, number, size: Split(name, name, "range", number, 0, size, size),
    st.sampled_from(["a", "b", "c"]),
    st.integers(0, 9),
    st.integers(0, 4 * SPLIT_SIZE),
)


@given(st.integers(0, 500), st.integers(1, 600))
def test_splits_cover_every_byte_once(size: int, split_size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "server.log")
        path.write_bytes(b"x" * size)
        found = plan_reading([str(path)], split_size).splits
    ranges = [split for split in found if split.role == "range"]
    digests = [(split.begin, split.end) for split in found if split.role == "digest"]

    assert list(range(size)) == [at for split in ranges for at in range(split.begin, split.end)]
    assert list(range(len(ranges))) == [split.number for split in ranges]
    assert all(split.end - split.begin <= split_size for split in ranges)
    # Whoever reads the whole file knows its digest already.
    assert ([(0, size)] if len(ranges) > 1 else []) == digests


def test_a_plain_tar_s_members_are_split_in_place(tmp_path: Path) -> None:
    path = tmp_path / "logs.tar"
    path.write_bytes(tarred({"server.log": LOG}))
    ranges = [split for split in plan_reading([str(path)], 4096).splits if split.role == "range"]
    packed = path.read_bytes()

    assert len(ranges) > 5
    assert LOG == b"".join(
        packed[one.data_offset + one.begin : one.data_offset + one.end] for one in ranges
    )


def test_what_is_compressed_is_one_stream(tmp_path: Path) -> None:
    path = tmp_path / "logs.tar"
    path.write_bytes(tarred(gzipped({"a": LOG})))
    zip_path = tmp_path / "logs.zip"
    zip_path.write_bytes(zipped({"a": LOG, "b": LOG}))
    found = plan_reading([str(path), str(zip_path)], 1024).splits

    assert [("logs.tar!a", "stream"), ("logs.zip!a", "zip"), ("logs.zip!b", "zip")] == [
        (split.file, split.role) for split in found
    ]


def test_a_folder_s_files_are_listed_in_the_order_of_their_names(tmp_path: Path) -> None:
    names = ["b/z.log", "a.log", "b/a.log", "c.log", "a/q.log"]
    root = write(tmp_path / "logs", dict.fromkeys(names, b"x"))

    assert ["a.log", "c.log", "a/q.log", "b/a.log", "b/z.log"] == [
        split.file.removeprefix("logs/") for split in plan_reading([str(root)]).splits
    ]


def test_archives_of_one_name_get_different_labels(tmp_path: Path) -> None:
    roots = [write(tmp_path / host / "logs", {"server.log": LOG}) for host in ("a", "b", "c")]
    files = [split.file for split in plan_reading([str(root) for root in roots]).splits]

    assert ["logs/server.log", "logs#2/server.log", "logs#3/server.log"] == files


def test_an_archive_may_be_named_with_dots_and_slashes(tmp_path: Path) -> None:
    root = write(tmp_path / "logs", {"a/server.log": LOG})
    named = [str(root) + "/", str(root / "a" / ".."), str(root / ".")]

    assert {"logs/a/server.log", "logs#2/a/server.log", "logs#3/a/server.log"} == {
        split.file for split in plan_reading(named).splits
    }


@given(st.lists(splits, max_size=60), st.integers(1, 8), st.randoms())
def test_tasks_hold_every_split_once_whatever_the_order(
    found: list[Split], workers: int, order: object
) -> None:
    bundles = bundle_splits(found, workers)
    order.shuffle(found)  # type: ignore[attr-defined]

    assert Counter(found) == Counter(split for bundle in bundles for split in bundle)
    assert bundles == bundle_splits(found, workers)


@given(st.lists(splits, min_size=1, max_size=60), st.integers(1, 8))
def test_tasks_are_balanced(found: list[Split], workers: int) -> None:
    """No task has more to read than the lightest one and one split."""
    loads = [sum(split.cost for split in bundle) for bundle in bundle_splits(found, workers)]

    assert max(loads) - min(loads) <= max(split.cost for split in found)
    assert len(loads) >= min(workers, len(found))


def test_small_files_share_a_task() -> None:
    many = [Split(f"{n}.log", f"{n}.log", "range", 0, 0, 1000, 1000) for n in range(5000)]

    assert len(bundle_splits(many, 2)) < 10


def test_no_cluster_gets_more_tasks_than_it_can_bear() -> None:
    many = [Split(f"{n}", f"{n}", end=10 * SPLIT_SIZE) for n in range(3000)]

    assert 2000 == len(bundle_splits(many, 4))


@pytest.mark.parametrize("more", [{"role": "guess"}, {"begin": 5, "end": 4}])
def test_an_impossible_split_cannot_be_made(more: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="impossible split"):
        Split("a", "a", **more)  # type: ignore[arg-type]
