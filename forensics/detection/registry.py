"""Lists all detectors: the shipped ones, YAML and Python files in packs, installed plug-ins.

A pack's folder `detectors/` may hold YAML files (see `forensics.detection.declarative`) and Python
files with a NAME and a `find`, just as the shipped ones are. A package that is installed names such
modules as entry points of the group `kafka_forensics.detectors`. Python is run as it is: a pack is
trusted like any program, and only the command line can name one that holds Python.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.detection.declarative.interpreter import make_detector
from forensics.detection.declarative.spec import DeclaredDetector, load_declaration
from forensics.detection.detectors import detectors as shipped_detectors
from forensics.detection.requirements import SERVERS
from forensics.detection.runner import DetectionResults, Detector, run_detectors
from forensics.detection.thresholds import load_limits
from forensics.errors import Problem, RuleError, reading_page
from forensics.events.packs import LIMITS, Pack
from forensics.history.rebuild import History
from forensics.lib.second_process import ALONE, SecondProcess
from forensics.lib.yaml_with_lines import FileText, rules_folder
from forensics.run_output.reader import Tables

_GROUP = "kafka_forensics.detectors"


def detect(
    tables: Tables,
    history: History,
    packs: Sequence[Pack] = (),
    second: SecondProcess = ALONE,
) -> DetectionResults:
    """Run every detector, also those of packs; `second` takes part in it."""
    detectors = all_detectors(packs)
    pages = [pack.pages[LIMITS] for pack in packs if LIMITS in pack.pages]
    limits = load_limits(pages, [detector.name for detector in detectors])
    return run_detectors(DetectionContext(tables, history, limits), detectors, second)


def all_detectors(packs: Sequence[Pack] = ()) -> list[Detector]:
    """Return the shipped detectors, those of plug-ins and of packs; the last of each name wins."""
    detectors = [*shipped_detectors(), *map(make_detector, load_shipped_declarations())]
    detectors += [_detector_from_module(module, origin) for module, origin in _load_plugins()]
    for pack in packs:
        pages = pack.pages_in("detectors")
        detectors += map(make_detector, load_declarations(pages))
        detectors += [
            _detector_from_module(_run_python_page(page), page.name) for page in pack.programs
        ]
    by_name = {detector.name: detector for detector in detectors}
    return [by_name[name] for name in sorted(by_name)]


def load_shipped_declarations() -> list[DeclaredDetector]:
    """Read the shipped detectors that are written in YAML."""
    paths = sorted((rules_folder() / "detectors").rglob("*.yaml"))
    return load_declarations(FileText(str(path), path.read_bytes()) for path in paths)


def load_declarations(pages: Iterable[FileText]) -> list[DeclaredDetector]:
    """Read detectors written in YAML; one error names everything that is wrong with them."""
    found: list[DeclaredDetector] = []
    problems: list[Problem] = []
    for page in pages:
        if not page.name.endswith(".yaml"):
            continue
        try:
            with reading_page(page.name):
                found.append(load_declaration(page))
        except RuleError as error:
            problems += error.problems
    if problems:
        raise RuleError(problems)
    return found


def _load_plugins() -> Iterator[tuple[Any, str]]:
    for one in sorted(entry_points(group=_GROUP), key=lambda entry: entry.name):
        try:
            yield one.load(), one.value
        except Exception as error:
            says = f"this plug-in cannot be loaded: {type(error).__name__}: {error}"
            raise RuleError([Problem(one.value, 1, says)]) from error


def _run_python_page(page: FileText) -> ModuleType:
    """Run a Python file of a pack as a module of its own."""
    module = ModuleType(f"kafka_forensics_detectors.{Path(page.name).stem}")
    module.__file__ = page.name
    # Dataclasses look their module up by its name.
    sys.modules[module.__name__] = module
    try:
        exec(compile(page.data, page.name, "exec"), vars(module))  # noqa: S102
    except Exception as error:
        line = error.lineno if isinstance(error, SyntaxError) and error.lineno else 1
        says = f"it cannot be run: {type(error).__name__}: {error}"
        raise RuleError([Problem(page.name, line, says)]) from error
    return module


def _detector_from_module(module: Any, origin: str) -> Detector:
    name, find = getattr(module, "NAME", None), getattr(module, "find", None)
    if not isinstance(name, str) or not callable(find):
        says = "a detector has a NAME and a function `find(case)` that yields findings"
        raise RuleError([Problem(origin, 1, says)])
    about = (getattr(module, "__doc__", None) or "").partition("\n")[0]
    return Detector(name, find, getattr(module, "NEEDS", SERVERS), about, is_third_party=True)
