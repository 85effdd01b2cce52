"""What the pages of recorded clusters say, word for word, and that they always say it alike.

After a change that is meant: UPDATE_GOLDEN=1 pytest tests/report/test_golden_pages.py, and read
what `git diff tests/golden/pages` shows before it is committed.
"""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.report.page_outline import outline
from tests.report.recorded import RECORDINGS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/pages"
Recorded = Callable[[str], Path]


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_page_says_what_it_said(name: str, recorded: Recorded) -> None:
    says = outline((recorded(name) / "report.html").read_text("utf-8"))
    kept = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        kept.write_text(says, encoding="utf-8")
    wanted = kept.read_text("utf-8")

    differs = list(difflib.unified_diff(wanted.splitlines(), says.splitlines(), lineterm="", n=1))
    assert differs == [], "the page says something else than tests/golden/pages; is that meant?"


def test_no_other_page_is_kept() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(RECORDINGS)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "430-unclean",
            "critical 3,400 records lost in metrics-firehose after an unclean leader election",
        ),
        (
            "282-flapping",
            "high Broker 2 crashed 3 times and did not come back; broker 3 froze 3 times; 17 part",
        ),
        (
            "391-controllers",
            "high Brokers 1 (twice), 2 and 3 crashed one after the other within 1 min 10 s; 24 ",
        ),
        ("391-rolling", "clear No incident in these logs"),
    ],
)
def test_what_is_kept_is_the_answer_that_an_expert_would_give(name: str, says: str) -> None:
    """A careless update must not make a wrong page the rule."""
    lines = (GOLDEN / f"{name}.txt").read_text("utf-8").splitlines()

    assert lines[lines.index("## Summary") + 1].startswith(says)


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same postmortems by another process, with other hashes, elsewhere on Earth."""
    out = tmp_path_factory.mktemp("again")
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    here = os.environ | {"PYTHONHASHSEED": seed, "TZ": "Asia/Kolkata", "LC_ALL": "C"}
    subprocess.run(
        [sys.executable, "-m", "tests.report.recorded", str(out)],
        cwd=ROOT, env=here, check=True, capture_output=True,
    )  # fmt: skip
    return out


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_second_run_gives_the_same_bytes(name: str, recorded: Recorded, again: Path) -> None:
    for made in ("findings.json", "report.html"):
        assert (again / name / made).read_bytes() == (recorded(name) / made).read_bytes(), made


def test_an_outline_has_all_that_people_read(recorded: Recorded) -> None:
    """A page that changes one word in any of its parts would not pass."""
    page = (recorded("430-unclean") / "report.html").read_text("utf-8")
    before = outline(page)
    parts = (
        ">Data loss", "18 of 28 partitions unavailable", "3,400 records lost in metrics-firehose",
        ">app-billing", "Broker 2 crashed", "logs/controller-1/controller.log:97",
    )  # fmt: skip

    for part in parts:
        assert part in page, part
        assert outline(page.replace(part, part + "x")) != before, part
