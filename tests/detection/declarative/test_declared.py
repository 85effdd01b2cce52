"""Detectors written in YAML: what they find, their windows to the millisecond, and their faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forensics.detection.context import DetectionContext
from forensics.detection.declarative.interpreter import make_detector
from forensics.detection.declarative.spec import DeclaredDetector, load_declaration
from forensics.detection.registry import all_detectors, detect, load_shipped_declarations
from forensics.detection.thresholds import load_limits
from forensics.errors import RuleError
from forensics.events.packs import open_pack
from forensics.lib.yaml_with_lines import FileText
from forensics.rule_tools.check import find_detector_problems, find_sample_problems
from forensics.run_output.findings import Finding
from forensics.sandbox import run_lines
from tests.detection.cases import SECOND, case, epoch, event, logs, row

HEAD = """\
id: mine
title: "{count} of broker {broker} in {seconds} s"
means: Something happens too often.
level: low
samples:
  - {name: a, kind: fires, logs: {a.log: x}}
  - {name: b, kind: quiet, logs: {a.log: x}}
  - {name: c, kind: near miss, logs: {a.log: x}}
"""
MANY = HEAD + "table: events\nwhere: {kind: gc_pause}\nby: [broker]\ncount: 3\nwithin: 60\n"
LASTING = HEAD + "table: leadership\nwhere: {leader: -1}\nby: [topic, partition]\nlasts: 30\n"
LASTING = LASTING.replace("{count} of broker {broker}", "{topic}-{partition}")
LOST = HEAD + (
    "table: events\nwhere: {kind: broker_fenced}\nby: [broker]\n"
    "unless: [{where: {kind: broker_unfenced}, same: [broker], within: 30}]\n"
)


def rule(text: str) -> DeclaredDetector:
    return load_declaration(FileText("mine.yaml", text.encode()))


def found(text: str, one: DetectionContext) -> list[Finding]:
    return list(make_detector(rule(text)).find(one))


def pauses(*seconds: float, broker: int = 1) -> list[dict[str, Any]]:
    return [event(one, f"broker-{broker}", "gc_pause", broker=broker) for one in seconds]


@pytest.mark.parametrize(
    ("seconds", "counts"),
    [
        ((0, 30, 60), [3]),
        ((0, 30, 60.001), []),
        ((0, 30), []),
        # windows overlap: all of it is one finding
        ((0, 30, 60, 90, 120), [5]),
        ((0, 30, 60, 500, 530, 560), [3, 3]),
        # only what is in some full window counts
        ((0, 30, 60, 100), [3]),
    ],
)
def test_so_many_within_a_window_that_slides(
    seconds: tuple[float, ...], counts: list[int], tmp_path: Path
) -> None:
    told = found(MANY, case(tmp_path, events=pauses(*seconds)))

    assert counts == [one.measures["count"] for one in told]


def test_each_subject_counts_for_itself(tmp_path: Path) -> None:
    both = [*pauses(0, 30), *pauses(10, 40, 50, broker=2)]

    (one,) = found(MANY, case(tmp_path, events=both))

    assert ([2], "3 of broker 2 in 40.0 s") == (one.brokers, one.title)
    assert [100, 400, 500] == [place["line"] for place in one.evidence]


@pytest.mark.parametrize(("end", "count"), [(130, 1), (129.999, 0), (None, 1)])
def test_what_lasts_long_enough(end: float | None, count: int, tmp_path: Path) -> None:
    told = found(LASTING, case(tmp_path, leadership=[epoch(1, -1, 100, end), epoch(0, 2, 0, 100)]))

    assert [["t-0"]] * count == [one.partitions for one in told]


@pytest.mark.parametrize(("back", "count"), [(130, 0), (130.001, 1), (99, 1), (None, 1)])
def test_what_did_not_come_back(back: float | None, count: int, tmp_path: Path) -> None:
    told = [event(100, "controller-1", "broker_fenced", broker=2)]
    if back is not None:
        told.append(event(back, "controller-1", "broker_unfenced", broker=2))
    other = event(110, "controller-1", "broker_unfenced", broker=1)

    assert count == len(found(LOST, case(tmp_path, events=[*told, other])))


def test_nothing_is_said_to_be_absent_where_logs_end_or_have_a_hole(tmp_path: Path) -> None:
    told = [event(100, "controller-1", "broker_fenced", broker=2)]
    short = case(tmp_path, events=told, files=[logs("controller-1", 129)])
    assert [] == found(LOST, short)

    long = case(tmp_path, events=told, files=[logs("controller-1", 131)])
    assert 1 == len(found(LOST, long))

    hole = row(
        "coverage", node="controller-1", role="controller", state="missing", why="gone",
        started_at=120 * SECOND, ended_at=125 * SECOND,
    )  # fmt: skip
    assert [] == found(LOST, case(tmp_path, events=told, coverage=[hole]))


def test_what_a_starting_controller_reads_up_on_is_history(tmp_path: Path) -> None:
    old = [one | {"telling": "always"} for one in pauses(0, 30, 60)]

    assert [] == found(MANY, case(tmp_path, events=old))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"level: low": "level: loud"}, "mine.yaml:4: there is no level 'loud'"),
        ({"table: events": "table: event"}, "there is no table 'event'"),
        ({"kind: gc_pause": "kin: gc_pause"}, "events has no column 'kin'"),
        ({"kind: gc_pause": "broker: many"}, "'broker' is int32, and never 'many'"),
        ({"by: [broker]": "by: [isr]"}, "events has no plain column 'isr'"),
        ({"by: [broker]": "by: [node]"}, "{broker} is not known here; known: count, node, seconds"),
        ({"within: 60": ""}, "'count' needs 'within'"),
        ({"count: 3": "count: many"}, "'count' must be a number"),
        ({"kind: near miss": "kind: quiet"}, "there is no sample of kind 'near miss'"),
        ({"means:": "mean:"}, "unknown key 'mean'"),
        ({"kind: gc_pause": "ts: 5"}, "'ts' is a time; use lasts, within and gap"),
    ],
)
def test_faults_name_file_and_line(change: Mapping[str, str], says: str) -> None:
    text = MANY
    for old, new in change.items():
        text = text.replace(old, new)

    with pytest.raises(RuleError) as error:
        rule(text)

    assert says in str(error.value)


@pytest.mark.parametrize("one", load_shipped_declarations(), ids=lambda one: one.id)
def test_shipped_ones_hold_and_every_number_of_theirs_matters(one: DeclaredDetector) -> None:
    assert [] == list(find_sample_problems([one]))
    numbers = [(k, v) for k, v in one.limits.items() if k != "level" and f"\n{k}:" in text_of(one)]
    for name, value in numbers:
        for moved in (value - 1, value + 1):
            changed = replace(one, limits={**one.limits, name: moved})
            assert list(find_sample_problems([changed])), f"{one.id}: {name} may be {moved}"


def text_of(one: DeclaredDetector) -> str:
    return Path(one.origin).read_text("utf-8")


PYTHON = '''
"""Brokers that are always there."""
from forensics.detection import Finding

NAME = "always"


def find(case):
    [row] = case.rows("events", None)[:1]
    yield Finding(NAME, "low", "confirmed", "Here it is", row["at"], row["at"], [row])
'''


def pack(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_yaml", ".yaml").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize("package", ["detection", "incidents"], ids=["now", "former name"])
def test_packs_bring_detectors_and_change_limits(package: str, tmp_path: Path) -> None:
    folder = pack(
        tmp_path / "pack",
        detectors__always_py=PYTHON.replace("forensics.detection", f"forensics.{package}"),
        detectors__mine_yaml=MANY,
        limits_yaml="mine: {count: 2}\nflapping-broker: {cycles: 9}\n",
    )
    packs = [open_pack(folder)]
    (tmp_path / "tables").mkdir()
    small = case(tmp_path / "tables", events=pauses(0, 30))

    answers = detect(small.tables, small.history, packs)

    assert {"always", "mine"} <= {one.name for one in all_detectors(packs)}
    assert {"always", "mine"} == {one.detector for one in answers.findings}


def test_a_detector_of_ones_own_that_fails_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    broken = PYTHON.replace('[row] = case.rows("events", None)[:1]', "raise ValueError('oh')")
    packs = [open_pack(pack(tmp_path / "pack", detectors__always_py=broken))]
    (tmp_path / "tables").mkdir()
    small = case(tmp_path / "tables")

    answers = detect(small.tables, small.history, packs)

    (failed,) = [one for one in answers.outcomes if one.status == "failed"]
    assert ("always", ["it failed: ValueError: oh"]) == (failed.detector, list(failed.reasons))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("NAME = 1", "a detector has a NAME and a function `find(case)`"),
        ("def find(:", "it cannot be run: SyntaxError"),
        ("import nothing_of_that_name", "it cannot be run: ModuleNotFoundError"),
    ],
)
def test_python_that_is_no_detector_is_named(text: str, says: str, tmp_path: Path) -> None:
    packs = [open_pack(pack(tmp_path, detectors__bad_py=text))]

    (problem,) = find_detector_problems(packs, shipped=False)

    assert says in str(problem)
    assert str(problem).startswith(f"{tmp_path}/detectors/bad.py:1:")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("flaping-broker: {cycles: 2}", "no detector 'flaping-broker'; did you mean 'flapping-bro"),
        ("flapping-broker: {cycle: 2}", "has no limit 'cycle'; did you mean 'cycles'?"),
        ("flapping-broker: {cycles: many}", "cycles must be like 3, not 'many'"),
        ("flapping-broker: {suppress: [{brokers: [1]}]}", "say the reason"),
        ("flapping-broker: {suppress: [{reason: x, until: 2026-12-31}]}", "name whom it is about"),
    ],
)
def test_limits_that_do_not_fit_are_named(text: str, says: str) -> None:
    with pytest.raises(RuleError) as error:
        load_limits([FileText("limits.yaml", text.encode())])

    assert says in str(error.value)


def test_logs_become_findings_without_spark(tmp_path: Path) -> None:
    (one,) = load_shipped_declarations()[1:2]
    sample = next(sample for sample in one.samples if sample.kind == "fires")

    (told,) = make_detector(one).find(run_lines(sample.logs, tmp_path).context())

    assert ("deleted-topic-in-use", "low") == (told.detector, told.severity)
    assert "Topic orders-v2 was deleted while clients still used it" == told.title
