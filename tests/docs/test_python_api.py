"""The Python API as docs/python-api.md and the notebook use it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import forensics

ROOT = Path(__file__).parents[2]


def blocks(page: Path) -> Iterator[str]:
    return iter(re.findall(r"(?ms)^```python\n(.*?)^```", page.read_text("utf-8")))


def cells(notebook: Path) -> Iterator[str]:
    told = json.loads(notebook.read_text("utf-8"))
    return ("".join(one["source"]) for one in told["cells"] if one["cell_type"] == "code")


def run(code: str, folder: Path, scratch: Path) -> str:
    # A file: where there is none, PySpark takes the process for its own tests and ends it.
    (scratch / "page.py").write_text(code)
    done = subprocess.run(
        [sys.executable, str(scratch / "page.py")],
        cwd=folder, env={"PYTHONPATH": str(ROOT), "TMPDIR": str(scratch)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_page_describes_every_name_and_no_other() -> None:
    page = (ROOT / "docs/python-api.md").read_text("utf-8")
    told = re.findall(r"`(\w+)", "".join(re.findall(r"(?m)^\| (`.*?) \|", page)))

    assert sorted({*forensics.__all__} - {"__version__"}) == sorted(told)
    assert all(callable(getattr(forensics, name)) for name in told)
    assert {*forensics.__all__} <= {*dir(forensics)}


def test_what_is_no_name_is_said_as_python_does() -> None:
    with pytest.raises(AttributeError, match="module 'forensics' has no attribute 'postmortems'"):
        _ = forensics.postmortems


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, forensics; print({'pyarrow', 'pandas', 'click'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert "set()\n" == done.stdout


@pytest.mark.slow
def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    (tmp_path / "sample_logs").symlink_to(ROOT / "sample_logs")
    said = run("\n".join(blocks(ROOT / "docs/python-api.md")), tmp_path, tmp_path)

    assert "\n3 incident " in said
    assert "'outages'" in said
    assert said.endswith("\n0\n")


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path) -> None:
    shown = "\nprint(result['summary'])\nprint(outages['seconds'].sum() > 0)"
    said = run("\n".join(cells(ROOT / "docs/notebook.ipynb")) + shown, ROOT / "docs", tmp_path)

    assert "records lost" in said
    assert said.endswith("\nTrue\n")
