"""Without a folder for temporary files the run says so before Java does."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from forensics.engine.java import _scratch_folder
from forensics.errors import ForensicsError


def test_a_folder_that_can_be_written_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    assert _scratch_folder() == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "gone"))

    with pytest.raises(ForensicsError, match=r"No temporary files can be written in .*/gone: "):
        _scratch_folder()
