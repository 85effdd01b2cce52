"""Every line that a real run cites is led back to the archive it came from."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from forensics.cli.app import jobs_folder, make_group
from forensics.ingest.line_lookup import look_up_lines
from forensics.ingest.read_plan import plan_reading
from forensics.lib.text_safety import escape_html
from forensics.run_output.reader import load_run
from tests.spark.conftest import Run

pytestmark = pytest.mark.spark


def show(*arguments: str | Path | int) -> tuple[int, str]:
    done = CliRunner().invoke(make_group(jobs_folder()), ["show", *map(str, arguments)])
    return done.exit_code, done.stdout


def test_the_lines_of_every_finding_are_where_the_page_says(run: Run) -> None:
    findings = load_run(run.out).findings
    assert findings

    for finding in findings:
        code, told = show(finding.id, "--out", run.out, "--archive", run.archive, "-C", 0)
        assert code == 0, told
        assert told.count("  the line that was cited\n") == len(finding.evidence)


def test_twenty_chips_of_the_page_lead_to_the_very_line(run: Run) -> None:
    """The plain command that `show` prints gives the same line as the page."""
    page = (run.out / "report.html").read_text("utf-8")
    cited = [proof for finding in load_run(run.out).findings for proof in finding.evidence]
    chips = [one for one in cited if escape_html(f"{one.file}:{one.line}") in page]
    chosen = random.Random(7).sample(chips, 20)

    for proof in chosen:
        place = f"{proof.file}:{proof.line}"
        code, told = show(place, "--out", run.out, "--archive", run.archive, "-C", 0)
        assert code == 0, told
        shown = told[told.index("$ ") + 2 :].splitlines()[0]
        if not shutil.which(tool := shown.split()[0]):
            pytest.skip(f"THE COMMAND THAT show PRINTS IS NOT TRIED: no {tool} here")
        plain = subprocess.run(["bash", "-c", shown], capture_output=True, text=True, check=True)
        assert plain.stdout.rstrip("\n").startswith(proof.text)
        assert f"> {proof.line}  {proof.text}" in told
        assert escape_html(proof.text) in page


def test_offsets_are_those_of_the_table_of_events(recorded: Callable[[str], Run]) -> None:
    run = recorded("430-unclean")
    rows = load_run(run.out).rows("events", ["file", "line", "offset", "kind"])
    # A setting has a line of its own, and the offset of the record that it stands in.
    rows = [row for row in rows if not row["kind"].endswith("setting_seen")]
    chosen = random.Random(7).sample(rows, 300)
    wanted: dict[str, list[int]] = {}
    for row in chosen:
        wanted.setdefault(row["file"], []).append(row["line"])

    found = look_up_lines(plan_reading([str(run.archive)]), wanted)

    for row in chosen:
        assert found[row["file"]][0].lines[row["line"]].offset == row["offset"]
