"""Runs of the whole program: each sample once in a test session, and more where a test asks."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from forensics.settings import Settings
from tests.recorded_runs import make_once
from tests.spark.truth import Truth

ROOT = Path(__file__).parents[2]
# What `make dist-executors` packs.
EXECUTORS = re.findall(r"^EXECUTORS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
UNUSED = re.compile(r"/(tests?|include|__pycache__)/")
# Python runs this first wherever it finds it: it writes down where modules can come from.
WITNESS = """
import json, os, sys
with open(os.path.join({folder!r}, str(os.getpid())), "w") as out:
    json.dump(sys.path, out)
"""
SAMPLES = ROOT / "sample_logs"
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
    """Give the postmortem of a sample, made when any worker first asks for it."""
    runs: dict[str, Run] = {}

    def give(name: str) -> Run:
        archive = SAMPLES / name / ARCHIVES[name]

        def make(folder: Path) -> None:
            said = postmortem(archive, folder / "out").said
            (folder / "said.json").write_text(json.dumps(said), encoding="utf-8")

        if name not in runs:
            folder = make_once(tmp_path_factory, f"spark-{name}", make)
            document = json.loads((folder / "out/findings.json").read_text("utf-8"))
            said = json.loads((folder / "said.json").read_text("utf-8"))
            runs[name] = Run(archive, folder / "out", document, said)
        return runs[name]

    return give


@pytest.fixture(scope="session", params=list(ARCHIVES))
def run(request: pytest.FixtureRequest, recorded: Callable[[str], Run]) -> Run:
    """Give each sample's postmortem in turn."""
    return recorded(request.param)


@pytest.fixture(scope="session")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but what the guide asks for: a zip, an archive, and the job."""
    folder = tmp_path_factory.mktemp("sent")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        job = opened.read("forensics/_data/jobs/postmortem.py")
    (folder / "postmortem.py").write_bytes(job)
    wheel.rename(folder / "kafka-forensics-0-py.zip")
    (folder / "paths").mkdir()
    (folder / "sitecustomize.py").write_text(WITNESS.format(folder=str(folder / "paths")))
    with tarfile.open(folder / "executors.tar.gz", "w:gz", compresslevel=1) as packed:
        packed.add(folder / "sitecustomize.py", "sitecustomize.py")
        for name in EXECUTORS[0].split("|"):
            for file in importlib.metadata.files(name) or ():
                if ".." not in file.parts and not UNUSED.search(f"/{file}"):
                    packed.add(Path(str(file.locate())), str(file))
    return folder


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has nothing: not even pip."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True)
    found = folder / "bin/python"
    tried = subprocess.run([found, "-c", "import pyarrow"], capture_output=True, check=False)
    assert tried.returncode
    return found
