"""Runs the expectations with Great Expectations over the small tables, and tells what failed."""

from __future__ import annotations

import importlib
import logging
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
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


def check(tables: Path, expectations: Iterable[Expectation] = EXPECTATIONS) -> pa.Table:
    """Check the saved tables; gives one row for each expectation."""
    frames = {"files": _files(tables), "leadership": _leadership(tables)}
    rows = [_row(one, frames[one.table]) for one in expectations]
    return pa.Table.from_pylist(rows, schema=CHECKS)


def _files(tables: Path) -> pd.DataFrame:
    frame: pd.DataFrame = ds.dataset(tables / "files", format="parquet").to_table().to_pandas()
    buckets = ["records", "continuation_lines", "blank_lines", "unparsed_lines", "duplicate_lines"]
    frame["lines_left_over"] = frame["lines"] - frame[buckets].sum(axis=1)
    frame["parsed_share"] = 1.0 - frame["unparsed_lines"] / frame["lines"].clip(lower=1)
    return frame


def _leadership(tables: Path) -> pd.DataFrame:
    columns = ["topic", "partition", "leader_epoch", "started_at", "ended_at"]
    data = ds.dataset(tables / "leadership", format="parquet").to_table(columns=columns)
    frame: pd.DataFrame = data.to_pandas()
    frame["seconds"] = (frame["ended_at"] - frame["started_at"]).dt.total_seconds()
    return frame


def _row(expectation: Expectation, frame: pd.DataFrame) -> dict[str, Any]:
    row = {
        "table": expectation.table,
        "expectation": _words(expectation),
        "consequence": expectation.consequence,
    }
    if frame.empty and not expectation.kind.startswith("ExpectTable"):
        # Every column expectation holds on an empty table; that would be no comfort.
        return row | {"success": True, "observed": "no rows"}
    result = _validated(expectation, frame)
    found = result["result"]
    failing = [str(value) for value in found.get("partial_unexpected_list", [])[:_SHOWN]]
    observed = ", ".join(failing) or str(found.get("observed_value", "all rows"))
    return row | {"success": bool(result["success"]), "observed": observed}


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
