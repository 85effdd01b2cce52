"""The checks on the page: what does not hold comes first, with what follows and for whom."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from forensics.report.sections import quality, verdict
from forensics.run_output.reader import load_run
from forensics.schemas import CHECKS

Row = dict[str, Any]
Rewrite = Callable[[Path, Row], None]


def row(name: str, *, holds: bool, **more: Any) -> Row:
    plain = {"check": name, "table": "files", "words": f"What {name} is.", "success": holds,
             "observed": "1 of 3: <a>.log: 7", "consequence": "note", "otherwise": f"{name} broke",
             "expectation": "", "severity": "warning", "failed": 0, "findings": []}  # fmt: skip
    return plain | more


def drawn(out: Path, rows: list[Row]) -> str:
    folder = out / "tables" / "checks"
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=CHECKS), folder / "part-0.parquet")
    return str(quality.render(load_run(out)))


def test_where_nothing_was_checked_nothing_is_said(unclean: Path) -> None:
    assert quality.render(load_run(unclean)) == ""
    assert drawn(unclean, []) == ""


def test_checks_that_hold_are_counted_and_folded(unclean: Path) -> None:
    html = drawn(unclean, [row("good", holds=True), row("better", holds=True)])

    assert "2 checks, 0 failed. The gate is open." in html
    assert 'class="warning"' not in html
    assert html.index("<details") < html.index("What good is.")


def test_what_failed_is_told_first_and_links_to_what_it_touched(unclean: Path) -> None:
    html = drawn(
        unclean,
        [
            row("good", holds=True),
            row("noted", holds=False),
            row("lowers", holds=False, consequence="downgrade", findings=["F-3f2a91c0", "F-gone"]),
            row("closes", holds=False, consequence="close"),
        ],
    )

    assert "4 checks, 3 failed. The gate is closed." in html
    assert html.index("What closes") < html.index("What lowers") < html.index("What noted")
    assert (
        "It does not hold: lowers broke. Seen: 1 of 3: &lt;a&gt;.log: 7. So what rests on it is "
        'downgraded: <a href="#F-3f2a91c0">F-3f2a91c0</a>, <code>F-gone</code>.'
    ) in html
    assert "the gate is closed: nothing can be concluded from these logs." in html
    assert "<a>" not in html


def test_a_closed_gate_is_the_verdict(unclean: Path, rewrite: Rewrite) -> None:
    closed = {"gate": "closed", "closed": ["logs of a broker are missing (missing: <b>)"]}
    rewrite(unclean, {"verdict": "cannot_tell", "quality": closed})
    html = verdict.render(load_run(unclean))

    assert "cannot tell" in html
    assert "Cannot tell: the quality gate is closed, logs of a broker are missing" in html
    assert "Logs of a broker are missing (missing: &lt;b&gt;)." in html
    assert "Do not act on the findings below before that is settled." in html


def test_a_check_that_failed_is_why_nobody_can_tell(quiet: Path, rewrite: Rewrite) -> None:
    failed = [{"consequence": "downgrade", "otherwise": "time goes backwards in a file"}]
    rewrite(quiet, {"verdict": "cannot_tell", "quality": {"closed": [], "failed": failed}})

    assert "Time goes backwards in a file." in verdict.render(load_run(quiet))
