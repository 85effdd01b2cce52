"""What README and docs/ say is so: links lead somewhere, commands exist, the tutorial runs."""

from __future__ import annotations

import functools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from forensics.cli.app import jobs_folder, load_command, make_group

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAME = "kafka-forensics"
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def ids(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_links_lead_to_something(page: Path) -> None:
    text = FENCE.sub("", page.read_text("utf-8"))
    local = [link for link in LINK.findall(text) if "://" not in link]
    lost = [link for link in local if not there(page, link)]

    assert not lost


def there(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    if not target.exists():
        return False
    return not anchor or anchor in anchors(target)


@functools.cache
def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", one.lower()) for one in headings)
    named = re.findall(r'<a (?:id|name)="([^"]+)"', page.read_text("utf-8"))
    return {one.replace(" ", "-") for one in plain} | set(named)


def test_every_page_has_its_place_on_the_site() -> None:
    named = set(re.findall(r"[\w/-]+\.md$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}

    # Those of rules/ are named by their folder.
    assert named == {page for page in pages if not page.startswith("rules/")}


def blocks(page: Path, *kinds: str) -> Iterator[str]:
    return (text for kind, text in FENCE.findall(page.read_text("utf-8")) if kind in kinds)


def commands(page: Path) -> Iterator[str]:
    """Give each of our commands in a page's blocks for a shell, without what comes after it."""
    for block in blocks(page, "sh", "bash", "console", "shell"):
        for line in block.replace("\\\n", " ").splitlines():
            found = re.search(rf"(?:^|[\s;&|/]){NAME} (.*)$", line.removeprefix("$ "))
            if found and not line.lstrip().startswith("#"):
                yield found[1]


WRITTEN = [(page, line) for page in PAGES for line in commands(page)]
NAMES = [f"{ids(page)}: {line}" for page, line in WRITTEN]


@pytest.mark.parametrize("line", [line for _, line in WRITTEN], ids=NAMES)
def test_commands_are_such_as_there_are(line: str) -> None:
    words = shlex.split(re.split(r"\s(?:#|\||&&|>|2>|;)", f" {line} ")[0], comments=True)
    whole = make_group(jobs_folder())
    context = click.Context(whole, info_name=NAME)
    _, command, rest = whole.resolve_command(context, words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        context = click.Context(command, parent=context)
        _, command, rest = command.resolve_command(context, rest)

    assert command is not None
    known = {name for one in command.params for name in [*one.opts, *one.secondary_opts]}
    known |= {"-h", "--help", "--version"}
    asked = [word.partition("=")[0] for word in rest if re.match(r"--?[a-zA-Z]", word)]
    assert not [word for word in asked if word not in known]


def test_there_are_commands_at_all() -> None:
    assert len(WRITTEN) >= 15


def test_the_pages_of_commands_are_up_to_date() -> None:
    reference = load_command(jobs_folder() / "reference.py").callback
    assert reference is not None

    assert reference.__globals__["page"]() == (ROOT / "docs" / "commands.md").read_text("utf-8")
    told = (ROOT / "docs" / "kafka-forensics.1").read_text("utf-8")
    assert reference.__globals__["man_page"]() == told


@pytest.mark.spark
def test_the_tutorial_runs_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "sample_logs").symlink_to(ROOT / "sample_logs")
    for block in blocks(ROOT / "docs" / "tutorial.md", "console"):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, wanted = step.partition("\n")
            said = run(line, tmp_path)
            assert matches(wanted, said), f"$ {line}\n{said}"


def run(line: str, folder: Path) -> str:
    words = shlex.split(line)
    if words[0] == NAME:
        words = [sys.executable, "-m", "forensics", *words[1:]]
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=600, check=False,
        env=None if words[0] != sys.executable else environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}


def matches(wanted: str, said: str) -> bool:
    """Whether an output is as written; a line of three dots stands for any lines."""
    lines = wanted.strip().splitlines()
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in lines)
    return re.fullmatch(pattern, said.strip() + "\n" if said.strip() else "") is not None
