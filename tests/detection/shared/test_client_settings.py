"""Of each client the settings of its last start, and no other client's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forensics.detection.shared.client_settings import find_client_starts
from tests.detection.cases import SECOND, case, event

Row = dict[str, Any]


def start(second: float, name: str, age: str, node: str = "app") -> list[Row]:
    values = {"client.id": name, "metadata.max.age.ms": age}
    return [event(second, node, "client_setting_seen", setting=setting, value=value,
                  offset=int(second))
            for setting, value in values.items()]  # fmt: skip


def ages(folder: Path, events: list[Row], *clients: str, until: float = 100) -> list[int | None]:
    found = find_client_starts(case(folder, events=events), "app", clients, int(until * SECOND))
    return [one.number("metadata.max.age.ms") for one in found]


def test_the_last_start_before_a_moment_counts(tmp_path: Path) -> None:
    events = [*start(1, "a", "10"), *start(50, "a", "20"), *start(200, "a", "30")]

    assert ages(tmp_path, events, "a") == [20]


def test_each_client_has_its_own(tmp_path: Path) -> None:
    events = [*start(1, "a", "10"), *start(2, "b", "20"), *start(3, "a", "5", node="other")]

    assert ages(tmp_path, events, "b", "a") == [10, 20]


def test_settings_without_a_name_are_those_of_a_client_that_is_not_named(tmp_path: Path) -> None:
    events = [*start(1, "", "10"), *start(2, "b", "20")]

    assert ages(tmp_path, events, "producer-1") == [10]
    (tmp_path / "none").mkdir()
    assert ages(tmp_path / "none", start(2, "b", "20"), "producer-1") == []


def test_what_is_no_number_is_none(tmp_path: Path) -> None:
    assert ages(tmp_path, start(1, "a", "null"), "a") == [None]
