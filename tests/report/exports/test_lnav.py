"""The format file of lnav has every layout, and lnav reads logs by it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forensics.parsing.layouts import OF_FOUND_LAYOUTS, load_layouts
from forensics.report.exports.lnav import NAME
from jobs.export import command

LAYOUTS = [one for one in load_layouts() if one.id not in OF_FOUND_LAYOUTS]
APACHE = "[2026-11-18 11:31:58,423] WARN one message (kafka.server.KafkaServer)"
STRIMZI = "2026-11-18 11:31:58,423 WARN one message (kafka.server.KafkaServer) [main]"
PREFIXES = {
    "": "",
    "kafka-1  | ": "kafka-1",
    "[pod/kafka-0/kafka] ": "kafka-0/kafka",
    "2026-11-18T11:31:58.423111111Z stdout F ": "",
    "Nov 18 11:31:58 host-1 kafka[77]: ": "host-1 kafka",
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("lnav") / "kafka_log.json"
    told = CliRunner().invoke(command, ["--format", "lnav", "-o", str(target)])
    assert (told.exit_code, told.stdout) == (0, f"written: {target}\n"), told.output
    return target


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))[NAME]
    return found


def test_every_layout_has_a_pattern_and_its_examples(written: Path) -> None:
    form = read(written)
    assert [name.partition("_")[2] for name in sorted(form["regex"])] == [
        one.id.replace("-", "_") for one in LAYOUTS
    ]
    lines = [example["line"] for one in LAYOUTS for example in one.examples]
    assert [one["line"] for one in form["sample"]] == lines


def test_times_are_read_by_the_formats(written: Path) -> None:
    """Python has lnav's letters, but for milliseconds."""
    form = read(written)
    formats = {one.replace("%L", "%f") for one in form["timestamp-format"]}
    for number, layout in enumerate(LAYOUTS):
        name = f"p{number:02}_{layout.id.replace('-', '_')}"
        # What may stand before a line is the only part that Python does not know.
        prefix, _, body = form["regex"][name]["pattern"].partition("|)")
        assert prefix.startswith("^(?|")
        pattern = re.compile(f"^{body}")
        for example in layout.examples:
            found = pattern.match(example["line"])
            assert found, (name, example["line"])
            assert any(_is_time(found["time"], one) for one in formats), found["time"]
            level = example["gives"].get("level")
            assert level is None or found["level"] == level


def _is_time(text: str, form: str) -> bool:
    if form.startswith("%s."):
        return re.fullmatch(r"[0-9]{10}\.[0-9]{3}", text) is not None
    try:
        datetime.strptime(text, form)  # noqa: DTZ007
    except ValueError:
        return False
    return True


@pytest.mark.skipif(shutil.which("lnav") is None, reason="no lnav on this machine")
def test_lnav_loads_it_and_reads_wrapped_lines(written: Path, tmp_path: Path) -> None:
    known = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TERM": "dumb"}

    def lnav(*words: str) -> str:
        ran = subprocess.run(
            ["lnav", *words], env=known, capture_output=True, text=True, timeout=30, check=False
        )
        # Samples that no pattern takes, or two, are warnings.
        assert (ran.returncode, ran.stderr) == (0, "") or "installed" in ran.stderr, ran
        return ran.stdout

    lnav("-i", str(written))
    ask = f";SELECT log_level, logger, ifnull(origin, '') AS origin, log_body FROM {NAME}"
    for number, (prefix, origin) in enumerate(PREFIXES.items()):
        log = tmp_path / f"{number}.log"
        lines = [f"{prefix}{line}" for line in (APACHE, APACHE if number else STRIMZI)]
        log.write_text("\n".join(lines) + "\n", "utf-8")
        rows = json.loads(lnav("-W", "-n", str(log), "-c", ask, "-c", ":write-json-to -"))
        assert [tuple(row.values()) for row in rows] == [
            ("warning", "kafka.server.KafkaServer", origin, "one message")
        ] * 2
