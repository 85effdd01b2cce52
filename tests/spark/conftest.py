"""Runs of the whole program: each sample once in a test session, and more where a test asks."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from forensics.settings import Settings
from tests.spark.truth import Truth

SAMPLES = Path(__file__).parents[2] / "sample_logs"
ARCHIVES = {"430-unclean": "logs", "282-flapping": "logs.tar.gz", "391-rolling": "logs.zip"}


@dataclass(frozen=True)
class Run:
    """One postmortem: what it read, what it left, what it said on the way."""

    archive: Path
    out: Path
    document: dict[str, Any]
    said: list[str]

    @property
    def truth(self) -> Truth:
        """What really happened."""
        return Truth(self.archive.parent / "truth")

    @property
    def findings(self) -> bytes:
        """The bytes of findings.json."""
        return (self.out / "findings.json").read_bytes()


Postmortem = Callable[..., Run]


@pytest.fixture(scope="session")
def postmortem() -> Iterator[Postmortem]:
    """Run the program in this process; it opens a session of Spark and closes it again."""
    # Spark is wanted only when the first run is.
    work = importlib.import_module("forensics.pipeline").postmortem
    before = dict(os.environ)

    def run(archive: Path, out: Path, master: str = "local[2]") -> Run:
        said: list[str] = []
        settings = Settings((str(archive),), out, master)
        work(settings, said.append)
        document = json.loads((out / "findings.json").read_text("utf-8"))
        return Run(archive, out, document, said)

    yield run
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="session")
def recorded(
    postmortem: Postmortem, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Run]:
    """Give the postmortem of a sample, made when it is first asked for."""
    runs: dict[str, Run] = {}

    def give(name: str) -> Run:
        if name not in runs:
            out = tmp_path_factory.mktemp(name)
            runs[name] = postmortem(SAMPLES / name / ARCHIVES[name], out)
        return runs[name]

    return give


@pytest.fixture(scope="session", params=list(ARCHIVES))
def run(request: pytest.FixtureRequest, recorded: Callable[[str], Run]) -> Run:
    """Give each sample's postmortem in turn."""
    return recorded(request.param)
