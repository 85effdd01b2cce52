"""A page holds all of findings.json where there is room, and says what it left out elsewhere."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path

import pytest

from forensics.lib.text_safety import script_json
from forensics.report import size_budget
from forensics.report.page import draw_report
from forensics.run_output.findings import write_findings
from tests.report import sample_runs as samples
from tests.report.sample_runs import Row, finding, proof

LONG = "Broker 2 was fenced and its partitions moved, says a line that goes on and on; "


def full_of_text(findings: int) -> Row:
    """Make a document whose findings quote forty lines of 480 letters each."""
    lines = [proof(1, number, f"{number:06d} {LONG * 6}"[:480]) for number in range(40)]
    quoted = (
        finding(f"F-{n:08x}", "isr-storm", "medium", evidence=lines, title=f"Storm {n}")
        for n in range(findings)
    )
    return samples.document(list(quoted))


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"findings": []},
        {"findings": None, "x": ["\ud800 \x00", {"<b>": "\u2028 \u200b"}]},
        {"a": {"b": [1.5, None]}, "findings": [{"</script>": "\u202e"}, {}, 7], "z": "&"},
        full_of_text(3),
    ],
)
def test_a_document_is_written_in_parts_as_it_is_as_a_whole(document: Row) -> None:
    assert script_json(document) == "".join(size_budget._write(document))


def test_a_document_that_fits_is_held_as_it_is() -> None:
    document = full_of_text(2)

    held = size_budget.fit_document(document)

    assert held == size_budget.FittedDocument(document, is_whole=True)


def test_a_large_one_is_cut_and_held_whole_besides() -> None:
    """Each cut says how much is gone; nothing else differs, and the whole is there, packed."""
    document = full_of_text(60)

    held = size_budget.fit_document(document)

    assert not held.is_whole
    assert len(script_json(held.document)) <= size_budget.MAX_PLAIN_CHARS
    assert held.packed is not None
    assert json.loads(gzip.decompress(base64.b64decode(held.packed))) == document
    for small, full in zip(held.document["findings"], document["findings"], strict=True):
        assert {key: small[key] for key in ("id", "title", "from")} == {
            key: full[key] for key in ("id", "title", "from")
        }
        for cut, line in zip(small["evidence"], full["evidence"], strict=True):
            assert line["text"].startswith(cut["text"])
            assert len(cut["text"]) + cut["more"] == len(line["text"])


def test_long_lists_are_cut_where_quotes_are_not_to_blame() -> None:
    """Ten thousand lost partitions in one finding: the first are held, the others counted."""
    many = [samples.lost(number, 2, 845) for number in range(10_000)]
    row = finding("F-1", "unclean-election", "critical", measures={"partitions": many})

    held = size_budget.fit_document(samples.document([row]))

    small = held.document["findings"][0]
    assert len(script_json(held.document)) <= size_budget.MAX_PLAIN_CHARS
    assert len(small["measures"]["partitions"]) + small["cut"]["measures.partitions"] == 10_000


def test_cards_cut_their_lines_where_all_together_are_long(unclean: Path) -> None:
    write_findings(full_of_text(60), unclean / "findings.json")

    html = draw_report(unclean).read_text(encoding="utf-8")

    cards = html[html.index('<section id="findings"') : html.index('<section id="ledger"')]
    quotes = re.findall(r"<pre>([^<]*)</pre>", cards)
    assert len(quotes) >= 60 * 5
    assert {len(quote) for quote in quotes} == {120}
    assert "and 360 characters more in findings.json" in cards
    assert 'data-quote="F-00000000/0"' in cards


def test_cards_of_an_ordinary_page_cut_nothing(unclean: Path) -> None:
    html = draw_report(unclean).read_text(encoding="utf-8")

    assert "characters more in" not in html
    assert 'id="report-whole"' not in html


@pytest.mark.parametrize("text", ["", "a", "line one of many\n" * 200_000])
def test_packing_stops_at_a_limit_and_is_the_same_below_it(text: str) -> None:
    whole = size_budget.gzip_base64(text)

    assert gzip.decompress(base64.b64decode(whole)).decode() == text
    assert size_budget._pack([text], len(whole)) == whole
    assert size_budget._pack([text], len(whole) - 1) is None
