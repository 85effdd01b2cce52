"""The rules of the code, checked by reading the source: no JVM, no import of the package."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# The layers of the package, from the ground up: a module imports only from its own layer and from
# those below. A new module at the top of forensics/ has to be named here.
LAYERS = {
    "lib": ("lib", "errors", "schemas", "settings"),
    "ingest": ("ingest",),
    "parsing": ("parsing",),
    "events": ("events",),
    "engine": ("engine",),
    "history": ("history",),
    "run_output": ("run_output",),
    "detection": ("detection", "incidents"),
    "quality": ("quality",),
    "report": ("report",),
    "redaction": ("redaction",),
    "pipeline": ("pipeline", "run_result", "sandbox"),
    "weekly": ("weekly",),
    "runs": ("redacted_run", "weekly_audit"),
    "rule_tools": ("rule_tools",),
    "cli": ("cli", "__main__"),
}
ORDER = {name: level for level, names in enumerate(LAYERS.values()) for name in names}

# Heavy or peculiar packages, and the only places that may import them.
GUESTS = {
    "click": ("forensics/cli/", "jobs/"),
    "great_expectations": ("forensics/quality/gx_runner.py",),
    "plotly": (
        "forensics/report/plotly_sheet.py",
        "forensics/report/figures/",
        "forensics/report/histories/timeline_page.py",
    ),
    "pyspark": ("forensics/engine/spark.py",),
    "yaml": ("forensics/lib/lined_documents.py", "forensics/lib/yaml_with_lines.py"),
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One Python file: its path from the root, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def module(self) -> tuple[str, ...]:
        parts = Path(self.path).with_suffix("").parts
        return parts[:-1] if parts[-1] == "__init__" else parts

    def at(self, node: ast.stmt | ast.expr, says: str) -> str:
        return f"{self.path}:{node.lineno}: {says}"


@cache
def sources() -> list[Source]:
    paths = [path for top in ("forensics", "jobs") for path in sorted((ROOT / top).rglob("*.py"))]
    return [Source(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in paths]


@cache
def imports(source: Source) -> list[tuple[ast.stmt, tuple[str, ...]]]:
    """List every imported name in full, wherever in the file the import stands."""
    return list(find_imports(source))


def find_imports(source: Source) -> Iterator[tuple[ast.stmt, tuple[str, ...]]]:
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


def imports_upwards(source: Source) -> Iterator[str]:
    here = source.module[1] if source.module[0] == "forensics" and source.module[1:] else ""
    for node, name in imports(source):
        there = name[1] if name[0] == "forensics" and len(name) > 1 else ""
        if here in ORDER and ORDER.get(there, -1) > ORDER[here]:
            yield source.at(node, f"{here} must not import {there}, which is a layer above it")


def imports_jobs(source: Source) -> Iterator[str]:
    for node, name in imports(source):
        if source.path.startswith("forensics/") and name[0] == "jobs":
            yield source.at(node, "jobs/ imports forensics, never the reverse")


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


def test_there_are_sources_to_read() -> None:
    """A check that reads no file would never find anything."""
    assert len(sources()) > 10


def test_every_module_belongs_to_one_layer() -> None:
    inside = [source.module[1] for source in sources() if len(source.module) > 1]
    tops = {path.stem for path in (ROOT / "forensics").glob("*.py")} & set(inside)
    folders = {path.parent.name for path in (ROOT / "forensics").glob("*/*.py")}

    assert tops | folders == set(ORDER)
    assert len(ORDER) == sum(map(len, LAYERS.values())), "a name stands in two layers"


def test_heavy_packages_are_imported_only_where_they_live() -> None:
    assert broken(guests) == []


def test_no_module_imports_from_a_layer_above_it() -> None:
    assert broken(imports_upwards) == []


def test_the_package_never_imports_the_jobs() -> None:
    assert broken(imports_jobs) == []


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
        (imports_upwards, "forensics/parsing/parse.py", "from forensics.events import match"),
        (imports_upwards, "forensics/parsing/parse.py", "from forensics import report"),
        (imports_upwards, "forensics/parsing/parse.py", "from ..history.isr import fold"),
        (imports_upwards, "forensics/schemas.py", "import forensics.ingest.record_splitter"),
        (imports_upwards, "forensics/ingest/__init__.py", "from .. import parsing"),
        (imports_upwards, "forensics/events/scan.py", "from forensics import rule_tools"),
        (imports_jobs, "forensics/pipeline.py", "from jobs.postmortem import command"),
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
        (guests, "forensics/quality/gx_runner.py", "import great_expectations"),
        (imports_upwards, "forensics/history/isr.py", "from forensics.events import match"),
        (imports_upwards, "forensics/pipeline.py", "from forensics.report import page"),
        (imports_upwards, "forensics/events/match.py", "from . import reports"),
        (imports_upwards, "jobs/rules.py", "from forensics.rule_tools import check"),
        (imports_jobs, "jobs/audit.py", "import jobs"),
        (undocumented, "forensics/schemas.py", "class _Row:\n    def read(self) -> None: ..."),
        (unannotated, "forensics/schemas.py", "def read(self, a: int, *, b: str) -> None: ..."),
        (prints, "jobs/rules.py", "print(1)"),
    ],
)
def test_what_is_allowed_is_left_alone(rule: Rule, path: str, text: str) -> None:
    assert list(rule(Source(path, text))) == []
