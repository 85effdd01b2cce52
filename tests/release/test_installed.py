"""The wheel alone, in a home without a checkout: installed, run, and what it leaves read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.release.conftest import ROOT, Home, size, tool

SAMPLES = ROOT / "sample_logs"
UNCLEAN = SAMPLES / "430-unclean/logs"
Find = Callable[[str], Path]
Counts = dict[str, dict[str, int]]

# Each says of every table how many values each column has, as `table column`.
READERS = {
    "duckdb": """
import duckdb
def count(table):
    columns = [row[0] for row in duckdb.sql(f"DESCRIBE FROM '{table}/*.parquet'").fetchall()]
    counts = ", ".join(f'count("{name}")' for name in columns)
    found = duckdb.sql(f"SELECT {counts} FROM '{table}/*.parquet'").fetchall()[0]
    return dict(zip(columns, found))
""",
    "polars": """
import polars
def count(table):
    return polars.scan_parquet(table).count().collect().row(0, named=True)
""",
    "pandas": """
import pandas
def count(table):
    return {name: int(found) for name, found in pandas.read_parquet(table).count().items()}
""",
    "spark": """
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
def count(table):
    read = spark.read.parquet(table)
    return read.agg(*(F.count(name).alias(name) for name in read.columns)).first().asDict()
""",
}
COUNTED = """
import json, sys
from pathlib import Path
found = {str(table): count(str(table)) for table in sorted(Path(sys.argv[1]).glob("*/tables/*"))}
Path(sys.argv[2]).write_text(json.dumps(found))
"""
ALL_SAMPLES = """
import sys
from pathlib import Path
import forensics
for archive in sys.argv[2:]:
    out = Path(sys.argv[1]) / Path(archive).parent.name
    settings = forensics.Settings((archive,), out, engine="local")
    print(out.name, forensics.postmortem(settings)["verdict"], flush=True)
