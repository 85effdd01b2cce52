"""The examples of docs/running are run, or read by the program they are made for."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from forensics.cli.app import load_command
from forensics.lib.yaml_with_lines import load_yaml
from tests.spark.conftest import SAMPLES

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs/running/examples"
# Made by `make examples`: Airflow, and the schemas of Kubernetes and GitHub.
TOOLS = Path(os.environ.get("EXAMPLES_BIN", ROOT / ".venv-examples/bin"))
COMMAND = Path(sys.executable).with_name("kafka-forensics")

Here = Callable[[str], str]
Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Here:
    """Give a function that puts this machine's paths for those of an example."""
    root = tmp_path_factory.mktemp("examples")
    places = {
        "/opt/kafka-forensics/bin/kafka-forensics": COMMAND,
        "/srv/kafka-logs": SAMPLES / "430-unclean/logs",
        "/srv/kafka-forensics": root,
        "/var/lib/kafka-forensics": root,
    }

    def put(text: str) -> str:
        for there, place in places.items():
            assert " " not in str(place)
            text = text.replace(there, str(place))
        return text

    return put


def audited(here: Here, command: list[str], environment: dict[str, str]) -> Done:
    """Run an audit as a scheduler does, and see that all is well."""
    ended = Path(here("/srv/kafka-forensics/store/_RESULT.json"))
    ended.unlink(missing_ok=True)
    done = subprocess.run(
        command, env=environment, cwd="/", capture_output=True, text=True, timeout=600, check=False
    )

    assert "" == done.stdout
    assert ended.exists(), done.stderr
    assert 0 == json.loads(ended.read_text())["exit_code"]
    assert (ended.parent / "index.html").stat().st_size > 1000
    return done


def tool(name: str) -> Path:
    """Give a program of `make examples`, or skip where it was not made."""
    if not (TOOLS / name).exists():
        pytest.skip(f"EXAMPLES NOT CHECKED: no {name} in {TOOLS}; `make examples` installs it")
    return TOOLS / name


