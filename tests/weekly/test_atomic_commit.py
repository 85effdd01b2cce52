"""What a store's files go through: drafted, then all of them in their places, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.weekly.atomic_commit import StoreFiles


@pytest.fixture
def store(tmp_path: Path) -> StoreFiles:
    (tmp_path / "weeks" / "a").mkdir(parents=True)
    (tmp_path / "store.json").write_text("{}")
    (tmp_path / "weeks" / "a" / "old.txt").write_text("old")
    (tmp_path / "weeks" / "a" / "same.txt").write_text("same")
    return StoreFiles(tmp_path)


def test_a_draft_lies_over_what_is_there(store: StoreFiles) -> None:
    draft = store.begin()
    draft.write("weeks/b/new.txt", "new")
    draft.delete("weeks/a/old.txt")

    assert ["weeks/a/same.txt", "weeks/b/new.txt"] == draft.names("weeks")
    assert draft.find("weeks/a/old.txt") is None
    assert store.find("weeks/b/new.txt") is None
    assert store.find("weeks/a/old.txt") is not None


def test_a_draft_that_is_committed_leaves_nothing_else(store: StoreFiles) -> None:
    draft = store.begin()
    (draft.scratch / "deep").mkdir(parents=True)
    draft.write("weeks/b/new.txt", "new")
    for name in ("weeks/a/old.txt", "weeks/a/same.txt"):
        draft.delete(name)
    draft.commit()

    assert ["store.json", "weeks/b/new.txt"] == store.names()
    assert {"store.json", "weeks"} == {path.name for path in store.root.iterdir()}
    # Folders without a file are gone, too.
    assert ["b"] == [path.name for path in (store.root / "weeks").iterdir()]
    assert draft.find("weeks/b/new.txt") is not None


def test_a_folder_that_is_renewed_keeps_only_what_is_written_again(store: StoreFiles) -> None:
    draft = store.begin()
    folder = draft.replace_folder("weeks/a")
    (folder / "same.txt").write_text("same")
    before = (store.root / "weeks" / "a" / "same.txt").stat().st_ino
    draft.commit()

    assert ["store.json", "weeks/a/same.txt"] == store.names()
    # What is as it was is left as it is.
    assert before == (store.root / "weeks" / "a" / "same.txt").stat().st_ino


def test_a_draft_that_was_left_behind_is_thrown_away(store: StoreFiles) -> None:
    store.begin().write("weeks/b/half.txt", "half")
    store.recover()

    assert not (store.root / ".new").exists()
    assert ["store.json", "weeks/a/old.txt", "weeks/a/same.txt"] == store.names()


def test_a_journal_that_was_left_behind_is_followed(store: StoreFiles) -> None:
    draft = store.begin()
    draft.write("weeks/b/one.txt", "one")
    draft.write("weeks/b/two.txt", "two")
    (store.root / "weeks" / "b").mkdir()
    # As after a kill: one file has been moved already, and nothing has been deleted.
    (store.root / ".new" / "weeks" / "b" / "one.txt").rename(store.root / "weeks" / "b" / "one.txt")
    (store.root / ".commit.json").write_text(
        '{"move": ["weeks/b/one.txt", "weeks/b/two.txt"], "delete": ["weeks/a/old.txt"]}'
    )
    store.recover()

    assert [
        "store.json", "weeks/a/same.txt", "weeks/b/one.txt", "weeks/b/two.txt",
    ] == store.names()  # fmt: skip
    assert not (store.root / ".commit.json").exists()


def test_what_is_on_its_way_is_not_abandoned(store: StoreFiles) -> None:
    store.begin().write("weeks/b/new.txt", "new")
    (store.root / ".commit.json").write_text('{"move": ["weeks/b/new.txt"], "delete": []}')
    store.settle()

    assert store.find("weeks/b/new.txt") is not None
    assert not (store.root / ".commit.json").exists()


def test_a_run_that_is_interrupted_while_files_take_their_places_completes_that(
    store: StoreFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft, replace = store.begin(), Path.replace
    draft.write("weeks/b/one.txt", "one")
    draft.write("weeks/b/two.txt", "two")

    def stop(path: Path, target: Path) -> Path:
        if path.name == "two.txt":
            raise KeyboardInterrupt
        return replace(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", stop)
        with pytest.raises(KeyboardInterrupt):
            draft.commit()
    store.settle()

    assert ["weeks/b/one.txt", "weeks/b/two.txt"] == store.names("weeks/b")
    assert {"store.json", "weeks"} == {path.name for path in store.root.iterdir()}