"""
OPENED = """
import sys
import great_expectations as gx
context = gx.get_context(mode="file", project_root_dir=sys.argv[1])
context.variables.progress_bars = {"globally": False}
ran = context.checkpoints.get("kafka-forensics").run()
print("suites", len(ran.run_results), "success", ran.success)
"""
NOTEBOOK = """
import sys
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=300).execute()
print([cell.execution_count for cell in notebook.cells if cell.cell_type == "code"])
"""


@pytest.fixture(scope="module")
def python(home: Home, dist: Find) -> Path:
    """Install the wheel with pipx, and return the Python that it made for it."""
    home.run(tool("pipx"), "install", "--quiet", f"{dist('kafka_forensics-*.whl')}[java]")
    (found,) = home.path.glob("**/venvs/kafka-forensics/bin/python")
    return found


@pytest.fixture(scope="module")
def outputs(home: Home, python: Path) -> Path:
    """Postmortems of all samples, by the Python API and in one process; one by Spark."""
    folder = home.path / "outputs"
    archives = sorted(SAMPLES.glob("*/logs*"))
    assert len(archives) >= 14
    script = home.path / "samples.py"
    script.write_text(ALL_SAMPLES)
    home.run(python, script, folder, *archives)
    home.run("kafka-forensics", "postmortem", UNCLEAN, "-o", folder / "by-spark", "-q")
    return folder


def test_the_command_and_its_page_for_man_are_there(home: Home, python: Path) -> None:
    assert home.run("kafka-forensics", "--version").startswith("kafka-forensics, version ")
    assert list(home.path.glob(".local/share/man/man1/kafka-forensics.1"))
    # Spark is 490 MB of it, pyarrow 170, SciPy (which Great Expectations asks for) 110.
    assert size(python.parents[1]) < 1400


def test_doctor_finds_all_well(home: Home, python: Path) -> None:
    assert python.exists()

    assert "problem" not in home.run("kafka-forensics", "doctor").lower()


def test_a_postmortem_by_spark_says_what_one_without_it_says(outputs: Path) -> None:
    one, other = (outputs / name / "findings.json" for name in ("by-spark", "430-unclean"))

    assert one.read_bytes() == other.read_bytes()
    assert (outputs / "by-spark/report.html").stat().st_size > 500_000


def test_an_audit_draws_its_week(home: Home, python: Path) -> None:
    assert python.exists()
    home.run("kafka-forensics", "audit", UNCLEAN, "--store", "store", "--engine", "local", "-q")

    assert list((home.path / "store/weeks").glob("*/report.html"))


def test_rules_of_a_pack_are_drafted_and_checked(home: Home, python: Path) -> None:
    assert python.exists()
    line = "[2026-11-18 11:38:51,321] WARN The frobnicator of topic orders is full (my.Plugin)"
    home.run(
        "kafka-forensics", "rules", "new", "frobnicator-full", "--dir", "pack",
        "--logger", "Plugin", "--line", line,
    )  # fmt: skip

    assert "all hold" in home.run("kafka-forensics", "rules", "check", "pack")


def test_uvx_runs_the_wheel_as_it_lies_there(home: Home, dist: Find) -> None:
    said = home.run(
        tool("uvx"), "--quiet", "--from", dist("kafka_forensics-*.whl"), "kafka-forensics",
        "rules", "list", "--kind", "partition_state",
    )  # fmt: skip

    assert said


def test_duckdb_polars_pandas_and_spark_read_every_table_of_every_sample(
    home: Home, python: Path, outputs: Path
) -> None:
    found: dict[str, Counts] = {}
    for name, text in READERS.items():
        script, said = home.path / f"{name}_reads.py", home.path / f"{name}.json"
        script.write_text(text + COUNTED)
        mine = tool("python") if name in ("duckdb", "polars") else python
        home.run(mine, script, outputs, said)
        found[name] = json.loads(said.read_text())
    tables = list(outputs.glob("*/tables/*"))

    assert len(tables) == len(found["duckdb"]) >= 15 * 13
    assert {"events", "leadership", "checks"} <= {path.name for path in tables}
    assert found["duckdb"] == found["polars"] == found["pandas"] == found["spark"]
    # Nothing else lies there, which Polars would stumble over.
    strange = [path for path in outputs.glob("*/tables/*/*") if path.suffix != ".parquet"]
    assert [] == strange


def test_the_files_say_what_their_columns_mean(home: Home, python: Path, outputs: Path) -> None:
    script = home.path / "meanings.py"
    script.write_text(
        "import sys, pyarrow.dataset as ds\n"
        "from pathlib import Path\n"
        "for table in sorted(Path(sys.argv[1]).glob('*/tables/*')):\n"
        "    for column in ds.dataset(table).schema:\n"
        "        if not (column.metadata or {}).get(b'description'):\n"
        "            print(table, column.name)\n"
    )

    assert "" == home.run(python, script, outputs)


def test_views_open_in_duckdb(home: Home, outputs: Path) -> None:
    views, script = home.path / "views.sql", home.path / "views.py"
    home.run("kafka-forensics", "export", outputs / "430-unclean", "--format", "sql", "-o", views)
    script.write_text(
        "import sys, duckdb\n"
        "base = duckdb.connect()\n"
        "base.execute(open(sys.argv[1]).read())\n"
        "print(base.sql('SELECT count(*) FROM outages').fetchall()[0][0] > 0)\n"
        "print(base.sql('SELECT detector, evidence[1].line FROM findings').fetchall()[0])\n"
        "print(base.sql(\"SELECT comment FROM duckdb_columns() WHERE table_name = 'outages'\"\n"
        "               \" AND column_name = 'planned'\").fetchall()[0][0])\n"
    )
    said = home.run(tool("python"), script, views).splitlines()

    assert ["True", "('unclean-election', 97)"] == said[:2]
    assert said[2].startswith("whether somebody stopped the brokers")


def test_folders_of_several_runs_give_the_columns_cluster_and_run(
    home: Home, outputs: Path
) -> None:
    for cluster, run in (("a", "430-unclean"), ("b", "391-rolling")):
        shutil.copytree(outputs / run, home.path / f"runs/cluster={cluster}/run={run}")
    script = home.path / "several.py"
    script.write_text(
        "import duckdb\n"
        "print(duckdb.sql(\"SELECT DISTINCT cluster, run FROM 'runs/*/*/tables/lanes/*.parquet'\"\n"
        "                 ' ORDER BY ALL').fetchall())\n"
    )

    assert "[('a', '430-unclean'), ('b', '391-rolling')]\n" == home.run(tool("python"), script)


def test_great_expectations_opens_and_runs_the_context(home: Home, python: Path) -> None:
    home.run(
        "kafka-forensics", "postmortem", UNCLEAN, "-o", "checked", "--engine", "local", "-q",
        "--gx-context", "context",
    )  # fmt: skip
    script = home.path / "opened.py"
    script.write_text(OPENED)

    assert "suites 9 success True" in home.run(python, script, home.path / "context")


def test_the_notebook_runs_in_jupyter(home: Home, python: Path) -> None:
    home.run(tool("pipx"), "inject", "--quiet", "kafka-forensics", "nbclient", "ipykernel")
    (home.path / "docs").mkdir()
    (home.path / "sample_logs").symlink_to(SAMPLES)
    shutil.copy(ROOT / "docs/notebook.ipynb", home.path / "docs")
    script = home.path / "docs/run.py"
    script.write_text(NOTEBOOK)

    assert "[1, 2, 3, 4, 5]" in home.run("sh", "-c", f"cd docs && {python} run.py notebook.ipynb")
