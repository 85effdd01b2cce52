"""Runs expectations with Great Expectations: one batch for each table.

Only this module knows that library. Its analytics are disabled, in code and by its environment
variable, and it is only loaded once there is something to check.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, reduce
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from operator import and_
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

from forensics.errors import ForensicsError, Problem, RuleError
from forensics.events.packs import Pack
from forensics.lib.second_process import ALONE, SecondProcess
from forensics.lib.this_machine import start_helper
from forensics.lib.yaml_with_lines import FileText, line_of, load_yaml
from forensics.quality.expectations import Expectation, load_expectations, suggest

_SITE = "kafka-forensics"
_CONTEXT_FILE = "gx/great_expectations.yml"
# Expectations that need another table or a database.
_ELSEWHERE = ("ExpectQueryResultsToMatchComparison", "ExpectTableRowCountToEqualOtherTable")
# What the library needs to draw, and for one expectation about distributions.
_SELDOM = frozenset({"altair", "scipy.stats"})
# Arguments that are set here, or that would run text as a program.
_RESERVED = frozenset({
    "batch_id", "catch_exceptions", "condition_parser", "description", "id", "meta", "notes",
    "rendered_content", "result_format", "row_condition", "severity", "windows",
})  # fmt: skip


@dataclass(frozen=True)
class CheckResult:
    """The result of one expectation: whether it holds, which rows fail, what was observed."""

    passed: bool
    # positions in the frame; none if it is about the table as a whole
    rows: Sequence[int] = ()
    values: Sequence[object] = ()
    observed: str = ""


class GxRunner:
    """A context of Great Expectations in memory; with a folder it writes its Data Docs there."""

    def __init__(self, docs: Path | None = None) -> None:
        """Create the context."""
        with _quiet():
            gx = _library()
            self._context: Any = gx.get_context(mode="ephemeral")
            self._context.enable_analytics(False)
            self._context.variables.progress_bars = {"globally": False}
            self._source: Any = self._context.data_sources.add_or_update_pandas("tables")
            if docs is not None:
                self._context.add_data_docs_site(_SITE, _site(docs))
        self._docs = docs

    def validate(
        self, table: str, frame: pd.DataFrame, expectations: Sequence[Expectation]
    ) -> list[CheckResult]:
        """Check a table; return the result of each expectation, in their order."""
        with _quiet():
            gx = _library()
            suite = gx.ExpectationSuite(table, expectations=list(map(_to_gx, expectations)))
            asset = self._source.add_dataframe_asset(table)
            whole = asset.add_batch_definition_whole_dataframe("all")
            data = {"dataframe": frame}
            # Data Docs are made of stored results; without Data Docs nothing is stored.
            if self._docs is not None:
                stored = self._context.suites.add(suite)
                definition = gx.ValidationDefinition(name=table, data=whole, suite=stored)
                run = self._context.validation_definitions.add(definition).run
                validated = run(batch_parameters=data, result_format=_COMPLETE)
            else:
                validated = whole.get_batch(data).validate(suite, result_format=_COMPLETE)
        results = {
            one.expectation_config.meta["id"]: _parse_result(one, frame)
            for one in validated.results
        }
        return [results[expectation.id] for expectation in expectations]

    def close(self) -> None:
        """Write the Data Docs, if they are wanted."""
        if self._docs is not None:
            with _quiet():
                self._context.build_data_docs(site_names=[_SITE])


_COMPLETE = {"result_format": "COMPLETE"}
_CONTEXT_PAGE = """\
# A context of Great Expectations

`tables/` holds what `kafka-forensics` measured of an archive of logs, `gx/` the suites that it was
checked by. In a Python with `great_expectations` and `pyarrow`:

```python
import great_expectations as gx

context = gx.get_context(mode="file", project_root_dir="FOLDER")
print(context.checkpoints.get("kafka-forensics").run().describe())
context.open_data_docs()
```

