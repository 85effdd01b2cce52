"""Asks Great Expectations: one batch for each table, with all that is expected of it.

This is the one module that knows that library. It is told to send nothing to anybody, in code and
by its variable of the environment, and it is loaded only once there is something to check.
"""

from __future__ import annotations

import importlib
import logging
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any

import pandas as pd

from forensics.errors import Problem, RuleError
from forensics.events.packs import Pack
from forensics.lib.yaml_with_lines import FileText, line_of, load_yaml
from forensics.quality.expectations import Expectation, load_expectations, suggest

_SITE = "kafka-forensics"
# Expectations that ask another table or a database: there is none.
_ELSEWHERE = ("ExpectQueryResultsToMatchComparison", "ExpectTableRowCountToEqualOtherTable")
# What is set here, or would run text as a program.
_OURS = frozenset({
    "batch_id", "catch_exceptions", "condition_parser", "description", "id", "meta", "notes",
    "rendered_content", "result_format", "row_condition", "severity", "windows",
})  # fmt: skip


@dataclass(frozen=True)
class CheckResult:
    """What became of one expectation: whether it holds, in which rows not, what was seen."""

    passed: bool
    # places in the frame; none where it is about the table as a whole
    rows: Sequence[int] = ()
    values: Sequence[object] = ()
    observed: str = ""


class GxRunner:
    """A context of Great Expectations in memory; with a folder it leaves its Data Docs there."""

    def __init__(self, docs: Path | None = None) -> None:
        """Make the context."""
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
        """Check a table; gives one answer for each expectation, in their order."""
        with _quiet():
            gx = _library()
            asked = [_made(one) for one in expectations]
            suite = gx.ExpectationSuite(table, expectations=asked)
            whole = self._source.add_dataframe_asset(table).add_batch_definition_whole_dataframe(
                "all"
            )
            given = {"dataframe": frame}
            # Data Docs are made of results that were stored; without them nothing is.
            if self._docs is not None:
                stored = self._context.suites.add(suite)
                definition = gx.ValidationDefinition(name=table, data=whole, suite=stored)
                run = self._context.validation_definitions.add(definition).run
                found = run(batch_parameters=given, result_format=_COMPLETE)
            else:
                found = whole.get_batch(given).validate(suite, result_format=_COMPLETE)
        answers = {one.expectation_config.meta["id"]: _answer(one, frame) for one in found.results}
        return [answers[one.id] for one in expectations]

    def close(self) -> None:
        """Write the Data Docs, where they are wanted."""
        if self._docs is not None:
            with _quiet():
                self._context.build_data_docs(site_names=[_SITE])


_COMPLETE = {"result_format": "COMPLETE"}


def find_problems(expectations: Sequence[Expectation]) -> list[Problem]:
    """Find what Great Expectations does not know or take: names and arguments."""
    problems: list[Problem] = []
    for one in expectations:
        for key, says in _faults(one):
            problems.append(Problem(one.origin, _line(one, key), f"{one.id}: {says}"))
    return sorted(problems)


def _faults(one: Expectation) -> Iterator[tuple[str, str]]:
    known = _kinds()
    if one.kind not in known:
        yield "expectation", f"there is no expectation {one.kind!r}{suggest(one.kind, known)}"
        return
    model = known[one.kind]
    takes = sorted(set(model.__fields__) - _OURS)
    strange = [name for name in one.arguments if name not in takes]
    for name in strange:
        yield "arguments", f"{one.kind} takes no {name!r}{suggest(name, takes)}"
    if strange:
        return
    try:
        with _quiet():
            _made(one)
    except (TypeError, ValueError) as error:
        told = getattr(error, "errors", list)() or [{"loc": (), "msg": str(error)}]
        first = told[0]
        where = " ".join(str(part) for part in first["loc"] if part != "__root__")
        yield "arguments", f"{where + ': ' if where else ''}{first['msg']}"


def _line(one: Expectation, key: str) -> int:
    """Find on which line of its file a key of an expectation stands."""
    try:
        document = load_yaml(FileText(one.origin, Path(one.origin).read_bytes()))
    except (OSError, RuleError):
        return one.line
    for other in document.get("expectations") or ():
        if line_of(other) == one.line:
            return line_of(other, key)
    return one.line


def _answer(one: Any, frame: pd.DataFrame) -> CheckResult:
    result: Mapping[str, Any] = one.result or {}
    if raised := _raised(one.exception_info):
        return CheckResult(passed=False, observed=f"it could not be asked: {raised}")
    rows = [int(at) for at in result.get("unexpected_index_list") or ()]
    values = list(result.get("unexpected_list") or ())
    if "unexpected_count" in result:
        asked, count = result.get("element_count", len(frame)), result["unexpected_count"]
        observed = f"{count:,} of {asked:,}" if count else f"all {asked:,}" if asked else "no rows"
    elif result.get("partial_missing_list"):
        observed = f"missing: {', '.join(map(str, result['partial_missing_list']))}"
    else:
        seen: Any = result.get("observed_value")
        observed = str(seen.item() if hasattr(seen, "item") else seen)
    return CheckResult(bool(one.success), rows, values, observed)


def _raised(info: Mapping[str, Any] | None) -> str:
    """Give what was raised, if so: the library keeps it by metric, and does not raise it."""
    for one in (info, *(info or {}).values()):
        if isinstance(one, Mapping) and one.get("raised_exception"):
            return str(one.get("exception_message")).partition("\n")[0]
    return ""


def _made(one: Expectation) -> Any:
    more: dict[str, Any] = {}
    if one.where:
        more["row_condition"] = _condition(one.where)
    kind = _kinds()[one.kind]
    return kind(
        **one.arguments, **more, meta={"id": one.id}, severity=one.severity, notes=one.words
    )


def _condition(where: Mapping[str, Any]) -> Any:
    rows = importlib.import_module("great_expectations.expectations.row_conditions")
    parts = []
    for name, value in where.items():
        column = rows.Column(name)
        if value is None:
            parts.append(column.is_null())
        else:
            parts.append(column.is_in(list(value)) if isinstance(value, list) else column == value)
    whole = parts[0]
    for part in parts[1:]:
        whole &= part
    return whole


@cache
def _kinds() -> Mapping[str, Any]:
    """Give the expectations that can be asked of a table in memory, by name."""
    module = _library().expectations
    names = [name for name in dir(module) if name.startswith("Expect") and name != "Expectation"]
    return {name: getattr(module, name) for name in names if name not in _ELSEWHERE}


def _site(folder: Path) -> Mapping[str, Any]:
    store = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder.resolve())}
    index = {"class_name": "DefaultSiteIndexBuilder"}
    return {"class_name": "SiteBuilder", "site_index_builder": index, "store_backend": store}


def _library() -> Any:
    # It is asked for when it is loaded, and again with each context.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    # Seconds of imports, wanted only once there is something to check.
    return importlib.import_module("great_expectations")


def preload_library() -> None:
    """Begin to load the library while something else is waited for, such as the start of Spark."""
    Thread(target=_loaded, name="expectations", daemon=True).start()


def _loaded() -> None:
    # Who needs it loads it again, and then it is told why that fails.
    with suppress(Exception):
        _library()


@contextmanager
def _quiet() -> Iterator[None]:
    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def load_checked_expectations(packs: Iterable[Pack] = ()) -> list[Expectation]:
    """Read the suites, those of packs tried: before hours of work, not after them."""
    packs = list(packs)
    found = load_expectations(packs)
    own = [one for one in found if any(one.origin.startswith(pack.origin) for pack in packs)]
    if problems := find_problems(own) if own else []:
        raise RuleError(problems)
    return found
