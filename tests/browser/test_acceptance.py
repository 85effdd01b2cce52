"""The ten things that a page must do to be accepted, and the tests that hold each of them.

Whoever asks whether the page does what it should begins here. A test that is renamed, taken away or
switched off is missed here, by name.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ACCEPTANCE: Mapping[str, Mapping[str, Sequence[str]]] = {
    "1. No network: nothing asked for, nothing in the console; two browsers; files and previews": {
        "browser/test_offline.py": (
            "test_reading_the_whole_page_asks_for_the_file_and_nothing_else",
            "test_a_page_that_speaks_is_heard",
        ),
        "browser/test_firefox.py": (
            "test_reading_the_whole_page_asks_for_nothing_and_the_console_stays_empty",
            "test_a_page_that_speaks_is_heard",
        ),
        "browser/test_zip_preview.py": (
            "test_alone_in_a_folder_of_a_viewer_the_page_is_whole",
            "test_in_a_sandboxed_frame_the_page_is_whole_and_silent",
            "test_in_a_sandboxed_frame_links_within_the_page_lead_there",
        ),
    },
    "2. Without scripts: verdict, findings, ledger, coverage and a timeline": {
        "browser/test_script_off.py": (
            "test_no_script_has_run",
            "test_what_matters_is_there_and_takes_room",
            "test_every_finding_is_there_with_its_first_line_of_evidence",
            "test_the_timeline_is_drawn_without_a_script",
        ),
    },
    "3. Hostile logs: nothing runs, nothing forges a heading, a link or bold text": {
        "browser/test_hostile.py": (
            "test_an_attack_is_read_as_text",
            "test_links_lead_nowhere_but_into_the_page",
        ),
        "browser/test_firefox.py": ("test_logs_that_attack_their_reader_are_text",),
        "browser/test_offline.py": (
            "test_the_policy_of_the_page_forbids_what_a_forged_script_would_do",
        ),
        "browser/test_copying.py": (
            "test_markdown_of_hostile_text_links_nothing_and_closes_no_fence",
        ),
    },
    "4. Golden pages of three incidents and a quiet stretch, the same bytes on every run": {
        "report/test_golden_pages.py": (
            "test_a_page_says_what_it_said",
            "test_what_is_kept_is_the_answer_that_an_expert_would_give",
            "test_a_second_run_gives_the_same_bytes",
        ),
    },
    "5. The same pixels in the axes wherever the reader is": {
        "browser/test_time_zones.py": ("test_figures_are_pixel_for_pixel_the_same_in_every_zone",),
    },
    "6. Every number of the verdict is that of findings.json, and that of the table of events": {
        "report/sections/test_verdict_numbers.py": (
            "test_the_one_interval_is_that_of_findings_json",
            "test_the_impact_is_that_of_findings_json",
            "test_what_was_lost_is_what_findings_json_says",
            "test_the_times_and_brokers_of_the_cause_are_the_true_ones",
            "test_the_partitions_that_were_unavailable_are_the_true_ones",
            "test_losses_are_counted_again_from_the_events_and_are_the_true_ones",
            "test_the_numbers_of_a_clear_page_are_counted_again",
        ),
    },
    "7. 10,000 partitions, 30 brokers, 200 findings and 24 hours within the budgets": {
        "report/test_page_large.py": (
            "test_the_page_is_drawn_in_time_and_is_small",
            "test_no_figure_has_more_than_a_browser_draws_at_once",
        ),
        "browser/test_figures.py": ("test_a_large_page_paints_draws_and_zooms_in_time",),
        "browser/test_filter.py": (
            "test_ten_thousand_partitions_are_filtered_in_a_tenth_of_a_second",
        ),
    },
    "8. Nothing serious to axe-core; by keyboard one reaches and opens all, filters and copies": {
        "browser/test_axe.py": (
            "test_nothing_serious_is_wrong",
            "test_the_judge_sees_what_is_wrong",
        ),
        "browser/test_keyboard.py": (
            "test_every_finding_is_reached_and_its_evidence_opened",
            "test_findings_are_filtered_by_the_keyboard",
            "test_a_command_is_copied_by_the_keyboard",
        ),
    },
    "9. A link to a finding scrolls there, opens it and zooms; an unknown one says so": {
        "browser/test_links.py": (
            "test_a_link_to_a_finding_opens_and_shows_it_and_zooms",
            "test_what_is_not_there_is_said",
        ),
        "browser/test_firefox.py": ("test_a_link_to_a_finding_opens_it_and_zooms",),
    },
    "10. Twenty evidence chips lead back to the very line in the archive": {
        "spark/test_show.py": ("test_twenty_chips_of_the_page_lead_to_the_very_line",),
    },
}
HOLDERS = [
    (file, name) for holders in ACCEPTANCE.values() for file in holders for name in holders[file]
]


def test_there_are_ten() -> None:
    assert [int(name.partition(".")[0]) for name in ACCEPTANCE] == list(range(1, 11))
    assert len(set(HOLDERS)) == len(HOLDERS)


@pytest.mark.parametrize(("file", "name"), HOLDERS)
def test_what_holds_it_is_there_and_switched_on(file: str, name: str) -> None:
    tree = ast.parse((TESTS / file).read_text("utf-8"))
    found = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == name]
    assert len(found) == 1, f"tests/{file} has no {name}: say here what holds this now"

    marks = [*found[0].decorator_list, *(one for one in tree.body if isinstance(one, ast.Assign))]
    assert not [one for one in map(ast.unparse, marks) if "skip" in one or "xfail" in one]
    assert "assert" in ast.unparse(found[0])
