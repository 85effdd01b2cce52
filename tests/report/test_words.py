"""What is said to people is said as an engineer on call would: phrases that are never used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Case counts for nothing, nor how a text is broken into lines.
NEVER = (
    "data loss none seen", "nodes tell of it", "died without a shutdown", "away at a time",
    "stood still", "do not see it back", "for want of replicas", "cut after a clean change",
    "leader of meanwhile", "of meanwhile", "had read on", "serves again", "in debt", "facts read",
    "cannot speak for", "kinds of trouble", "no story to tell", "first sign",
    "sustained errors 0", "clients bear", "are let pass", "what would make it wrong",
    "below the fold", "its silence says nothing", "stated by no line", "move behind it",
    "ordered shutdown", "shut down in order", "no line tells of", "tell of a leader",
    "moved away and back each time",
)  # fmt: skip
# Counts go through the one helper that makes plurals.
LONE_PLURAL = re.compile(
    r"(?<![\w.,:-])1 (silences|findings|partitions|brokers|clients|records|files|lines|times|"
    r"checks|nodes|epochs|errors|episodes)\b"
)


def strings(source: str) -> Iterator[str]:
    """Yield the texts of a module but for its docstrings."""
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (one.value for one in node.values if isinstance(one, ast.Constant))
            yield "{}".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield str(node.value)


def texts() -> Iterator[tuple[str, str]]:
    """Yield file and text of all that may be said: by modules, scripts of pages, and rules."""
    for path in sorted((ROOT / "forensics").rglob("*.py")):
        source = path.read_text("utf-8")
        # To look into every module takes seconds: a quick look at its letters chooses few.
        joined = " ".join(re.sub(r'"\s*\n\s*f?"', "", source).lower().split())
        if any(never in joined for never in NEVER):
            yield from ((path.name, text) for text in strings(source))
        else:
            yield path.name, ""
    for path in sorted((ROOT / "forensics/report/assets").glob("*.js")):
        if ".min." not in path.name:
            yield path.name, re.sub(r"^\s*//.*$", "", path.read_text("utf-8"), flags=re.MULTILINE)
    for path in sorted((ROOT / "rules").rglob("*.yaml")):
        yield path.name, re.sub(r"(^|\s)#.*$", "", path.read_text("utf-8"), flags=re.MULTILINE)


def test_phrases_that_nobody_says_are_nowhere() -> None:
    said = [(name, " ".join(text.lower().split())) for name, text in texts()]

    assert {"headline.py", "partitions.js", "limits.yaml"} <= {name for name, _ in said}
    assert [(name, never) for name, text in said for never in NEVER if never in text] == []


def test_docstrings_are_no_texts_for_people() -> None:
    source = 'def f():\n    """One that stood still."""\n    return f"it {1} stood" " still"\n'

    assert next(iter(strings(source))) == "it {} stood still"
    assert not any("One" in text for text in strings(source))


@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [("1 silences", True), ("11 silences", False), ("1 silence", False), ("0.1 lines", False)],
)
def test_a_lone_plural_is_noticed(text: str, *, is_wrong: bool) -> None:
    assert bool(LONE_PLURAL.search(text)) is is_wrong


def test_one_of_a_thing_is_never_plural_on_a_page() -> None:
    pages = sorted((ROOT / "tests/golden/pages").glob("*.txt"))

    assert len(pages) >= 4
    for page in pages:
        assert LONE_PLURAL.findall(page.read_text("utf-8")) == [], page.name
