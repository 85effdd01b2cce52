"""On Spark a page says the very same as when it is made in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.page_outline import outline
from tests.spark.conftest import Run

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parents[1] / "golden/pages"


def test_the_page_of_spark_says_what_is_kept(run: Run) -> None:
    """Each sample is named by the folder that its archive lies in."""
    wanted = (GOLDEN / f"{run.archive.parent.name}.txt").read_text("utf-8").splitlines()

    assert outline((run.out / "report.html").read_text("utf-8")).splitlines() == wanted
