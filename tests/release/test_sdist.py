"""The sdist alone: unpacked, installed by its own lock, and its tests run."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable
from pathlib import Path

from tests.release.conftest import Home, tool


def test_the_tests_of_the_sdist_pass(dist: Callable[[str], Path], home: Home) -> None:
    with tarfile.open(dist("kafka_forensics-*.tar.gz")) as sdist:
        sdist.extractall(home.path)
    (source,) = home.path.glob("kafka_forensics-*")
    python = source / ".venv/bin/python"
    uv = tool("uv")
    home.run(uv, "venv", "--quiet", python.parents[1])
    install = (uv, "pip", "install", "--quiet", "--python", python)
    home.run(*install, "--require-hashes", "-r", source / "requirements.lock")
    home.run(*install, "--no-deps", "--no-build-isolation", "--editable", source)
    said = home.run(
        "sh", "-c",
        f"cd {source} && {python} -m pytest -q -n 2 --dist loadfile"
        " -m 'not spark and not browser and not slow'",
        PATH=f"{python.parent}:/usr/local/bin:/usr/bin:/bin",
    )  # fmt: skip
    passed = re.search(r"(\d+) passed", said)

    assert passed is not None
    assert int(passed[1]) > 4000
