"""The package works from a zip, as executors get it: rules and commands are found there too."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from forensics.lib import package_data

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The zip of `make dist`."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel.rename(folder / "kafka-forensics-0-py.zip")


def call(packed: Path, temporary: Path, *arguments: str) -> str:
    """Run Python where only the zip has this package."""
    environment = os.environ | {"PYTHONPATH": str(packed), "TMPDIR": str(temporary)}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=temporary,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


def test_rules_and_commands_are_found_in_a_checkout() -> None:
    assert (ROOT / "rules", ROOT / "jobs") == (
        package_data.data_folder("rules"),
        package_data.data_folder("jobs"),
    )
    assert (ROOT / "forensics/assets/page.css").as_uri() == package_data.asset_url("page.css")


def test_all_commands_and_all_rules_are_in_the_zip(packed: Path, tmp_path: Path) -> None:
    said = call(packed, tmp_path, "-m", "forensics", "--help")
    rules = call(packed, tmp_path, "-m", "forensics", "rules", "list").splitlines()
    where = call(packed, tmp_path, "-c", "import forensics; print(forensics.__file__)")

    assert str(packed) in where
    for path in (ROOT / "jobs").glob("[a-z]*.py"):
        assert path.stem in said
    assert len(rules) > 600


def test_the_library_of_the_figures_is_in_the_zip_with_its_licence(packed: Path) -> None:
    inside = zipfile.ZipFile(packed).namelist()

    for name in ("plotly-cartesian.min.js", "plotly-cartesian.LICENSE"):
        assert f"forensics/report/assets/{name}" in inside


def test_a_rule_that_was_swept_away_is_unpacked_again(packed: Path, tmp_path: Path) -> None:
    ask = ["-c", "from forensics.lib import package_data as data; print(data.data_folder('rules'))"]
    rules = Path(call(packed, tmp_path, *ask).strip())
    (rules / "limits.yaml").unlink()
    (rules / "chains.yaml").write_text("")

    assert rules == Path(call(packed, tmp_path, *ask).strip())

    for name in ("limits.yaml", "chains.yaml"):
        assert (ROOT / "rules" / name).read_bytes() == (rules / name).read_bytes()
    assert [rules.parents[2]] == list(rules.parents[3].iterdir())


def test_a_folder_that_others_can_write_is_not_trusted(packed: Path, tmp_path: Path) -> None:
    taken = tmp_path / f"kafka-forensics-{os.getuid()}"
    taken.mkdir()
    taken.chmod(0o777)

    ask = ["-c", "from forensics.lib import package_data as data; print(data.data_folder('rules'))"]
    rules = Path(call(packed, tmp_path, *ask).strip())

    assert taken not in rules.parents
    assert (rules / "limits.yaml").is_file()


def test_java_can_read_an_asset_inside_the_zip(packed: Path, tmp_path: Path) -> None:
    ask = "from forensics.lib import package_data as d; print(d.asset_url('log4j2.properties'))"
    archive, _, inside = call(packed, tmp_path, "-c", ask).strip().partition("!/")

    assert f"jar:{packed.as_uri()}" == archive
    assert zipfile.ZipFile(packed).read(inside)
