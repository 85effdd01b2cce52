"""The expectations, as data: table, expectation of Great Expectations, arguments, consequence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["EXPECTATIONS", "Expectation"]


@dataclass(frozen=True)
class Expectation:
    """One expectation and what it means when it fails."""

    table: str
    kind: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    consequence: str = ""


EXPECTATIONS = (
    Expectation("files", "ExpectTableRowCountToBeBetween", {"min_value": 1}, "nothing was read"),
    Expectation(
        "files",
        "ExpectColumnValuesToBeInSet",
        {"column": "lines_left_over", "value_set": [0]},
        "a line of this file is in no bucket: do not trust its counts",
    ),
    Expectation(
        "files",
        "ExpectColumnValuesToBeBetween",
        {"column": "parsed_share", "min_value": 0.95},
        "more than 5 % of this file's lines are in no known layout: what they say is not known",
    ),
    Expectation(
        "leadership",
        "ExpectCompoundColumnsToBeUnique",
        {"column_list": ["topic", "partition", "leader_epoch"]},
        "two leaders in one epoch: the archive mixes clusters, or a topic was created again",
    ),
    Expectation(
        "leadership",
        "ExpectColumnValuesToBeBetween",
        {"column": "seconds", "min_value": -2.0},
        "an epoch that ends before it begins: a clock is off by more than was found",
    ),
)
