"""Atomic commit of the files of a store: all changes of a run take effect, or none.

New files are staged in `.new`. When they are whole, a journal says which files to move and which
to delete, and is then replayed. A killed run leaves either staged files, which the next run throws
away, or a journal, which it replays; replaying it twice does no more than replaying it once.
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from forensics.errors import ForensicsError
from forensics.run_output.integrity import read_json

STORE_FILE = "store.json"
# The user's own, never written here.
NOTES_FILE = "notes.yaml"
# What to do with a store whose files are damaged.
ADVICE = "Give the logs to `audit` again, with a new store."
# For what is thrown away after a run.
SCRATCH = ".scratch"
_STAGED = ".new"
_JOURNAL = ".commit.json"


class StoreFiles:
    """The committed files of one store, by names such as `weeks/2026-W46/week.json`."""

    def __init__(self, root: Path) -> None:
        """Take the folder; it is made when something is first put there."""
        self.root = root
        self._journal = root / _JOURNAL
        self._unfinished_journal = root / f"{_JOURNAL}.half"

    def refuse_other_folders(self) -> None:
        """Raise an error if the folder holds something else: nothing may be changed there."""
        if (self.root / STORE_FILE).is_file() or self._journal.is_file():
            return
        names = sorted(path.name for path in self.root.iterdir()) if self.root.is_dir() else []
        foreign = [name for name in names if name[0] not in "._" and name != NOTES_FILE]
        if foreign:
            raise ForensicsError(
                f"{self.root} is no store: it has no {STORE_FILE}, but holds {foreign[0]}. Give "
                "the folder of an earlier audit, or an empty or new one."
            )

    def recover(self) -> None:
        """Complete what a killed run has committed, or drop what it has not; needs the lock."""
        if self._journal.is_file():
            self._replay_journal()
        self._clean_up()

    def find(self, name: str) -> Path | None:
        """Return the path of a file, if it is there."""
        path = self.root / name
        return path if path.is_file() else None

    def names(self, folder: str = "") -> list[str]:
        """List all files below a folder of the store."""
        return sorted(_list_files(self.root, folder))

    def begin(self) -> Transaction:
        """Begin to stage changes."""
        self._clean_up()
        return Transaction(self)

    def settle(self) -> None:
        """Complete what a run has committed that ends before its time, or drop what it has not.

        A disk that fails leaves that to the next run.
        """
        with suppress(OSError, ForensicsError):
            self.recover()

    def commit(self, changed: Collection[str], deleted: Collection[str]) -> None:
        """Move staged files into place and delete others: all of it, by the next run if killed."""
        for name in changed:
            _sync(self.root / _STAGED / name)
        journal = json.dumps({"move": sorted(changed), "delete": sorted(deleted)}, indent=1)
        self._unfinished_journal.write_text(journal, encoding="utf-8")
        _sync(self._unfinished_journal)
        self._unfinished_journal.replace(self._journal)
        self._replay_journal()
        self._clean_up()

    def _replay_journal(self) -> None:
        journal = read_json(self._journal, ADVICE)
        names = [*(journal.get("move") or ()), *(journal.get("delete") or ())]
        for name in names:
            # Whoever may write into a store must not reach other folders by it.
            if not isinstance(name, str) or Path(name).is_absolute() or ".." in Path(name).parts:
                raise ForensicsError(
                    f"{self._journal} names {name!r}, no file of a store. {ADVICE}"
                )
        for name in journal["move"]:
            staged, target = self.root / _STAGED / name, self.root / name
            # A file that is no longer staged was moved by the run before.
            if staged.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                staged.replace(target)
        for name in journal["delete"]:
            (self.root / name).unlink(missing_ok=True)
            self._remove_empty_folders((self.root / name).parent)
        self._journal.unlink()

    def _remove_empty_folders(self, folder: Path) -> None:
        while folder != self.root and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent

    def _clean_up(self) -> None:
        for name in (_STAGED, SCRATCH):
            shutil.rmtree(self.root / name, ignore_errors=True)
        self._unfinished_journal.unlink(missing_ok=True)


class Transaction:
    """The files of a store with the staged changes over them, until `commit`."""

    def __init__(self, store: StoreFiles) -> None:
        """Begin with the committed files."""
        self._store = store
        # The folder of all that is staged, and one for what is thrown away after the run.
        self.staged = store.root / _STAGED
        self.scratch = store.root / SCRATCH
        self.staged.mkdir(parents=True, exist_ok=True)
        self._deleted: set[str] = set()

    def new_path(self, name: str) -> Path:
        """Return the path at which a new file is to be written."""
        path = self.staged / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, name: str, text: str) -> None:
        """Stage a small file."""
        self.new_path(name).write_text(text, encoding="utf-8", newline="\n")

    def find(self, name: str) -> Path | None:
        """Return the path of a file, of the staged one if there is one."""
        path = self.staged / name
        if path.is_file():
            return path
        return None if name in self._deleted else self._store.find(name)

    def read(self, name: str) -> str:
        """Return the text of a file, or "" if it is not there."""
        path = self.find(name)
        return path.read_text(encoding="utf-8", errors="replace") if path else ""

    def read_json(self, name: str) -> dict[str, Any] | None:
        """Return the object in a file, or None if it is not there."""
        path = self.find(name)
        return read_json(path, ADVICE) if path else None

    def names(self, folder: str = "") -> list[str]:
        """List all files below a folder, staged or committed."""
        committed = {*self._store.names(folder)} - self._deleted
        return sorted(committed.union(_list_files(self.staged, folder)))

    def delete(self, name: str) -> None:
        """Stage the deletion of a file."""
        (self.staged / name).unlink(missing_ok=True)
        self._deleted.add(name)

    def replace_folder(self, folder: str) -> Path:
        """Stage a whole folder anew: files that are not written again are deleted."""
        for name in self.names(folder):
            self.delete(name)
        path = self.staged / folder
        path.mkdir(parents=True, exist_ok=True)
        return path

    def commit(self) -> None:
        """Make all changes at once; files with the same content as before are left alone."""
        staged = set(_list_files(self.staged, ""))
        deleted = {name for name in self._deleted - staged if self._store.find(name)}
        self._store.commit([name for name in staged if self._is_changed(name)], deleted)
        self._deleted.clear()

    def _is_changed(self, name: str) -> bool:
        old = self._store.find(name)
        return old is None or not filecmp.cmp(old, self.staged / name, shallow=False)


def _list_files(root: Path, below: str) -> Iterator[str]:
    """List the files below a folder; hidden ones and those of a single run are no part of it."""
    for folder, folders, names in os.walk(root / below):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith((".", "_")):
                yield Path(folder, name).relative_to(root).as_posix()


def _sync(path: Path) -> None:
    """Flush a file to the disk before anything relies on it."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