Where the folder is moved, change `base_directory` in `gx/great_expectations.yml`, which Great
Expectations takes from the root of the disk.
"""


def check_context_folder(folder: Path) -> None:
    """Raise an error if a folder holds something, and no context of Great Expectations."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / _CONTEXT_FILE).is_file():
        raise ForensicsError(
            f"{folder} is not empty, and holds no context of Great Expectations (there is no"
            f" {_CONTEXT_FILE}). Name a new folder by --gx-context."
        )


def write_context(
    folder: Path, frames: Mapping[str, pd.DataFrame], expectations: Sequence[Expectation]
) -> None:
    """Write tables, suites and a checkpoint as a context on disk, and run it once.

    What somebody has added to the context stays.
    """
    check_context_folder(folder)
    data = folder.absolute() / "tables"
    data.mkdir(parents=True, exist_ok=True)
    with _quiet():
        gx = _library()
        context: Any = gx.get_context(mode="file", project_root_dir=str(folder.absolute()))
        context.enable_analytics(False)
        context.variables.progress_bars = {"globally": False}
        context.variables.save()
        sources = context.data_sources
        known = sources.all()
        source = (
            known["tables"]
            if "tables" in known
            else sources.add_pandas_filesystem("tables", base_directory=data)
        )
        definitions = []
        for table, frame in frames.items():
            frame.to_parquet(data / f"{table}.parquet", index=False)
            own = [_to_gx(one) for one in expectations if one.table == table]
            suite = context.suites.add_or_update(gx.ExpectationSuite(table, expectations=own))
            whole = _whole_table(source, table)
            definition = gx.ValidationDefinition(name=table, data=whole, suite=suite)
            definitions.append(context.validation_definitions.add_or_update(definition))
        checkpoint = gx.Checkpoint(
            name=_SITE,
            validation_definitions=definitions,
            actions=[gx.checkpoint.UpdateDataDocsAction(name="data-docs")],
            result_format=_COMPLETE,
        )
        context.checkpoints.add_or_update(checkpoint).run()
    (folder / "README.md").write_text(_CONTEXT_PAGE.replace("FOLDER", str(folder.absolute())))


def _whole_table(source: Any, table: str) -> Any:
    """Return what is read of one table: its file, whole."""
    if table not in source.get_asset_names():
        source.add_parquet_asset(table)
    asset = source.get_asset(table)
    for known in asset.batch_definitions:
        if known.name == "all":
            return known
    return asset.add_batch_definition_path("all", path=f"{table}.parquet")


def find_problems(expectations: Sequence[Expectation]) -> list[Problem]:
    """Find names and arguments that Great Expectations does not know."""
    return sorted(
        Problem(one.origin, _line_of_key(one, key), f"{one.id}: {says}")
        for one in expectations
        for key, says in _find_faults(one)
    )


def _find_faults(one: Expectation) -> Iterator[tuple[str, str]]:
    known = _kinds()
    if one.kind not in known:
        yield "expectation", f"there is no expectation {one.kind!r}{suggest(one.kind, known)}"
        return
    model = known[one.kind]
    takes = sorted(set(model.__fields__) - _RESERVED)
    strange = [name for name in one.arguments if name not in takes]
    for name in strange:
        yield "arguments", f"{one.kind} takes no {name!r}{suggest(name, takes)}"
    if strange:
        return
    try:
        with _quiet():
            _to_gx(one)
    except (TypeError, ValueError) as error:
        errors = getattr(error, "errors", list)() or [{"loc": (), "msg": str(error)}]
        first = errors[0]
        where = " ".join(str(part) for part in first["loc"] if part != "__root__")
        yield "arguments", f"{where + ': ' if where else ''}{first['msg']}"


def _line_of_key(one: Expectation, key: str) -> int:
    """Return the line of a key of an expectation in its file."""
    try:
        document = load_yaml(FileText(one.origin, Path(one.origin).read_bytes()))
    except (OSError, RuleError):
        return one.line
    for other in document.get("expectations") or ():
        if line_of(other) == one.line:
            return line_of(other, key)
    return one.line


