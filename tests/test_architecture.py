"""The rules of the house, held by reading the source: no JVM, no import of the package."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Alphabetical order is flow order, and nobody looks ahead.
STAGES = (
    "archives", "entries", "events", "history", "incidents", "quality", "report", "trends",
)  # fmt: skip

# Modules that every stage may import, and that therefore know no stage.
GROUND = (
    "configuring", "errors", "java", "limits", "masking", "memory", "meter", "patterns", "places",
    "progress", "settings", "shipped", "tables", "telltales", "yamls",
)  # fmt: skip

# Heavy or peculiar packages, and the only places that may import them.
GUESTS = {
    "click": ("forensics/cli/app.py", "forensics/cli/option_sources.py", "jobs/"),
    "great_expectations": ("forensics/quality/",),
    "plotly": ("forensics/report/plotly_sheet.py",),
    "pyspark": ("forensics/engine/spark.py",),
    "yaml": ("forensics/lib/yaml_with_lines.py",),
}

# What helps people to write and judge rules; nothing that makes a postmortem needs it.
AUTHORING = "forensics.rule_tools"

LONGEST_MODULE = 300
LONGEST_FUNCTION = 50

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One Python file: its path from the root, and its text."""

    path: str
    text: str

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def module(self) -> tuple[str, ...]:
        parts = Path(self.path).with_suffix("").parts
        return parts[:-1] if parts[-1] == "__init__" else parts

    def at(self, node: ast.stmt | ast.expr, says: str) -> str:
        return f"{self.path}:{node.lineno}: {says}"


def sources() -> list[Source]:
    paths = [path for top in ("forensics", "jobs") for path in sorted((ROOT / top).rglob("*.py"))]
    return [Source(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in paths]


def imports(source: Source) -> Iterator[tuple[ast.stmt, tuple[str, ...]]]:
    """Yield every imported name in full, wherever in the file the import stands."""
    package = source.module if source.path.endswith("__init__.py") else source.module[:-1]
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node, tuple(alias.name.split("."))) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = (*above, *(node.module or "").split(".")) if node.module else above
            yield from ((node, (*base, alias.name)) for alias in node.names)


def functions(source: Source) -> Iterator[Function]:
    return (node for node in ast.walk(source.tree) if isinstance(node, Function))


