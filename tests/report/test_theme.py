"""Marks and words are told from what they stand on, in light and in dark: 3:1, and 4.5:1 (WCAG)."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from forensics.report import theme
from forensics.report.figures import leadership, log_coverage, partition_heatmap

CSS = (files("forensics.report") / "assets" / "page.css").read_text("utf-8")
# Nothing is wrong there, so they are quiet.
QUIET = {partition_heatmap.MANY, partition_heatmap.IN_SYNC}


def variables(scheme: str) -> dict[str, str]:
    """Return the colours of page.css in a scheme; those of dark replace those of light."""
    blocks = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
    chosen = blocks[:1] + (blocks[1:2] if scheme == "dark" else [])
    pairs = re.findall(r"(--[\w-]+): (#[0-9a-f]{3,6});", "".join(chosen))
    return {name: value if len(value) == 7 else f"#{value[1:]}{value[1:]}" for name, value in pairs}


def resolved(colour: str, scheme: str) -> str:
    return variables(scheme).get(colour.removeprefix("var(").removesuffix(")"), colour)


def marks() -> dict[str, str]:
    """Every colour that says something by itself, without an edge."""
    looks = {words: colour for colour, words in log_coverage.LOOKS.values()}
    missing = {f"{1 + at} missing": one for at, one in enumerate(partition_heatmap.MISSING)}
    isr = {f"bar, {at} missing": one for at, one in enumerate(leadership.ISR_COLOURS)}
    named = {
        "edge": theme.HATCH, "no leader": theme.NONE, "unclean": theme.UNCLEAN,
        "several": partition_heatmap.SEVERAL, "not known": partition_heatmap.BLANK,
        "under min.insync": partition_heatmap.BELOW,
    }  # fmt: skip
    found = theme.DEBT | theme.VERDICT | theme.LEVEL | looks | missing | isr | named
    return {name: colour for name, colour in found.items() if colour not in QUIET}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_marks_are_told_from_the_ground(scheme: str) -> None:
    ground = resolved("var(--ground)", scheme)
    ratios = {
        name: round(theme.contrast(resolved(colour, scheme), ground), 2)
        for name, colour in marks().items()
    }

    assert len(ratios) > 20
    assert {name: ratio for name, ratio in ratios.items() if ratio < 3} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_file_and_away_are_told_from_each_other(scheme: str) -> None:
    pair = [resolved(one, scheme) for one in (theme.NONE, theme.LACKING)]

    assert theme.contrast(*pair) >= 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_in_bars_and_flags_are_read(scheme: str) -> None:
    brokers = [theme.broker_colour(number) for number in range(21)]
    fills = [*brokers, *(fill for fill, _ in theme.STATE.values()), *theme.LEVEL.values()]
    for fill in fills:
        letters, shade = theme.text_colour(fill), resolved(fill, scheme)
        assert theme.contrast(resolved(letters, scheme), shade) >= 4.5, fill


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_of_the_page_are_read(scheme: str) -> None:
    names = ("text", "soft", "link", "critical", "high", "medium", "low", "info", "clear",
             "cannot-tell")  # fmt: skip
    for ground in ("ground", "raised"):
        for name in names:
            pair = [resolved(f"var(--{one})", scheme) for one in (name, ground)]
            assert theme.contrast(*pair) >= 4.5, (name, ground)


def test_every_colour_that_a_figure_asks_for_is_in_the_style() -> None:
    asked = set(re.findall(r"var\((--[a-z-]+)\)", " ".join([
        *theme.LEVEL.values(), theme.NONE, theme.LACKING,
        *(colour for colour, _ in log_coverage.LOOKS.values()),
    ])))  # fmt: skip
    for scheme in ("light", "dark"):
        assert asked <= set(variables(scheme))
    on_paper = variables("light")
    assert {f"{name}-on-paper" for name in asked} <= set(on_paper)