def _parse_result(one: Any, frame: pd.DataFrame) -> CheckResult:
    result: Mapping[str, Any] = one.result or {}
    if raised := _raised_message(one.exception_info):
        return CheckResult(passed=False, observed=f"it could not be asked: {raised}")
    rows = [int(row) for row in result.get("unexpected_index_list") or ()]
    values = list(result.get("unexpected_list") or ())
    if "unexpected_count" in result:
        total, count = result.get("element_count", len(frame)), result["unexpected_count"]
        observed = f"{count:,} of {total:,}" if count else f"all {total:,}" if total else "no rows"
    elif result.get("partial_missing_list"):
        observed = f"missing: {', '.join(map(str, result['partial_missing_list']))}"
    else:
        seen: Any = result.get("observed_value")
        observed = str(seen.item() if hasattr(seen, "item") else seen)
    return CheckResult(bool(one.success), rows, values, observed)


def _raised_message(info: Mapping[str, Any] | None) -> str:
    """Return the message of an exception that the library caught and kept, if any."""
    for one in (info, *(info or {}).values()):
        if isinstance(one, Mapping) and one.get("raised_exception"):
            return str(one.get("exception_message")).partition("\n")[0]
    return ""


def _to_gx(one: Expectation) -> Any:
    where = {"row_condition": _row_condition(one.where)} if one.where else {}
    meta = {"id": one.id}
    kind = _kinds()[one.kind]
    return kind(**one.arguments, **where, meta=meta, severity=one.severity, notes=one.words)


def _row_condition(where: Mapping[str, Any]) -> Any:
    rows = importlib.import_module("great_expectations.expectations.row_conditions")
    parts: list[Any] = []
    for name, value in where.items():
        column = rows.Column(name)
        if value is None:
            parts.append(column.is_null())
        else:
            parts.append(column.is_in(value) if isinstance(value, list) else column == value)
    return reduce(and_, parts)


@cache
def _kinds() -> Mapping[str, Any]:
    """Return the expectations for a table in memory, by name."""
    module = _library().expectations
    names = [name for name in dir(module) if name.startswith("Expect") and name != "Expectation"]
    return {name: getattr(module, name) for name in names if name not in _ELSEWHERE}


def _site(folder: Path) -> Mapping[str, Any]:
    store = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder.resolve())}
    index = {"class_name": "DefaultSiteIndexBuilder"}
    return {"class_name": "SiteBuilder", "site_index_builder": index, "store_backend": store}


def _library(hidden: str = "pyspark.ml") -> Any:
    # The library reads it when it is loaded, and again with each context.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    # The import takes seconds, and longer if it finds parts of Spark that no check needs.
    with _hide_module(hidden), _load_late():
        return importlib.import_module("great_expectations")


@contextmanager
def _hide_module(name: str) -> Iterator[None]:
    """Let whoever imports a module meanwhile find that it is not there."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.modules.pop(name, None)


class _LateFinder(MetaPathFinder):
    """Finds modules that are run only when somebody asks for something in them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find one of the modules that the library hardly ever uses."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname in _SELDOM else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


@contextmanager
def _load_late() -> Iterator[None]:
    """Let the library have modules that take nearly half of its import when it uses them."""
    finder = _LateFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def preload_library(*, with_spark: bool = True, second: SecondProcess = ALONE) -> None:
    """Load the library: where it is used, and while this process does something else."""
    if second.is_there:
        second.start(_load)
    elif with_spark:
        # The first use loads it again, and then reports why that fails.
        start_helper(_library)
    else:
        # Two threads of one Python take turns, which costs each of them more than it gains.
        with suppress(Exception):
            _load()


def _load() -> None:
    _library("pyspark")


@contextmanager
def _quiet() -> Iterator[None]:
    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def load_checked_expectations(packs: Iterable[Pack] = ()) -> list[Expectation]:
    """Read all expectations and try those of packs: before hours of work, not after them."""
    packs = list(packs)
    expectations = load_expectations(packs)
    own = [one for one in expectations if any(one.origin.startswith(pack.origin) for pack in packs)]
    if problems := find_problems(own) if own else []:
        raise RuleError(problems)
    return expectations