def public_functions(body: list[ast.stmt]) -> Iterator[Function]:
    """Yield what a reader of the module may call: functions, and methods of public classes."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node.body)
        elif isinstance(node, Function) and not node.name.startswith("_"):
            yield node


def guests(source: Source) -> Iterator[str]:
    for node, name in imports(source):
        if name[0] in GUESTS and not source.path.startswith(GUESTS[name[0]]):
            yield source.at(node, f"{name[0]} belongs into {' or '.join(GUESTS[name[0]])}")


def looks_ahead(source: Source) -> Iterator[str]:
    here = source.module[1] if len(source.module) > 1 else ""
    for node, name in imports(source):
        there = name[1] if name[0] == "forensics" and len(name) > 1 else ""
        if there in STAGES and (here in GROUND or (here in STAGES and here < there)):
            yield source.at(node, f"{here} must not know {there}")


def imports_authoring(source: Source) -> Iterator[str]:
    for node, name in imports(source):
        inside = ".".join(source.module).startswith(AUTHORING) or source.path.startswith("jobs/")
        if ".".join(name).startswith(AUTHORING) and not inside:
            yield source.at(node, f"{AUTHORING} is for jobs/ alone")


def imports_jobs(source: Source) -> Iterator[str]:
    for node, name in imports(source):
        if source.path.startswith("forensics/") and name[0] == "jobs":
            yield source.at(node, "jobs/ imports forensics, never the reverse")


def long_module(source: Source) -> Iterator[str]:
    lines = source.text.count("\n")
    if lines > LONGEST_MODULE:
        yield f"{source.path}:1: {lines} lines, at most {LONGEST_MODULE}"


def long_function(source: Source) -> Iterator[str]:
    for node in functions(source):
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > LONGEST_FUNCTION:
            yield source.at(node, f"{node.name} has {lines} lines, at most {LONGEST_FUNCTION}")


def undocumented(source: Source) -> Iterator[str]:
    for node in public_functions(source.tree.body):
        if ast.get_docstring(node) is None:
            yield source.at(node, f"{node.name} is public and has no docstring")


def unannotated(source: Source) -> Iterator[str]:
    for node in functions(source):
        given = node.args
        named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        bare = [arg.arg for arg in named if arg and arg.annotation is None]
        missing = [name for name in bare if name not in {"self", "cls"}]
        missing += ["return"] if node.returns is None else []
        if missing:
            yield source.at(node, f"{node.name} does not say the type of {', '.join(missing)}")


def prints(source: Source) -> Iterator[str]:
    if source.path.startswith(("jobs/", "forensics/cli/app.py")):
        return
    for node in ast.walk(source.tree):
        match node:
            case ast.Call(func=ast.Name(id="print")):
                yield source.at(node, "only jobs/ and the console speak to people")


Rule = Callable[[Source], Iterator[str]]


def broken(rule: Rule) -> list[str]:
    return [breach for source in sources() for breach in rule(source)]


def test_there_is_a_house_to_look_at() -> None:
    """A check that reads no file would never find anything."""
    assert len(sources()) > 10


def test_every_folder_of_the_package_is_a_stage() -> None:
    folders = {source.module[1] for source in sources() if source.path.count("/") > 1}

    assert folders <= set(STAGES)
    assert list(STAGES) == sorted(STAGES)


def test_heavy_packages_are_imported_only_where_they_live() -> None:
    assert broken(guests) == []


def test_no_stage_imports_a_later_one_and_the_ground_floor_imports_none() -> None:
    assert broken(looks_ahead) == []


def test_only_jobs_need_what_helps_to_write_rules() -> None:
    assert broken(imports_authoring) == []


def test_the_package_never_imports_the_jobs() -> None:
    assert broken(imports_jobs) == []


def test_no_module_is_longer_than_300_lines() -> None:
    assert broken(long_module) == []


def test_no_function_is_longer_than_50_lines() -> None:
    assert broken(long_function) == []


def test_every_public_function_has_a_docstring() -> None:
    assert broken(undocumented) == []


def test_every_function_says_its_types() -> None:
    assert broken(unannotated) == []


def test_only_jobs_and_the_console_print() -> None:
    assert broken(prints) == []


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (guests, "forensics/events/match.py", "from pyspark.sql import DataFrame"),
        (guests, "forensics/report/page.py", "def draw() -> None:\n    import plotly.express"),
        (guests, "forensics/engine/spark.py", "import click"),
        (guests, "forensics/history/isr.py", "import great_expectations as gx"),
        (guests, "forensics/detection/thresholds.py", "import yaml"),
        (looks_ahead, "forensics/entries/parse.py", "from forensics.events import match"),
        (looks_ahead, "forensics/entries/parse.py", "from forensics import report"),
        (looks_ahead, "forensics/entries/parse.py", "from ..history.isr import fold"),
        (looks_ahead, "forensics/schemas.py", "import forensics.ingest.record_splitter"),
        (looks_ahead, "forensics/archives/__init__.py", "from .. import entries"),
        (imports_authoring, "forensics/events/rules.py", "from .authoring.checking import check"),
        (imports_authoring, "forensics/events/scan.py", "from forensics.events import authoring"),
        (imports_jobs, "forensics/pipeline.py", "from jobs.postmortem import command"),
        (long_module, "forensics/engine/spark.py", "\n" * 301),
        (long_function, "jobs/rules.py", "def check() -> None:\n" + "    check\n" * 50),
        (undocumented, "forensics/schemas.py", "def read() -> None: ..."),
        (undocumented, "forensics/schemas.py", "class Row:\n    def read(self) -> None: ..."),
        (unannotated, "forensics/schemas.py", "def _read(path) -> None: ..."),
        (unannotated, "forensics/schemas.py", "async def _read(*paths: str): ..."),
        (prints, "forensics/history/isr.py", "print(1)"),
    ],
)
def test_a_breach_is_seen(rule: Rule, path: str, text: str) -> None:
    assert len(list(rule(Source(path, text)))) == 1


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (guests, "jobs/rules.py", "import click"),
        (guests, "forensics/quality/gate.py", "import great_expectations"),
        (looks_ahead, "forensics/history/isr.py", "from forensics.events import match"),
        (looks_ahead, "forensics/pipeline.py", "from forensics.report import page"),
        (looks_ahead, "forensics/events/match.py", "from . import reports"),
        (imports_authoring, "jobs/rules.py", "from forensics.rule_tools import checking"),
        (imports_authoring, "forensics/rule_tools/check.py", "from . import showing"),
        (imports_jobs, "jobs/audit.py", "import jobs"),
        (long_module, "forensics/engine/spark.py", "\n" * 300),
        (undocumented, "forensics/schemas.py", "class _Row:\n    def read(self) -> None: ..."),
        (unannotated, "forensics/schemas.py", "def read(self, a: int, *, b: str) -> None: ..."),
        (prints, "jobs/rules.py", "print(1)"),
    ],
)
def test_what_is_allowed_is_left_alone(rule: Rule, path: str, text: str) -> None:
    assert list(rule(Source(path, text))) == []
