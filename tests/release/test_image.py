"""The Dockerfile: its steps are done in roots of their own, since no registry need be there.

debootstrap makes the root that `FROM debian:...` names, and each step is done as docker would do
it: RUN by the shell of the root, COPY from the files that git knows and .dockerignore lets through.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.release.conftest import ROOT, program

Step = tuple[str, str]
# Another mirror than that of debootstrap itself.
_MIRROR = os.environ.get("DEBIAN_MIRROR", "").split()
# Where a network has authorities of its own, the root has to know them, too.
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")


@dataclass
class Stage:
    """A root, and what the steps have set in it."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0"
    entry: list[str] = field(default_factory=list)

    def run(self, *words: str, user: str | None = None) -> str:
        """Run a program in the root and return what it says."""
        network = {
            name: text for name, text in os.environ.items()
            if name.lower().endswith("_proxy") or name in ("PIP_DEFAULT_TIMEOUT", "PIP_INDEX_URL")
        }  # fmt: skip
        if _AUTHORITIES.exists():
            network["PIP_CERT"] = "/run/authorities.crt"
        done = subprocess.run(
            [program("chroot"), f"--userspec={user or self.user}", self.root, "/bin/sh", "-c",
             f'cd {self.folder} && exec "$@"', "sh", *words],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp",
                 "DEBIAN_FRONTEND": "noninteractive", **network, **self.environment},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=1200, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{words}\n{done.stdout[-4000:]}"
        return done.stdout


def steps(text: str) -> Iterator[Step]:
    """Yield the instructions of a Dockerfile."""
    for line in re.sub(r"(?m)^\s*#.*\n", "", text).replace("\\\n", "").splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word, rest.strip()


def context() -> list[str]:
    """Return the files that docker would be sent: those of git that .dockerignore lets through."""
    rules = (ROOT / ".dockerignore").read_text().split()
    kept = [rule[1:] for rule in rules if rule.startswith("!")]
    known = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [
        name for name in known
        if any(fnmatch.fnmatch(name, one) or name.startswith(f"{one}/") for one in kept)
    ]  # fmt: skip


class Builder:
    """Does the steps of a Dockerfile."""

    def __init__(self, scratch: Path) -> None:
        """Keep the roots in a folder."""
        self.scratch = scratch
        self.stages: dict[str, Stage] = {}
        self.arguments: dict[str, str] = {}
        self.mounted: list[Path] = []

    def build(self, text: str) -> Stage:
        """Do all steps; return the last stage."""
        for word, rest in steps(text):
            getattr(self, f"do_{word.lower()}")(rest)
        return self.last

    @property
    def last(self) -> Stage:
        """The stage that is being built."""
        return list(self.stages.values())[-1]

    def do_arg(self, rest: str) -> None:
        name, _, value = rest.partition("=")
        self.arguments[name] = value

    def do_from(self, rest: str) -> None:
        words = rest.split()
        image = re.sub(r"\$\{(\w+)\}", lambda found: self.arguments[found[1]], words[0])
        found = re.fullmatch(r"debian:(\w+)-slim", image)
        assert found, f"only a root of Debian can be made here, not {image}"
        root = self.scratch / f"root-{len(self.stages)}"
        base = self.scratch / f"base-{found[1]}"
        if not base.exists():
            subprocess.run(
                ["debootstrap", "--variant=minbase", found[1], base, *_MIRROR],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=1200, check=True,
            )  # fmt: skip
        subprocess.run(["cp", "-a", base, root], check=True)
        if _AUTHORITIES.exists():
            shutil.copy(_AUTHORITIES, root / "run/authorities.crt")
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        for name in ("proc", "dev"):
            subprocess.run(["mount", "--rbind", f"/{name}", root / name], check=True)
            # Else what is unmounted there were unmounted here, too.
            subprocess.run(["mount", "--make-rslave", root / name], check=True)
            self.mounted.append(root / name)
        self.stages[words[2] if len(words) > 2 else ""] = Stage(root)

    def do_run(self, rest: str) -> None:
        self.last.run("/bin/sh", "-c", rest)

    def do_copy(self, rest: str) -> None:
        *sources, target = [word for word in rest.split() if not word.startswith("--")]
        into = self.last.root / target.lstrip("/")
        if found := re.search(r"--from=(\w+)", rest):
            (source,) = sources
            into.parent.mkdir(parents=True, exist_ok=True)
            other = self.stages[found[1]].root / source.lstrip("/")
            subprocess.run(["cp", "-a", other, into], check=True)
            return
        for name in context():
            if "." in sources or name in sources:
                (into / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, into / name)

    def do_workdir(self, rest: str) -> None:
        (self.last.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        self.last.folder = rest

    def do_env(self, rest: str) -> None:
        self.last.environment |= dict(word.split("=", 1) for word in shlex.split(rest))

    def do_user(self, rest: str) -> None:
        self.last.user = rest

    def do_entrypoint(self, rest: str) -> None:
        self.last.entry = [word.strip(' "') for word in rest.strip("[]").split(",")]

    def clean(self) -> None:
        """Take the roots away, after what is mounted in them."""
        for folder in reversed(self.mounted):
            subprocess.run(["umount", "--recursive", "--lazy", folder], check=True)
        for folder in self.scratch.iterdir():
            shutil.rmtree(folder)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """What the Dockerfile makes."""
    program("debootstrap")
    if os.geteuid() != 0:
        pytest.skip("THE DOCKERFILE IS NOT CHECKED: only root can make a root of its own")
    builder = Builder(tmp_path_factory.mktemp("image"))
    try:
        yield builder.build((ROOT / "Dockerfile").read_text())
    finally:
        builder.clean()


@pytest.mark.parametrize(("user", "options"), [("10001", ()), ("20002:0", ("--engine", "local"))])
def test_it_runs_a_postmortem(image: Stage, user: str, options: tuple[str, ...]) -> None:
    number = int(user.partition(":")[0])
    work = image.root / f"work/{number}"
    shutil.copytree(ROOT / "sample_logs/430-unclean/logs", work / "logs")
    os.chown(work, number, number)
    said = image.run(*image.entry, "postmortem", f"{number}/logs", "-o", f"{number}/out", *options,
                     user=user)  # fmt: skip

    assert "INCIDENT" in said
    assert (work / "out/report.html").stat().st_size > 500_000
    assert (work / "out/report.html").stat().st_uid == number


def test_its_own_user_is_not_root_and_finds_all_well(image: Stage) -> None:
    assert image.run("id", "-u").strip() == image.user != "0"
    said = image.run(*image.entry, "doctor", "--no-spark", "--out", "/tmp")

    assert "problem" not in said.lower()


def test_only_what_is_needed_is_in_it(image: Stage) -> None:
    assert image.entry == ["kafka-forensics"]
    names = {path.name for path in (image.root / "opt/kafka-forensics").rglob("*.dist-info")}
    told = {name.partition("-")[0].lower().replace("_", "-") for name in names}

    assert {"pyspark", "kafka-forensics"} <= told
    assert not {"pip", "pytest", "hatchling"} & told
    assert not (image.root / "src").exists()
