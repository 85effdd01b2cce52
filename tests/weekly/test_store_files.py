"""What a store's files go through: drafted, then all of them in their places, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.weekly.store_files import StoreFiles


@pytest.fixture
def shelf(tmp_path: Path) -> StoreFiles:
    (tmp_path / "weeks" / "a").mkdir(parents=True)
    (tmp_path / "store.json").write_text("{}")
    (tmp_path / "weeks" / "a" / "old.txt").write_text("old")
    (tmp_path / "weeks" / "a" / "same.txt").write_text("same")
    return StoreFiles(tmp_path)


def test_a_draft_lies_over_what_is_there(shelf: StoreFiles) -> None:
    draft = shelf.begin()
    draft.write("weeks/b/new.txt", "new")
    draft.delete("weeks/a/old.txt")

    assert ["weeks/a/same.txt", "weeks/b/new.txt"] == draft.names("weeks")
    assert draft.find("weeks/a/old.txt") is None
    assert shelf.find("weeks/b/new.txt") is None
    assert shelf.find("weeks/a/old.txt") is not None


def test_a_draft_that_is_committed_leaves_nothing_else(shelf: StoreFiles) -> None:
    draft = shelf.begin()
    (draft.scratch / "deep").mkdir(parents=True)
    draft.write("weeks/b/new.txt", "new")
    for name in ("weeks/a/old.txt", "weeks/a/same.txt"):
        draft.delete(name)
    draft.commit()

    assert ["store.json", "weeks/b/new.txt"] == shelf.names()
    assert {"store.json", "weeks"} == {path.name for path in shelf.root.iterdir()}
    # Folders without a file are gone, too.
    assert ["b"] == [path.name for path in (shelf.root / "weeks").iterdir()]
    assert draft.find("weeks/b/new.txt") is not None


def test_a_folder_that_is_renewed_keeps_only_what_is_written_again(shelf: StoreFiles) -> None:
    draft = shelf.begin()
    folder = draft.replace_folder("weeks/a")
    (folder / "same.txt").write_text("same")
    before = (shelf.root / "weeks" / "a" / "same.txt").stat().st_ino
    draft.commit()

    assert ["store.json", "weeks/a/same.txt"] == shelf.names()
    # What is as it was is left as it is.
    assert before == (shelf.root / "weeks" / "a" / "same.txt").stat().st_ino


def test_a_draft_that_was_left_behind_is_thrown_away(shelf: StoreFiles) -> None:
    shelf.begin().write("weeks/b/half.txt", "half")
    shelf.recover()

    assert not (shelf.root / ".new").exists()
    assert ["store.json", "weeks/a/old.txt", "weeks/a/same.txt"] == shelf.names()


def test_a_journal_that_was_left_behind_is_followed(shelf: StoreFiles) -> None:
    draft = shelf.begin()
    draft.write("weeks/b/one.txt", "one")
    draft.write("weeks/b/two.txt", "two")
    (shelf.root / "weeks" / "b").mkdir()
    # As after a kill: one file has been moved already, and nothing has been deleted.
    (shelf.root / ".new" / "weeks" / "b" / "one.txt").rename(shelf.root / "weeks" / "b" / "one.txt")
    (shelf.root / ".commit.json").write_text(
        '{"move": ["weeks/b/one.txt", "weeks/b/two.txt"], "delete": ["weeks/a/old.txt"]}'
    )
    shelf.recover()

    assert [
        "store.json", "weeks/a/same.txt", "weeks/b/one.txt", "weeks/b/two.txt",
    ] == shelf.names()  # fmt: skip
    assert not (shelf.root / ".commit.json").exists()


def test_what_is_on_its_way_is_not_abandoned(shelf: StoreFiles) -> None:
    shelf.begin().write("weeks/b/new.txt", "new")
    (shelf.root / ".commit.json").write_text('{"move": ["weeks/b/new.txt"], "delete": []}')
    shelf.roll_back()
    shelf.recover()

    assert shelf.find("weeks/b/new.txt") is not None
