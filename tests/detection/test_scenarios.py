"""Every detector fires, keeps quiet, holds its limits, and says when it cannot tell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forensics.detection.context import DetectionContext
from forensics.detection.detectors import detectors
from forensics.detection.runner import Detector, run_detectors
from forensics.detection.thresholds import SUPPRESS, load_limits
from forensics.run_output.findings import Finding
from forensics.settings import SEVERITIES
from tests.detection.scenarios import KINDS, Scenario, all_scenarios, matches

EVERY = list(all_scenarios())
DETECTORS = {one.name: one for one in detectors()}
LIMITS = load_limits()
SCRIPT = re.compile(r"(kafka|zookeeper)-[a-z-]+\.sh ")
ASKED = re.compile(r"   # |--alter")


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Mapping[int, DetectionContext]:
    """The case of each scenario, built once: limits may be exchanged in it."""
    return _Cases(tmp_path_factory.mktemp("cases"))


class _Cases(dict[int, DetectionContext]):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def __missing__(self, at: int) -> DetectionContext:
        folder = self.folder / str(at)
        folder.mkdir()
        one = EVERY[at]
        self[at] = replace(EVERY[at].build(folder), limits=_limits(one.detector, one.limits))
        return self[at]


def _limits(detector: str, changed: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    return {**LIMITS, detector: {**LIMITS.get(detector, {}), **changed}}


def _found(one: Scenario, case: DetectionContext) -> list[Finding]:
    return list(DETECTORS[one.detector].find(case))


@pytest.mark.parametrize("at", range(len(EVERY)), ids=[f"{x.detector}: {x.name}" for x in EVERY])
def test_a_detector_says_of_a_case_what_it_must(
    at: int, cases: Mapping[int, DetectionContext]
) -> None:
    one = EVERY[at]
    found = _found(one, cases[at])

    assert matches(found, one.expect), [vars(finding) for finding in found]
    # A command without a question leaves a tired reader with its output.
    actions = {action for finding in found for action in finding.actions}
    bare = {one for one in actions if SCRIPT.match(one) and not ASKED.search(one)}
    assert bare == set()
    if one.kind == "blind":
        outcome = run_detectors(cases[at], [DETECTORS[one.detector]]).outcomes[0]
        assert "not_evaluable" == outcome.status
        assert one.reason
        assert one.reason in outcome.reasons[0]


@pytest.mark.parametrize("name", sorted(DETECTORS))
def test_a_detector_has_scenarios_of_all_kinds(name: str) -> None:
    assert set(KINDS) == {one.kind for one in EVERY if one.detector == name}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(DETECTORS))
def test_moving_any_limit_by_one_step_is_seen(
    name: str, cases: Mapping[int, DetectionContext]
) -> None:
    own = [at for at, one in enumerate(EVERY) if one.detector == name]
    # What stands just at a limit sees most, and what stands at one limit is written side by side.
    likely = [at for at in own if EVERY[at].kind == "boundary"]
    last, unseen = likely[0], []
    for key, value in _moved(LIMITS.get(name, {})):
        near = {at: abs(at - last) for at in own}
        asked = sorted(own, key=lambda at: (near[at] > _BESIDE, at not in likely, near[at]))
        seen = next((at for at in asked if _sees(at, cases[at], key, value)), None)
        if seen is None:
            unseen.append((key, value))
        else:
            last = seen

    assert [] == unseen


_BESIDE = 2


def _moved(limits: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Move each limit up and down by one: numbers by their last digit, severities by a level."""
    for key, value in limits.items():
        if isinstance(value, bool) or key == SUPPRESS:
            continue
        if isinstance(value, int):
            yield from ((key, value - 1), (key, value + 1))
        elif isinstance(value, float):
            step = 10.0 ** -len(str(value).partition(".")[2])
            yield from ((key, round(value - step, 9)), (key, round(value + step, 9)))
        elif value in SEVERITIES:
            at = SEVERITIES.index(value)
            yield from ((key, one) for one in SEVERITIES[max(0, at - 1) : at + 2] if one != value)


def _sees(at: int, case: DetectionContext, key: str, value: object) -> bool:
    """Return True if a scenario finds something else with another limit."""
    one = EVERY[at]
    if key in one.limits:
        return False
    changed = replace(case, limits=_limits(one.detector, {**one.limits, key: value}))
    return not matches(_found(one, changed), one.expect)


def _names() -> frozenset[str]:
    return frozenset(DETECTORS)


def test_every_limit_belongs_to_a_detector() -> None:
    assert set(LIMITS) <= _names()


def test_every_scenario_belongs_to_a_detector() -> None:
    assert {one.detector for one in EVERY} <= _names()
    assert {one.kind for one in EVERY} <= set(KINDS)


def test_detectors_say_what_they_are_about() -> None:
    assert all(isinstance(one, Detector) and one.about for one in DETECTORS.values())
