"""Measures the whole way from an archive to the page, beside what others do with the same bytes.

The archive is a possible past (`past_archive.py`). Every way of reading runs in a process of its
own, on an archive and on a larger one, in turns. What counts is the marginal speed, the bytes
between the two sizes over the seconds between them, so that starting a process counts for nobody.
What is not installed is left out. Run it alone: it wants two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from forensics.engine.local import MAX_BYTES  # noqa: E402
from tests.bench.past_archive import FORMS, write_past  # noqa: E402
from tests.bench.peers import TEXTS  # noqa: E402

MB = 1_000_000
# What others do with the same bytes; an answer is not as quick as a count of lines.
PEERS = (
    "gzip -dc | wc -l",
    "cat | wc -l",
    "rg -c, one thread",
    "duckdb",
    "polars",
    "plain PySpark",
)
STAGES = ("scan", "history", "incidents", "quality", "report")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Run:
    """What one process and all that it started took."""

    seconds: float
    processor: float
    peak_mb: int
    stages: dict[str, float]


def watch(command: Sequence[str], out: Path) -> Run:
    """Run a command to its end; a way that fails ends the bench."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
    before = os.times()
    began = time.perf_counter()
    child = subprocess.Popen(
        command, env=environment, start_new_session=True, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    used: dict[int, float] = {}
    peak = 0
    while child.poll() is None:
        size = 0
        for pid, processor, memory in _session(child.pid):
            used[pid] = processor
            size += memory
        peak = max(peak, size)
        time.sleep(_POLL_SECONDS)
    seconds = time.perf_counter() - began
    if child.returncode not in (0, 4):
        raise SystemExit(f"{' '.join(command)} ended with {child.returncode}")
    # Those that were not waited for, such as a JVM, only show while they run.
    after = os.times()
    ended = sum(after[2:4]) - sum(before[2:4])
    result = out / "_RESULT.json"
    stages = json.loads(result.read_text("utf-8"))["seconds"] if result.exists() else {}
    return Run(seconds, max(ended, sum(used.values())), peak // MB, stages)


def _session(leader: int) -> list[tuple[int, float, int]]:
    """Return the processes of a session, what they used so far, and how large they are."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text("utf-8", "replace").rpartition(") ")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader:
            used = (int(fields[11]) + int(fields[12])) / _TICKS
            found.append((int(path.parent.name), used, int(fields[21]) * _PAGE))
    return found


def list_ways(folder: Path, out: Path, given: argparse.Namespace) -> dict[str, list[str]]:
    """Return the command of each way to read a folder that can run here."""
    peers = str(Path(__file__).with_name("peers.py"))
    ours = [sys.executable, "-m", "forensics", "postmortem", str(folder), "-o", str(out), "-q"]
    ways = {
        "postmortem": [*ours, "--master", "local[2]"],
        "postmortem, one core": [*ours, "--master", "local[1]"],
        "postmortem without Spark": [*ours, "--engine", "local"],
        "scan, one process": [sys.executable, peers, "scan", str(folder)],
    }
    # Packed text is taken to be ten times as long, and this one packs to an eighth.
    seeming = 1.5 if given.form == "gzip" else 1
    if max(given.mb) * MB * seeming > MAX_BYTES:
        del ways["postmortem without Spark"]
    if given.form == "gzip":
        ways["gzip -dc | wc -l"] = _shell(
            f"find {folder} -name '*.gz' -exec gzip -dc {{}} + | wc -l"
        )
    else:
        ways["cat | wc -l"] = _shell(f"find {folder} -type f -exec cat {{}} + | wc -l")
    if shutil.which("rg"):
        texts = [part for text in TEXTS for part in ("-e", text)]
        ways["rg -c, one thread"] = ["rg", "-c", "-F", "-z", "-j1", *texts, str(folder)]
    for name in ("duckdb", "polars"):
        asked = [given.python, "-c", f"import {name}"]
        if subprocess.run(asked, check=False, capture_output=True).returncode == 0:
            ways[name] = [given.python, peers, name, str(folder)]
    ways["plain PySpark"] = [sys.executable, peers, "pyspark", str(folder)]
    return {name: ways[name] for name in ways if not given.only or name in given.only}


def _shell(line: str) -> list[str]:
    return ["sh", "-c", line]


def measure(given: argparse.Namespace, scratch: Path) -> dict[str, list[list[Run]]]:
    """Run every way on both archives in turns; the first turn of a small one warms the files up."""
    folders = [
        write_past(
            scratch / f"logs-{size}", size * MB, given.share, given.form, small=given.small_files
        )
        for size in given.mb
    ]
    out = scratch / "out"
    runs: dict[str, list[list[Run]]] = {}
    for turn in range(given.turns):
        for number, folder in enumerate(folders):
            for name, command in list_ways(folder, out, given).items():
                shutil.rmtree(out, ignore_errors=True)
                took = watch(command, out)
                runs.setdefault(name, [[], []])[number].append(took)
                told = f"{took.seconds:.1f} s, {took.processor:.1f} s of processors"
                print(f"  {turn + 1}. {given.mb[number]} MB, {name}: {told}", file=sys.stderr)
    return runs


def tell(runs: dict[str, list[list[Run]]], megabytes: Sequence[int]) -> list[dict[str, Any]]:
    """Print the table; returns its rows."""
    rows = []
    between = megabytes[1] - megabytes[0]
    print(f"{'':<24}{'seconds':>16}{'MB/s':>8}{'MB/s a core':>13}{'peak MB':>9}")
    for name, (small, large) in runs.items():
        seconds = [_median(one.seconds for one in some) for some in (small, large)]
        processor = [_median(one.processor for one in some) for some in (small, large)]
        row: dict[str, Any] = {
            "way": name, "seconds": [round(one, 2) for one in seconds],
            "mb_per_s": _speed(between, seconds), "mb_per_core_s": _speed(between, processor),
            "peak_mb": max(one.peak_mb for one in large),
        }  # fmt: skip
        for stage in STAGES if large[0].stages else ():
            took = [_median(one.stages.get(stage, 0) for one in some) for some in (small, large)]
            row[stage] = _speed(between, took)
        rows.append(row)
        told = "{:.1f} {:.1f}".format(*seconds)
        speeds = [str(row[key] or "?") for key in ("mb_per_s", "mb_per_core_s", "peak_mb")]
        print("{:<24}{:>16}{:>8}{:>13}{:>9}".format(name, told, *speeds))
        if large[0].stages:
            print(
                "    each alone: " + ", ".join(f"{stage} {row[stage] or '?'}" for stage in STAGES)
            )
    return rows


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


def _speed(megabytes: float, seconds: Sequence[float]) -> float | None:
    """Return the marginal speed; None where more bytes took no more time."""
    more = seconds[1] - seconds[0]
    return round(megabytes / more, 1) if more > 0 else None


def compare(rows: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """Say what a postmortem is beside each peer, and what the second core is worth; print it."""
    found: dict[str, float | None] = {}
    by_way = {row["way"]: row for row in rows}
    ours, alone = by_way.get("postmortem"), by_way.get("postmortem, one core")
    if ours and alone:
        found["two cores"] = _ratio(ours["mb_per_s"], alone["mb_per_s"])
        print(f"    from one core to two {found['two cores'] or '?'} x")
    for way in PEERS if ours else ():
        if way in by_way:
            keys = ("mb_per_s", "mb_per_core_s")
            both = [_ratio(ours[key], by_way[way][key]) for key in keys] if ours else []
            found |= dict(zip((way, f"{way}, a core"), both, strict=True))
            print("    beside {}: {} x, a core {} x".format(way, *(one or "?" for one in both)))
    return found


def _ratio(ours: float | None, theirs: float | None) -> float | None:
    return round(ours / theirs, 3) if ours and theirs else None


def measure_one(given: argparse.Namespace) -> None:
    """Measure archives of one form, and print them as a table and as one line of JSON."""
    told = "files of 100 kB" if given.small_files else given.form
    print(f"\n{told}, {given.share:.0%} of the lines state something")
    scratch = Path(tempfile.mkdtemp(prefix="forensics-bench-", dir=given.dir))
    try:
        rows = tell(measure(given, scratch), given.mb)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    ratios = compare(rows)
    print(json.dumps({"share": given.share, "form": told, "rows": rows, "ratios": ratios}))


def main() -> None:
    """Write the archives, and measure those of one form or of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, nargs=2, default=(64, 256), help="the two sizes")
    parser.add_argument("--share", type=float, default=0.05, help="of lines that state something")
    parser.add_argument("--form", choices=FORMS, default="plain")
    parser.add_argument("--small-files", action="store_true", help="files of 100 kB each")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", nargs="+", metavar="WAY")
    parser.add_argument("--python", default=sys.executable, help="one that has DuckDB and Polars")
    parser.add_argument("--dir", type=Path, help="where the archives are made (a temporary folder)")
    parser.add_argument("--all", action="store_true", help="each form, and 1 %% beside the share")
    given = parser.parse_args()
    print(f"  load before the start: {os.getloadavg()[0]:.1f}", file=sys.stderr)
    forms: list[dict[str, Any]] = [{}]
    if given.all:
        forms = [{"form": form, "small_files": False} for form in FORMS]
        forms += [{"form": "plain", "small_files": False, "share": 0.01}]
        forms += [{"form": "plain", "small_files": True}]
    for form in forms:
        measure_one(argparse.Namespace(**vars(given) | form))


if __name__ == "__main__":
    main()
