"""Runs the expectations with Great Expectations, part by part of a table, and tells what failed."""

from __future__ import annotations

import importlib
import logging
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.quality.expectations import EXPECTATIONS, Expectation

__all__ = ["CHECKS", "check"]

CHECKS = pa.schema(
    [
        ("table", pa.string()),
        ("expectation", pa.string()),
        ("success", pa.bool_()),
        ("observed", pa.string()),
        ("consequence", pa.string()),
    ]
)
_SHOWN = 5
# Rows of a part, to which those are added that belong to its last partition.
_PART = 250_000
Row = dict[str, Any]


def check(tables: Path, expectations: Iterable[Expectation] = EXPECTATIONS) -> pa.Table:
    """Check the saved tables; gives one row for each expectation."""
    expectations = list(expectations)
    results: list[list[Row]] = [[] for _ in expectations]
    for table, parts in (("files", _files), ("leadership", _leadership)):
        wanted = [at for at, one in enumerate(expectations) if one.table == table]
        for frame in parts(tables):
            for at in wanted:
                results[at].append(_result(expectations[at], frame))
    rows = [_row(one, found) for one, found in zip(expectations, results, strict=True)]
    return pa.Table.from_pylist(rows, schema=CHECKS)


def _files(tables: Path) -> Iterator[pd.DataFrame]:
    frame: pd.DataFrame = ds.dataset(tables / "files", format="parquet").to_table().to_pandas()
    buckets = ["records", "continuation_lines", "blank_lines", "unparsed_lines", "duplicate_lines"]
    frame["lines_left_over"] = frame["lines"] - frame[buckets].sum(axis=1)
    frame["parsed_share"] = 1.0 - frame["unparsed_lines"] / frame["lines"].clip(lower=1)
    yield frame


def _leadership(tables: Path) -> Iterator[pd.DataFrame]:
    """Give the table in parts: a partition's rows stand together, and no part cuts through them."""
    columns = ["topic", "partition", "leader_epoch", "started_at", "ended_at"]
    data = ds.dataset(tables / "leadership", format="parquet")
    batches = data.to_batches(columns=columns, batch_readahead=2, fragment_readahead=1)
    held = data.schema.empty_table().select(columns)
    for batch in batches:
        held = pa.concat_tables([held, pa.Table.from_batches([batch])])
        if len(held) >= _PART:
            whole = _start_of_last(held)
            if whole:
                yield _timed(held.slice(0, whole))
                held = held.slice(whole).combine_chunks()
    yield _timed(held)


def _start_of_last(held: pa.Table) -> int:
    """Say where the rows of the last partition begin; the rest of them may be yet to come."""
    last = [held[name][len(held) - 1] for name in ("topic", "partition")]
    mine = pc.and_(pc.equal(held["topic"], last[0]), pc.equal(held["partition"], last[1]))
    return int(pc.index(mine, value=True).as_py())


def _timed(part: pa.Table) -> pd.DataFrame:
    frame: pd.DataFrame = part.to_pandas()
    frame["seconds"] = (frame["ended_at"] - frame["started_at"]).dt.total_seconds()
    return frame


def _row(expectation: Expectation, results: Sequence[Row]) -> Row:
    """Put what was found in the parts together; it holds when it holds in all of them."""
    failed = [one for one in results if not one["success"]]
    seen = [value for one in failed for value in one["failing"]][:_SHOWN]
    observed = [one["observed"] for one in failed or results]
    return {
        "table": expectation.table,
        "expectation": _words(expectation),
        "success": not failed,
        "observed": ", ".join(seen) or next(iter(observed), "no rows"),
        "consequence": expectation.consequence,
    }


def _result(expectation: Expectation, frame: pd.DataFrame) -> Row:
    if frame.empty and not expectation.kind.startswith("ExpectTable"):
        # Every column expectation holds on an empty table; that would be no comfort.
        return {"success": True, "failing": [], "observed": "no rows"}
    result = _validated(expectation, frame)
    found = result["result"]
    return {
        "success": bool(result["success"]),
        "failing": [str(value) for value in found.get("partial_unexpected_list", [])[:_SHOWN]],
        "observed": str(found.get("observed_value", "all rows")),
    }


def _validated(expectation: Expectation, frame: pd.DataFrame) -> Mapping[str, Any]:
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Half a second of imports, wanted only once there is something to check.
        gx: Any = importlib.import_module("great_expectations")
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False}
        source = context.data_sources.add_or_update_pandas(expectation.table)
        asset = source.add_dataframe_asset(expectation.table)
        batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": frame})
        wanted = getattr(gx.expectations, expectation.kind)(**expectation.arguments)
        result: Mapping[str, Any] = batch.validate(wanted).to_json_dict()
    return result


def _words(expectation: Expectation) -> str:
    arguments = ", ".join(f"{name}={value}" for name, value in expectation.arguments.items())
    return f"{expectation.kind}({arguments})"
