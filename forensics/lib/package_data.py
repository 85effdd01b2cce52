"""Locates rules/ and jobs/: in the installed package, beside it in a checkout, or unpacked.

Executors get this package as a zip, from which Python can import modules but open no other file.
So the other files are unpacked once per machine, into a folder named by their content.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from zipimport import zipimporter

from forensics.errors import ForensicsError

_DATA = "forensics/_data/"


def data_folder(name: str) -> Path:
    """Return a folder of the top of a checkout: rules or jobs."""
    package = Path(__file__).parent.parent
    if (archive := _archive()) is not None:
        return _unpack(archive) / name
    installed = package / "_data" / name
    return installed if installed.is_dir() else package.parent / name


def asset_url(asset: str) -> str:
    """Return the URL of a file of forensics/assets/, as Java takes it."""
    archive = _archive()
    inside = Path(__file__).parent.parent / "assets" / asset
    if archive is None:
        return inside.as_uri()
    return f"jar:{archive.as_uri()}!/{inside.relative_to(archive).as_posix()}"


def _archive() -> Path | None:
    """Return the zip that this module was imported from, if any."""
    loader = __spec__.loader if __spec__ else None
    return Path(loader.archive).absolute() if isinstance(loader, zipimporter) else None


@cache
def _unpack(archive: Path) -> Path:
    """Unpack the data of a zip into a folder that only this user can write."""
    with zipfile.ZipFile(archive) as opened:
        found = [one for one in opened.infolist() if one.filename.startswith(_DATA)]
        named = "".join(f"{one.filename} {one.CRC} {one.file_size}\n" for one in found)
        name = f"data-{hashlib.sha256(named.encode()).hexdigest()[:16]}"
        for parent in _parents():
            with suppress(OSError):
                parent.mkdir(mode=0o700, exist_ok=True)
                if _is_ours(parent):
                    return _fill(opened, found, parent / name)
    raise ForensicsError(
        f"The rules inside {archive} cannot be unpacked: no temporary folder can be written."
        " Set TMPDIR to one that can."
    )


def _parents() -> Iterator[Path]:
    yield Path(tempfile.gettempdir()) / f"kafka-forensics-{os.getuid()}"
    # In the shared /tmp another user may have taken the name.
    yield Path(tempfile.mkdtemp(prefix="kafka-forensics-"))


def _is_ours(parent: Path) -> bool:
    found = parent.lstat()
    writable_by_others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not writable_by_others


def _fill(opened: zipfile.ZipFile, found: Sequence[zipfile.ZipInfo], target: Path) -> Path:
    """Fill a folder in one step, unless it is complete.

    This is checked each time: where old files in /tmp are swept away, no rule may go missing.
    """
    if not _is_complete(found, target):
        made = Path(tempfile.mkdtemp(dir=target.parent))
        for one in found:
            opened.extract(one, made / "new")
        # Another process may have filled the folder meanwhile.
        if target.exists() and not _is_complete(found, target):
            target.rename(made / "old")
        with suppress(OSError):
            (made / "new").rename(target)
        shutil.rmtree(made, ignore_errors=True)
    return target / _DATA


def _is_complete(found: Sequence[zipfile.ZipInfo], target: Path) -> bool:
    sizes = ((target / one.filename, one.file_size) for one in found if not one.is_dir())
    return all(path.is_file() and path.stat().st_size == size for path, size in sizes)
