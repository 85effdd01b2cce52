"""A little of what `make fuzz` does at length: the same random inputs at each run."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.fuzz.__main__ import fuzz
from tests.fuzz.targets import TARGETS, Target

# `python -m tests.fuzz NAME --seed 3 --runs 1` makes the same input again.
_QUICK, _SLOW = range(3), range(3, 8)


@pytest.mark.parametrize(
    "seed", [*_QUICK, *(pytest.param(one, marks=pytest.mark.slow) for one in _SLOW)]
)
@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_random_inputs(target: Target, seed: int, tmp_path: Path) -> None:
    target(Random(seed), tmp_path)


def test_a_failing_input_is_kept_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(random: Random, folder: Path) -> None:
        (folder / "input").write_text(str(random.randrange(100)))
        raise ValueError("broken")

    monkeypatch.setitem(TARGETS, "fails", fails)

    assert 1 == fuzz(["fails"], 10, 7, tmp_path, 1)
    assert str(Random(7).randrange(100)) == (tmp_path / "fails-7/input").read_text()
    assert "ValueError: broken" in (tmp_path / "fails-7/why.txt").read_text()
    assert "python -m tests.fuzz fails --seed 7 --runs 1" in capsys.readouterr().out
