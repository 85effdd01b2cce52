"""notes.yaml is written by people: every mistake is told with its line, and with what was meant."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from forensics.errors import RuleError
from forensics.weekly.notes import Note, Notes, load_notes


def load(store: Path, text: str) -> Notes:
    (store / "notes.yaml").write_text(text, encoding="utf-8")
    return load_notes(store)


def test_no_notes_are_no_mistake(tmp_path: Path) -> None:
    assert load_notes(tmp_path) == Notes()
    assert load(tmp_path, "\n") == Notes()


def test_ids_and_signatures_are_keys(tmp_path: Path) -> None:
    notes = load(
        tmp_path,
        "F-3f2a91c0:\n  owner: ana\n  accepted_until: 2026-12-31\n"
        '"flapping-broker: broker 2":\n  ticket: OPS-12\n  comment: "disk: replaced"\n',
    )

    assert notes.entries == {
        "F-3f2a91c0": Note("ana", accepted_until=date(2026, 12, 31)),
        "flapping-broker: broker 2": Note(ticket="OPS-12", comment="disk: replaced"),
    }


def test_a_renamed_detector_keeps_its_notes(tmp_path: Path) -> None:
    text = 'aliases:\n  flappy: flapping-broker\n"flappy: broker 2":\n  owner: ana\n'
    notes = load(tmp_path, text).resolve_ids(())

    assert notes.entries.get("flapping-broker: broker 2") == Note("ana")


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("F-3f2a91c0:\n  ownr: ana\n", 2, "unknown key 'ownr'; did you mean 'owner'?"),
        ("F-3f2a91c0:\n  owner: ana\n  accepted until: 2026-12-31\n", 3,
         "did you mean 'accepted_until'?"),
        ("F-3f2a91c0:\n  accepted_until: next week\n", 2, "must be a day such as 2026-12-31"),
        ("F-3f2a91c0: accepted\n", 1, "say owner, ticket, accepted_until, comment"),
        ("F-3f2a91c0:\n  owner: [ana, bob]\n", 2, "owner must be one line of text"),
        ("\n\nF-3f2a:\n  owner: ana\n", 3, "names no finding"),
        ('"flaping-broker: broker 2":\n  owner: ana\n', 1, "did you mean 'flapping-broker'?"),
        ("alias:\n  a: b\n", 1, "did you mean 'aliases'?"),
        ("aliases:\n  old: flaping-broker\n", 2, "did you mean 'flapping-broker'?"),
        ("F-3f2a91c0:\n  owner: a\nF-3f2a91c0:\n  owner: b\n", 3, "duplicate key"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(tmp_path: Path, text: str, line: int, says: str) -> None:
    with pytest.raises(RuleError) as error:
        load(tmp_path, text)

    assert any(
        problem.file.endswith("notes.yaml") and problem.line == line and says in problem.message
        for problem in error.value.problems
    ), error.value


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(RuleError) as error:
        load(tmp_path, "F-3f2a91c0:\n  ownr: a\n  tiket: b\nF-1:\n  owner: c\n")

    assert [problem.line for problem in error.value.problems] == [2, 3, 4]


def test_detectors_of_ones_own_are_known(tmp_path: Path) -> None:
    (tmp_path / "notes.yaml").write_text('"ours: broker 2":\n  owner: ana\n', encoding="utf-8")

    assert load_notes(tmp_path, ["ours"]).entries == {"ours: broker 2": Note("ana")}
