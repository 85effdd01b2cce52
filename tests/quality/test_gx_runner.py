"""Great Expectations at work: one batch a table, nobody told, and no answer is a failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from forensics.quality.expectations import Expectation
from forensics.quality.gx_runner import GxRunner

ROOT = Path(__file__).parents[2]
# Watches the process from its first line: whatever opens a connection or asks for an address.
WATCHED = """
import os, sys
os.environ["GX_ANALYTICS_ENABLED"] = "true"
seen = []
sys.addaudithook(lambda event, _: seen.append(event) if event.startswith("socket.") else None)
import pandas as pd
from pathlib import Path
from forensics.quality.gx_runner import GxRunner
from forensics.quality.expectations import load_expectations
one = [one for one in load_expectations() if one.table == "archive"]
runner = GxRunner(Path(sys.argv[1]))
row = {"records": 1, "parsed_share": 1.0}
answers = runner.validate("archive", pd.DataFrame([row]), one)
runner.close()
assert [True] * 3 == [answer.passed for answer in answers], answers
assert "false" == os.environ["GX_ANALYTICS_ENABLED"]
assert runner._context.config.analytics_enabled is False
# What would take nearly half of the import was not needed.
assert not {"altair.vegalite", "scipy.stats.distributions"} & sys.modules.keys()
# On import urllib3 binds a socket of this machine, to learn whether there is IPv6.
print(sorted(set(seen) - {"socket.__new__", "socket.bind"}))
"""


def expected(kind: str, **more: Any) -> Expectation:
    where = more.pop("where", {})
    return Expectation(f"e-{len(more)}-{kind}", "files", kind, "W.", "o", "note", more, where)


def test_nothing_is_sent_to_anybody_and_data_docs_are_local(tmp_path: Path) -> None:
    """Also where the environment asks for it: the hook would see the first attempt."""
    # A file: where there is none, PySpark takes the process for its own tests and ends it.
    (tmp_path / "watched.py").write_text(WATCHED)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "watched.py"), str(tmp_path / "docs")],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ("[]\n", 0) == (done.stdout, done.returncode), done.stderr[-2000:]
    page = (tmp_path / "docs/index.html").read_text("utf-8")
    assert "archive" in page
    told = next((tmp_path / "docs/validations").rglob("*.html")).read_text("utf-8")
    assert "records" in told


def test_answers_name_the_rows_that_fail_and_keep_the_order() -> None:
    frame = pd.DataFrame({"role": ["a", "b", "b", None], "x": [1.0, 2.0, 9.0, 50.0]})
    most = {"column": "x", "max_value": 5}
    asked = [
        expected("ExpectTableRowCountToBeBetween", min_value=1),
        expected("ExpectColumnValuesToBeBetween", **most),
        expected("ExpectColumnValuesToBeBetween", **most, strict_max=True, where={"role": "b"}),
        expected("ExpectColumnValuesToBeInSet", column="x", value_set=[1, 50],
                 where={"role": ["a", "c"], "x": 1.0}),
        expected("ExpectColumnMeanToBeBetween", **most, where={"role": None}),
        expected("ExpectColumnDistinctValuesToContainSet", column="role", value_set=["a", "z"]),
    ]  # fmt: skip
    found = GxRunner().validate("files", frame, asked)

    assert [True, False, False, True, False, False] == [one.passed for one in found]
    assert [(), (2, 3), (2,), (), (), ()] == [tuple(one.rows) for one in found]
    assert ["4", "2 of 4", "1 of 2", "all 1", "50.0", "missing: z"] == [
        one.observed for one in found
    ]
    assert [9.0, 50.0] == list(found[1].values)


@pytest.mark.parametrize(
    "one",
    [
        expected("ExpectColumnValuesToBeBetween", column="nowhere", max_value=5),
        expected("ExpectColumnValuesToBeBetween", column="role", max_value=5),
    ],
)
def test_what_cannot_be_asked_does_not_hold(one: Expectation) -> None:
    """The library keeps what was raised, and says success is false in another place."""
    (found,) = GxRunner().validate("files", pd.DataFrame({"role": ["a"]}), [one])

    assert not found.passed
    assert found.observed.startswith("it could not be asked: ")
