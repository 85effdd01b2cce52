"""Whatever log is missing, the bounds of a loss hold what was really lost."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from forensics.detection.registry import detect
from forensics.sandbox import SandboxRun, run_archives
from tests.recorded_runs import read_recording

# Each case reads a whole recording.
pytestmark = pytest.mark.slow

LOGS = Path(__file__).parents[3] / "sample_logs" / "430-unclean" / "logs"
Bounds = Mapping[tuple[str, int | None], tuple[int, int | None]]


def bounds_of(found: SandboxRun) -> Bounds:
    return {
        (loss.partition, loss.leader_epoch): (loss.lost_records_min, loss.lost_records_max)
        for finding in detect(found.tables, found.past).findings
        if finding.detector == "unclean-election"
        for loss in finding.losses
    }


@pytest.fixture(scope="module")
def true(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, int | None], int]:
    whole = bounds_of(read_recording(tmp_path_factory, "430-unclean"))
    assert all(least == most for least, most in whole.values())
    return {key: least for key, (least, _) in whole.items()}


def without(folder: Path, node: str) -> Path:
    shutil.copytree(LOGS, folder / "logs", ignore=shutil.ignore_patterns(node))
    return folder / "logs"


def gutted(folder: Path, node: str) -> Path:
    """Cut the middle third out of every file of a node."""
    shutil.copytree(LOGS, folder / "logs")
    for path in (folder / "logs" / node).iterdir():
        lines = path.read_bytes().splitlines(keepends=True)
        third = len(lines) // 3
        path.write_bytes(b"".join([*lines[:third], *lines[2 * third :]]))
    return folder / "logs"


@pytest.mark.parametrize("damage", [without, gutted], ids=["gone", "gutted"])
@pytest.mark.parametrize("node", ["broker-1", "broker-2", "controller-1"])
def test_bounds_hold_the_truth_where_a_node_is_missing(
    node: str, damage: object, true: Mapping[tuple[str, int | None], int], tmp_path: Path
) -> None:
    assert callable(damage)
    found = bounds_of(run_archives([str(damage(tmp_path, node))], tmp_path / "out"))

    wrong = {
        key: (least, most, true.get(key))
        for key, (least, most) in found.items()
        if key not in true or least > true[key] or (most is not None and most < true[key])
    }
    assert not wrong