def checked(command: list[str | Path], **environment: str) -> str:
    """Run a program that checks something, and give what it says; its errors are ours."""
    done = subprocess.run(
        command,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert 0 == done.returncode, done.stdout
    return done.stdout


def settings(unit: str, key: str) -> list[str]:
    """Give all values of one key of a unit of systemd."""
    text = (EXAMPLES / "systemd" / unit).read_text()
    return re.findall(rf"^{key}=(.*)$", text, re.MULTILINE)


@pytest.mark.spark
def test_the_line_of_cron_runs_with_as_little_as_cron_gives(here: Here) -> None:
    lines = here((EXAMPLES / "cron/kafka-forensics").read_text()).splitlines()
    spoken = [line for line in lines if line and not line.startswith("#")]
    given = dict(line.split("=", 1) for line in spoken[:-1])
    fields = spoken[-1].split(maxsplit=6)

    assert "10 4 * * 1 kafka-forensics" == " ".join(fields[:6])
    # cron takes a bare percent sign for the end of the line.
    assert "%" not in fields[6]
    environment = {"LOGNAME": "kafka-forensics", **given}
    done = audited(here, [given["SHELL"], "-c", fields[6]], environment)

    # What is said is mailed.
    assert "" == done.stderr


@pytest.mark.spark
def test_the_service_of_systemd_runs_what_it_says(here: Here) -> None:
    (command,) = settings("kafka-forensics-audit.service", "ExecStart")
    given = settings("kafka-forensics-audit.service", "Environment")

    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    environment |= dict(here(one).split("=", 1) for one in given)
    done = audited(here, shlex.split(here(command)), environment)

    assert 0 == done.returncode


def test_systemd_finds_no_fault_in_its_units(here: Here, tmp_path: Path) -> None:
    systemd = shutil.which("systemd-analyze")
    if systemd is None:
        pytest.skip("UNITS OF SYSTEMD NOT CHECKED: there is no systemd-analyze")
    for unit in (EXAMPLES / "systemd").iterdir():
        (tmp_path / unit.name).write_text(here(unit.read_text()))

    said = checked([systemd, "verify", *sorted(tmp_path.iterdir())])
    (when,) = settings("kafka-forensics-audit.timer", "OnCalendar")

    assert "kafka-forensics" not in said
    assert "Next elapse: Mon" in checked([systemd, "calendar", when])


@pytest.mark.spark
def test_airflow_reads_the_dag_and_its_task_runs(here: Here, tmp_path: Path) -> None:
    python = tool("airflow").with_name("python")
    (tmp_path / "dags").mkdir()
    shutil.copy(EXAMPLES / "airflow/kafka_forensics_audit.py", tmp_path / "dags")
    code = """
import sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
assert not bag.import_errors, bag.import_errors
(dag,) = bag.dags.values()
(task,) = dag.tasks
assert dag.max_active_runs == 1 and not dag.catchup
print("COMMAND", task.bash_command)
"""
    said = checked(
        [python, "-c", code, tmp_path / "dags"],
        AIRFLOW_HOME=str(tmp_path / "home"),
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
    )
    (command,) = re.findall(r"^COMMAND (.*)$", said, re.MULTILINE)

    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = audited(here, ["bash", "-c", here(command)], environment)

    assert 0 == done.returncode


def test_the_workflow_is_one_to_github() -> None:
    file = EXAMPLES / "github-actions/kafka-postmortem.yaml"

    checked([tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", file])


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        ("github-workflows", "workflows/*.yaml"),
        ("github-issue-forms", "ISSUE_TEMPLATE/*.yaml"),
        ("github-issue-config", "ISSUE_TEMPLATE/config.yml"),
    ],
)
def test_what_the_project_asks_of_github_is_such_as_github_takes(schema: str, pattern: str) -> None:
    files = sorted((ROOT / ".github").glob(pattern))

    assert files
    checked([tool("check-jsonschema"), "--builtin-schema", f"vendor.{schema}", *files])


@pytest.mark.parametrize("name", ["cronjob.yaml", "rbac.yaml"])
def test_manifests_are_what_kubernetes_asks_for(name: str) -> None:
    checked([tool("kubernetes-validate"), "--strict", EXAMPLES / "kubernetes" / name])


def test_what_clusters_are_asked_for_are_commands() -> None:
    """The words that the examples hand on are understood, and name a store for the output."""
    manifest = load_yaml(EXAMPLES / "kubernetes/sparkapplication.yaml")
    words = [list(manifest["spec"]["arguments"])]
    dag = ast.parse((EXAMPLES / "airflow/kafka_forensics_on_spark.py").read_text())
    named = {
        one.targets[0].id: ast.literal_eval(one.value)
        for one in ast.walk(dag)
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)
    }
    for one in ast.walk(dag):
        if isinstance(one, ast.keyword) and one.arg in {"application_args", "arguments"}:
            assert isinstance(one.value, ast.List)
            words.append([
                named[each.id] if isinstance(each, ast.Name) else ast.literal_eval(each)
                for each in one.value.elts
            ])  # fmt: skip
    command = load_command(ROOT / "jobs/postmortem.py")

    assert 3 == len(words)
    for each in words:
        given = [word for word in each if word != "postmortem"]
        understood = command.make_context("postmortem", given)
        assert str(understood.params["out"]).startswith("s3://team-sre/")
        assert understood.params["archives"][0].startswith("s3://kafka-logs/")


def test_the_image_has_what_the_manifest_names() -> None:
    manifest = load_yaml(EXAMPLES / "kubernetes/sparkapplication.yaml")["spec"]
    steps = (EXAMPLES / "kubernetes/Dockerfile").read_text()
    folder, _, job = str(manifest["mainApplicationFile"]).removeprefix("local://").rpartition("/")

    assert f'/_data/jobs" {folder}\n' in steps
    assert (ROOT / "jobs" / job).is_file()
    assert f"--from=apache/spark:{manifest['sparkVersion']} /opt/entrypoint.sh" in steps


@pytest.mark.parametrize("where", ["standalone", "yarn", "kubernetes"])
def test_scripts_are_scripts(where: str) -> None:
    script = EXAMPLES / where / "submit.sh"

    checked(["sh", "-n", script])
    assert os.access(script, os.X_OK)
