"""Forty-odd kinds of secrets in logs and in names of files: none is in what is written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from forensics import pipeline
from forensics.cli.app import jobs_folder, make_group
from forensics.events.packs import load_rule_set
from forensics.run_output.reader import load_run
from forensics.sandbox import run_archives
from forensics.settings import Settings
from tests.canaries import CANARIES, FIXED
from tests.report.export_outputs import exported, texts

QUOTES = "org.apache.kafka.common.errors.TimeoutException: Topic orders not present in metadata"
RUN = (
    "[2026-11-18 11:{minute}:{second:02},000] ERROR [Producer clientId=app-pay] {says}, {quotes} "
    "after 60000 ms. (com.acme.Payments)"
)


@dataclass(frozen=True)
class Planted:
    """Logs with secrets, what a postmortem made of them, and every secret."""

    logs: Path
    out: Path
    secrets: tuple[str, ...]


def run(*arguments: str | Path | int) -> str:
    done = CliRunner().invoke(make_group(jobs_folder()), [str(one) for one in arguments])
    return done.output


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """Read logs in which each kind of secret stands in a line that becomes an event."""
    root = tmp_path_factory.mktemp("planted")
    secrets = [f"hunter2Zq{number}x" for number in range(len(CANARIES))]
    said = [form.replace("§", one) for form, one in zip(CANARIES.values(), secrets, strict=True)]
    said += FIXED
    # Times that fall back would be those of a log that is there twice.
    lines = [
        RUN.format(minute=36 + at // 60, second=at % 60, says=one, quotes=QUOTES)
        for at, one in enumerate(said)
    ]
    # Also where Kafka itself quotes what somebody has written, and in the later lines of a record.
    lines += [
        "[2026-11-18 11:39:01,000] ERROR could not send (com.acme.Payments)\n"
        f"{QUOTES}: {one}\n\tat com.acme.Payments.send(Payments.java:7) {one}"
        for one in said
    ]
    names = ("client", f"token={secrets[0]}", f"token={secrets[1]}")
    for hour, name in enumerate(names, 11):
        log = root / "logs" / "app-pay" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        # Each of another hour: a copy of a log is read once.
        own = "\n".join(lines).replace("2026-11-18 11:", f"2026-11-18 {hour}:")
        log.write_text(f"{'' if name == 'client' else name}\n{own}\n", "utf-8")
    archive = str(root / "logs")
    read = run_archives([archive], root / "out")
    settings = Settings((archive,), root / "out", command=("postmortem", f"--x=token={secrets[0]}"))
    pipeline.finish_run(read.files, read.past, load_rule_set(()), settings, lambda _: None)
    return Planted(root / "logs", root / "out", (*secrets, *FIXED))


def shown(planted: Planted) -> Iterator[str]:
    """Everything that a terminal shows of some of the lines."""
    rows = load_run(planted.out).rows("events", ["file", "line"])
    client = sorted({row["line"] for row in rows if row["file"] == "logs/app-pay/client.log"})
    for line in (client[0], client[len(client) // 2], client[-1]):
        place = f"logs/app-pay/client.log:{line}"
        yield run("show", place, "-o", planted.out, "--archive", planted.logs, "-C", 200)
    yield run("rules", "explain", planted.logs)
    yield run("rules", "explain", planted.logs, "--unclaimed")
    yield run("rules", "coverage", planted.logs, "--limit", "500")
    yield run("rules", "coverage", planted.logs, "--json")


def test_every_line_with_a_secret_became_an_event(planted: Planted) -> None:
    """Else the tests below would look at nothing."""
    rows = load_run(planted.out).rows("events", ["file", "text"])
    mine = [row["text"] for row in rows if row["file"] == "logs/app-pay/client.log"]

    assert sum("clientId=app-pay" in text for text in mine) >= len(CANARIES) + len(FIXED)
    assert sum("***" in text for text in mine) >= len(CANARIES) + len(FIXED)


def test_no_secret_is_in_any_file_that_is_written(planted: Planted, tmp_path: Path) -> None:
    found = re.compile("|".join(map(re.escape, planted.secrets)))
    folders = (planted.out, exported(planted.out, tmp_path))

    assert {(where, hit[0]) for folder in folders for where, text in texts(folder)
            for hit in found.finditer(text)} == set()  # fmt: skip


def test_no_secret_is_shown_on_the_terminal(planted: Planted) -> None:
    told = list(shown(planted))
    found = re.compile("|".join(map(re.escape, planted.secrets)))

    assert all(len(text) > 1000 for text in told[:3])
    assert [hit[0] for text in told for hit in found.finditer(text)] == []


def test_a_masked_line_is_still_led_back_to_its_place(planted: Planted) -> None:
    """Also from a file whose name holds a secret, by the name that the tables give it."""
    rows = load_run(planted.out).rows("events", ["file", "line", "text"])
    files = {row["file"] for row in rows}
    assert files == {f"logs/app-pay/{name}" for name in ("client.log", "token=***", "token=***#2")}

    for name in sorted(files):
        row = next(row for row in rows if row["file"] == name and "***" in row["text"])
        place = f"{name}:{row['line']}"
        told = run("show", place, "-o", planted.out, "--archive", planted.logs, "-C", 0)
        assert "  the line that was cited\n" in told, told


def test_a_line_that_differs_where_no_secret_is_is_another_one(
    planted: Planted, tmp_path: Path
) -> None:
    other = tmp_path / "logs" / "app-pay" / "client.log"
    other.parent.mkdir(parents=True)
    text = (planted.logs / "app-pay" / "client.log").read_text("utf-8")
    other.write_text(text.replace("60000 ms", "60001 ms"), "utf-8")

    told = run(
        "show", "logs/app-pay/client.log:2", "-o", planted.out, "--archive", other.parents[1]
    )

    assert "NOT the line that was cited" in told


def test_the_page_says_what_is_masked(planted: Planted) -> None:
    page = (planted.out / "report.html").read_text("utf-8")

    assert "Secrets are masked as ***: passwords, tokens" in page
