"""What a run leaves is as docs/schemas says, and the schemas refuse what is not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from forensics import run_result
from forensics.run_output.findings import Finding, PartitionLoss
from forensics.run_result import ExitCode, RunOutcome, Stopwatch
from tests.golden.digests import recordings
from tests.report.recorded import run_recording

ROOT = Path(__file__).parents[2]
IMPACT = {
    "partitions_unavailable": 1, "partitions": 3, "partition_seconds": 2.5, "longest_s": 2.5,
    "planned_partition_seconds": 0, "clients_affected": 0, "records_lost_min": 845,
    "records_lost_max": None,
}  # fmt: skip
Change = Callable[[dict[str, Any]], None]


def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = json.loads((ROOT / "docs/schemas" / f"{name}.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def faults(name: str, document: object) -> list[str]:
    return [
        f"{error.json_path}: {error.message}" for error in validator(name).iter_errors(document)
    ]


def unnamed(name: str, document: dict[str, Any]) -> set[str]:
    """Give the keys that the schema does not explain."""
    schema = validator(name).schema
    known = set(schema["properties"])
    left = set(document) - known
    if name == "findings":
        known = set(schema["$defs"]["finding"]["properties"])
        left |= {f"findings.{key}" for one in document["findings"] for key in set(one) - known}
    return left


def small() -> dict[str, Any]:
    """Give a document with one finding, as the code writes it."""
    line = {"file": "logs.tgz!broker-2/server.log", "line": 7, "text": "gone", "rule": "a.b@3.6"}
    found = Finding(
        "unclean-election", "critical", "confirmed", "Unclean election", 1_795_001_931_321_000,
        1_795_001_968_767_000, [line], brokers=[2], partitions=["orders-1"],
        losses=[PartitionLoss("orders-1", 3, 2, 0, 845, 845, 845)],
    )  # fmt: skip
    return {
        "schema": 1, "verdict": "incident", "summary": "Unclean election",
        "window": {"from": "2026-11-18T11:37:40.502Z", "to": None},
        "archive": {"files": 1, "bytes": 5, "lines": 7, "events": 1},
        "impact": {}, "findings": [found.to_json()],
    }  # fmt: skip


def read(out: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "findings", json.loads((out / "findings.json").read_text("utf-8"))
    yield "result", json.loads((out / "_RESULT.json").read_text("utf-8"))


def test_a_finding_is_as_the_schema_says() -> None:
    assert faults("findings", small() | {"impact": IMPACT}) == []
    assert unnamed("findings", small()) == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(name for name in recordings() if "/" not in name))
def test_every_sample_is_as_the_schemas_say(name: str, tmp_path: Path) -> None:
    out = run_recording(recordings()[name], tmp_path / "out")
    for kind, document in read(out):
        assert faults(kind, document) == []
        assert unnamed(kind, document) == set()


def test_a_run_that_failed_has_a_result_too(tmp_path: Path) -> None:
    outcome = RunOutcome(ExitCode.FAILED, "ArchiveError: nothing to read")
    with Stopwatch() as watch:
        result = run_result.save_result(
            tmp_path, outcome, command=("postmortem",), **watch.figures()
        )

    assert faults("result", result) == []
    assert faults("result", {**result, "exit_code": 7}) != []


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one.pop("verdict"),
        lambda one: one.update(schema=2),
        lambda one: one["findings"][0].pop("evidence"),
        lambda one: one["findings"][0].update(evidence=[]),
        lambda one: one["findings"][0].update(severity="bad"),
        lambda one: one["findings"][0].update({"from": "18 Nov 11:38"}),
        lambda one: one["findings"][0].update(partitions=["orders"]),
        lambda one: one["impact"].update(records_lost_min="many"),
    ],
)
def test_what_is_not_as_it_should_be_is_refused(change: Change) -> None:
    document = small() | {"impact": dict(IMPACT)}
    change(document)

    assert faults("findings", document) != []


def test_the_wheel_carries_the_schemas() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")

    assert '"docs/schemas" = "forensics/_data/schemas"' in text
