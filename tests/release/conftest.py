"""What `make dist` made, tried as others would: by `make dist-check`, and else not collected."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".venv-release/bin"
# Of the one who runs the tests, so that nothing is fetched twice. Not that of uv: each run would
# leave the sources of Spark there once more, over 1 GB.
_CACHES = {"PIP_CACHE_DIR": Path("~/.cache/pip").expanduser()}
_NETWORK = ("PIP_", "UV_", "SSL_", "REQUESTS_", "HTTP", "http", "NO_PROXY", "no_proxy")


def pytest_ignore_collect() -> bool | None:
    """Leave these tests to `make dist-check`, which says where the distributions are."""
    return None if "DIST" in os.environ else True


@dataclass(frozen=True)
class Home:
    """A home without a checkout, and programs that run in it."""

    path: Path

    def run(self, *words: str | Path, code: int = 0, **more: str) -> str:
        """Run a program and return what it says; it must end with the code."""
        network = {name: text for name, text in os.environ.items() if name.startswith(_NETWORK)}
        environment = {
            "HOME": str(self.path),
            "PATH": f"{self.path}/.local/bin:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            **{name: str(folder) for name, folder in _CACHES.items()},
            **network,
            **more,
        }
        done = subprocess.run(
            [str(word) for word in words],
            cwd=self.path, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1200, check=False,
        )  # fmt: skip
        assert done.returncode == code, f"{words}\n{done.stdout[-4000:]}"
        return done.stdout


@pytest.fixture(scope="session")
def dist() -> Callable[[str], Path]:
    """Give a function that finds the one file of dist/ with a pattern."""
    folder = ROOT / os.environ["DIST"]

    def find(pattern: str) -> Path:
        found = sorted(folder.glob(pattern))
        assert len(found) == 1, f"{pattern}: {found}"
        return found[0]

    return find


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home with nothing in it; it is taken away after the module's tests, since it takes GB."""
    path = tmp_path_factory.mktemp("home")
    yield Home(path)
    shutil.rmtree(path)


def tool(name: str) -> Path:
    """Return a program that `make dist-check` has installed."""
    found = TOOLS / name
    assert found.exists(), f"no {name} in {TOOLS}; make dist-check installs it"
    return found


def program(name: str) -> Path:
    """Return a program of the system, or skip where it is not there."""
    if (found := shutil.which(name)) is None:
        pytest.skip(f"NOT CHECKED: this machine has no {name}")
    return Path(found)


def size(folder: Path) -> int:
    """Return how many MB a folder takes."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()) >> 20
