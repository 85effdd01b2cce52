"""A little of what `make fuzz` does at length: the same random inputs at each run."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.__main__ import fuzz
from tests.fuzz.targets import TARGETS, Target

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


# Drawing a page takes its time.
_FEW = {"saved_outputs_are_read_or_refused": 2}


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_random_inputs(target: Target) -> None:
    @settings(max_examples=_FEW.get(target.__name__, 5), suppress_health_check=_SLOW)
    @given(st.randoms(use_true_random=False))
    def holds(random: Random) -> None:
        with TemporaryDirectory() as folder:
            target(random, Path(folder))

    holds()


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
