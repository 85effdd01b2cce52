"""What people read is plain English: words that were tried and given up do not come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What each of these should say stands beside it.
GIVEN_UP = {
    r"\btells? of\b": "states, names, shows, logs",
    r"\btold of by\b": "is a finding of its own",
    r"\bno story to tell\b": "no incident in this window",
    r"\b(stood|stands?) still\b": "froze, is frozen, is stuck",
    r"\b(shut down|stopped|stops) in order\b": "shut down cleanly",
    r"\bdied without a shutdown\b": "crashed",
    r"\baway at a time\b": "down 25 s each",
    r"\bfor want of\b": "for lack of",
    r"\b(few|fewer|lack|enough) replicas in sync\b": "in-sync replicas",
    r"\bclean change of leader\b": "clean failover",
    r"\bof meanwhile\b": "the new leader",
    r"\bhad read on\b": "had already read them",
    r"\bserves again\b": "is back in service",
    r"\bdo not see it back\b": "not restarted before the logs end",
    r"\bin debt\b": "unhealthy",
    r"\bfacts read from\b": "events",
    r"\bcannot speak for\b": "no logs from",
    r"\bkinds of trouble\b": "checks",
    r"\bwhat would make it wrong\b": "could be wrong if",
    r"\bbelow the fold\b": "show 9 more",
    r"\bsilence says nothing\b": "in no log format we know",
    r"\bnone seen\b": "no data loss found",
    r"\bmove behind it\b": "cause",
    r"\bthan the week before\b": "vs last week",
    r"\bsustained errors\b": "clients affected",
    r"\bclients bear\b|\blet pass\b": "a session ends after 9 s",
    r"\bfirst sign\b": "first client error",
    r"\bstated by no line\b": "is not in the logs",
    r"\bordered shutdown\b": "clean shutdown",
    r"\bmoved away and back each time\b": "what the logs show of each time",
}
# Counts go through the one helper that makes plurals.
LONE_PLURAL = re.compile(
    r"(?<![\w.,:-])1 (silences|findings|partitions|brokers|clients|records|files|lines|times|"
    r"checks|nodes|epochs|errors|episodes)\b"
)
OLD = (
    "data loss none seen; confidence confirmed",
    "How sure: a line states it, and 3 nodes tell of it",
    "Broker 1 died without a shutdown and was back after 53.1 s",
    "Broker 2 left the cluster 5 times (crash), 25.4 s away at a time",
    "broker-3 stood still 3 times, for up to 15.9 s",
    "was shut down in order; these logs do not see it back",
    "Writes refused for want of replicas in sync",
    "13 records of 2 partitions cut after a clean change of leader",
    "Who comes back cuts off what the leader of meanwhile does not have",
    "consumers that had read on see offsets used again",
    "The broker serves again.",
    "Partitions in debt",
    "Facts read from the logs per second",
    "We cannot speak for app-rd between",
    "38 kinds of trouble looked for",
    "there is no story to tell",
    "Clients with sustained errors 0",
    "clients bear 5 s / 9 s end a session / 15 s are let pass",
    "What would make it wrong",
    "And 9 more below the fold: low 1, info 8, suppressed 0",
    "its silence says nothing (0.027)",
    "Move behind it",
    "Than the week before",
)
PATTERN = re.compile("|".join(GIVEN_UP), re.IGNORECASE)


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Give the texts of a module that somebody may read: all but docstrings, joined as written."""
    tree = ast.parse(path.read_text("utf-8"))
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (one.value for one in node.values if isinstance(one, ast.Constant))
            yield node.lineno, " ".join("{}".join(map(str, parts)).split())
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
        ):
            yield node.lineno, " ".join(node.value.split())


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Give the paragraphs of a page or a file of rules, without quoted lines of logs or remarks."""
    text = re.sub(r"(?ms)^```.*?^```|^\s*//.*?$", "", path.read_text("utf-8"))
    kept = [line for line in text.splitlines() if not re.match(r"\s*(- )?(line|match|text):", line)]
    yield 1, " ".join(" ".join(kept).split())


def places() -> Iterator[Path]:
    for folder, pattern in (("forensics", "*.py"), ("jobs", "*.py"), ("rules", "*.yaml")):
        yield from sorted((ROOT / folder).rglob(pattern))
    scripts = (ROOT / "forensics/report/assets").glob("*.js")
    yield from sorted(path for path in scripts if ".min." not in path.name)
    yield ROOT / "README.md"
    yield from sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "rules")


def found(path: Path) -> list[str]:
    read = strings if path.suffix == ".py" and path.parts[-2] != "jobs" else lines
    return [
        f"{path.relative_to(ROOT)}:{number}: {hit[0]}"
        for number, text in read(path)
        for hit in PATTERN.finditer(text)
    ]


def test_words_that_were_given_up_are_gone() -> None:
    assert [hit for path in places() for hit in found(path)] == []


@pytest.mark.parametrize("said", OLD)
def test_the_old_sentences_would_be_found(said: str) -> None:
    assert PATTERN.search(said)


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


def test_texts_are_looked_at() -> None:
    assert len(list(places())) > 500
    assert {"headline.py", "partitions.js", "limits.yaml"} <= {path.name for path in places()}
    own = [text for _, text in strings(Path(__file__))]
    assert "is a finding of its own" in own
    assert "Give the texts of a module that somebody may read" not in " ".join(own[:9])
