"""findings.json: the same bytes, safe for every reader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forensics.run_output.findings import write_findings
from tests.report.sample_runs import document, finding, unclean_findings


def test_order_of_keys_and_findings_does_not_matter(tmp_path: Path) -> None:
    """Whatever order the detectors ran in, the bytes are the same."""
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    write_findings(document(unclean_findings()), one)
    turned = [dict(reversed(found.items())) for found in reversed(unclean_findings())]
    write_findings(dict(reversed(document(turned).items())), other)

    assert one.read_bytes() == other.read_bytes()
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["one.json", "other.json"]


def test_the_file_is_read_easily(tmp_path: Path) -> None:
    """One space of indent, letters as they are, a line end at the end."""
    write_findings(document([finding("F-1", "x", "low", title="Zürich")]), tmp_path / "f.json")
    text = (tmp_path / "f.json").read_text(encoding="utf-8")

    assert text.startswith('{\n "schema": 1,\n "verdict": ')
    assert text.endswith("]\n}\n")
    assert "Zürich" in text


def test_hostile_text_is_kept_but_harmless(tmp_path: Path) -> None:
    """Controls read back as they were; half a pair becomes its code; no raw control is left."""
    title = "a\x1b[31m\x9b\u202eb\udc80"
    write_findings(document([finding("F-1", "x", "low", title=title)]), tmp_path / "f.json")
    raw = (tmp_path / "f.json").read_text(encoding="utf-8")

    assert not {"\x1b", "\x9b", "\u202e"} & set(raw)
    assert json.loads(raw)["findings"][0]["title"] == "a\x1b[31m\x9b\u202eb\\udc80"


def test_numbers_that_json_lacks_become_null(tmp_path: Path) -> None:
    """NaN and infinity would break every strict reader."""
    measures = {"a": float("nan"), "b": [float("inf"), 1.5]}
    write_findings(document([finding("F-1", "x", "low", measures=measures)]), tmp_path / "f.json")

    read = json.loads((tmp_path / "f.json").read_text(encoding="utf-8"))
    assert read["findings"][0]["measures"] == {"a": None, "b": [None, 1.5]}


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    """A failure half-way does not touch what was there."""
    path = tmp_path / "f.json"
    write_findings(document([]), path)
    before = path.read_bytes()

    with pytest.raises(TypeError):
        write_findings(document([]) | {"window": object()}, path)
    assert path.read_bytes() == before
