"""A conversion pattern reads what log4j, Log4j 2 or Logback write by it, and nothing is guessed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from forensics.errors import ForensicsError
from forensics.events.packs import load_rule_set, open_packs
from forensics.ingest import window_formats
from forensics.ingest.conversion_patterns import (
    PatternError,
    find_fitting,
    find_patterns,
    read_pattern,
)
from tests.ingest import whole_runs
from tests.ingest.scans import Scanned, scan
from tests.ingest.test_layout_inference import PLAIN, RECORDS, bare, facts
from tests.ingest.written_layouts import Record, written

Write = Callable[[Record], list[str]]
HOSTILE = "[2026-11-18 11:38:00,000] INFO " + "[x] (y) - " * 6000


def _iso(record: Record, between: str = " ", mark: str = ",") -> str:
    return record.written(f"%Y-%m-%d{between}%H:%M:%S{mark}") + record.millis


# What no sample tells for certain, and a pattern says.
PATTERNS: dict[str, Write] = {
    "[%d] %p %m (%c)%n": lambda r: r.tail(f"[{_iso(r)}] {r.level} "),
    "%d{ISO8601} %-5p [%t] %c{2}:%L - %m%n": lambda r: r.lead(
        f"{_iso(r)} {r.level:<5} [{r.thread}] {'.'.join(r.logger.split('.')[-2:])}:77 - "
    ),
    "%date{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %level{length=1} %tid %logger{1.} %msg%xEx%n": (
        lambda r: r.lead(f"{_iso(r, 'T', '.')}+00:00 {r.level[0]} 31 {r.logger} ")
    ),
    "%d{dd MMM yyyy HH:mm:ss,SSS}{UTC} %m | %p | %c%n": lambda r: _behind(
        r, r.written("%d %b %Y %H:%M:%S,") + r.millis + " ", f" | {r.level} | {r.logger}"
    ),
    "%d{UNIX_MILLIS};%c;%p;%X{a};%m%n": lambda r: r.lead(
        f"{r.time.timestamp():.3f}".replace(".", "") + f";{r.logger};{r.level};;"
    ),
    "${LOG:-%clr(%d{hh:mm:ss.SSS a dd/MM/yy}){faint} %clr(%5p) [%15.15t] %-40.40logger{39} : %m%n}":
        lambda r: r.lead(
            f"{r.written('%I:%M:%S.')}{r.millis} {r.written('%p %d/%m/%y')} {r.level:>5} "
            f"[{r.thread:>15}] {r.logger:<40} : "
        ),
    "%highlight{%d{COMPACT}}{FATAL=red} %notEmpty{[%marker] }%l %p %m%n": lambda r: r.lead(
        f"{r.written('%Y%m%d%H%M%S')}{r.millis} {r.logger}.run(Some.scala:12) {r.level} "
    ),
}  # fmt: skip


def _behind(record: Record, front: str, back: str) -> list[str]:
    lines = [front + record.message[0], *record.message[1:]]
    lines[-1] += back
    return [*lines, *record.more]


def read(folder: Path, text: str, *patterns: str, name: str = "server.log") -> Scanned:
    path = folder / "broker-1" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return scan(path.parent, patterns=patterns)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_reads_what_is_written_by_it(pattern: str, tmp_path: Path) -> None:
    # Where the level stands behind a message of several lines, nobody knows where that ends.
    some = [one for one in RECORDS if len(one.message) == 1 or "%m |" not in pattern]
    plain = read(tmp_path, written(some, lambda r: r.tail(f"[{_iso(r)}] {r.level} ")))

    found = read(tmp_path, written(some, PATTERNS[pattern]), pattern)

    [account] = found.files.values()
    assert {one.found for one in account.layout_stretches.values()} == {"pasted"}
    assert facts(found) == facts(plain) != []


def test_a_time_without_a_date_takes_the_day_from_the_name(tmp_path: Path) -> None:
    text = written(RECORDS, lambda r: r.lead(f"{r.written('%H:%M:%S')} {r.level} {r.logger} "))
    found = read(tmp_path, text, "%d{HH:mm:ss} %p %c %m%n", name="server.log.2026-11-18")

    assert facts(found, rounded=True) == bare(rounded=True)


def test_a_pasted_pattern_goes_before_a_known_layout_and_leaves_other_lines_to_it(
    tmp_path: Path,
) -> None:
    """What stands in every message is no part of any."""
    text = written(RECORDS, lambda r: r.tail(f"[{_iso(r)}] {r.level} <dc={r.number % 3} a> "))
    found = read(tmp_path, text + PLAIN, "[%d] %p <%X> %m (%c)%n")

    [account] = found.files.values()
    stretches = sorted(account.layout_stretches.values(), key=lambda one: one.first)
    assert [one.found for one in stretches] == ["pasted", "known"]
    assert facts(found) == sorted(bare() * 2)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("%m%n", "no time"),
        ("%d %p%n%m", "no message"),
        ("%d{QQQ} %m", "the letter 'Q'"),
        ("%d{dd.MM.yyyy} %m", "has no hour"),
        ("%d %§ %m", "no logging library"),
        ("%d{HH:mm %m", "is not closed"),
        ("%d %m " + "x" * 3000, "longer than"),
        ("%d %m" + " %t" * 100, "conversion words"),
        ("%d " + "%highlight{" * 20 + "%m" + "}" * 20, "too deep"),
        ("${a:-" * 100 + "%d %m" + "}" * 100, "variables"),
        ("%d %notEmpty{%m}", "may be missing"),
    ],
)
def test_a_pattern_that_makes_no_layout_is_refused_by_a_sentence(pattern: str, says: str) -> None:
    with pytest.raises(PatternError, match="log pattern"):
        read_pattern(pattern, "pasted")
    with pytest.raises(ForensicsError, match=says):
        load_rule_set(open_packs((), [pattern]))


@pytest.mark.parametrize(
    "words", ["%t" * 30, " %t" * 30, "[%t] (%X) - " * 15, "%notEmpty{%t} " * 25]
)
def test_no_pattern_makes_lines_slow(words: str, tmp_path: Path) -> None:
    """Sixty thousand characters, and thirty places that may hold any text."""
    begun = time.process_time()
    found = read(tmp_path, (HOSTILE + "\n") * 10 + PLAIN, f"[%d] %p {words}%m (%c)%n")

    assert time.process_time() - begun < 20
    assert found.files


CONFIGURATION = {
    "log4j.properties": (
        "log4j.appender.a.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.a.layout.ConversionPattern={}\n"
    ),
    "log4j2.properties": "property.p = {}\nappender.a.layout.pattern = ${{p}}\n",
    "log4j2.xml": (
        '<?xml version="1.0"?>\n<Configuration><Appenders><Console name="a">\n'
        '<PatternLayout pattern="{}"/></Console></Appenders></Configuration>\n'
    ),
    "logback.xml": (
        '<configuration>\n<property name="P" value="{}"/>\n<appender><encoder>\n'
        "<pattern>${{P}}</pattern></encoder></appender></configuration>\n"
    ),
    "log4j2.yaml": (
        'Configuration:\n  Appenders:\n    Console:\n      PatternLayout:\n        pattern: "{}"\n'
    ),
}


@pytest.mark.parametrize("name", CONFIGURATION)
def test_patterns_of_configuration_are_found(name: str) -> None:
    assert find_patterns(CONFIGURATION[name].format("%d | %m%n")) == ["%d | %m%n"]


def test_a_configuration_gives_patterns_only_for_what_nothing_else_reads() -> None:
    files = [("a/server.log", ["2026-11-18 11:38:00,123 | x"] * 3), ("a/b.log", ["prose"] * 5)]

    assert find_fitting(files, ["%d | %m%n", "%m%n", "%d{HH:mm} %m"]) == ["%d | %m%n"]
    assert find_fitting([("a", [])], ["%d | %m%n"]) == []


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_in_no_known_layout_is_read_by_the_configuration_beside_it(
    packed: bool, tmp_path: Path
) -> None:
    """Without level and logger only the pattern tells that these are records, wherever it lies."""
    lines = "".join(
        f"2026-11-18 11:38:{n:02},123 | [KafkaServer id=1] started\n" for n in range(40)
    )
    logs = tmp_path / "logs"
    (logs / "broker-1").mkdir(parents=True)
    (logs / "broker-1/server.log").write_text(lines)
    (logs / "z").mkdir()
    text = CONFIGURATION["log4j.properties"].format("%d | %m%n")
    (logs / "z/log4j.properties").write_text(text)
    if packed:
        logs = Path(shutil.make_archive(str(tmp_path / "all"), "gztar", logs))

    run = whole_runs.read(logs)

    [stretch] = pq.read_table(tmp_path / "out/tables/layouts").to_pylist()
    assert stretch["file"].endswith("broker-1/server.log")
    del stretch["file"]
    assert stretch == {
        "first_line": 1, "last_line": 40, "records": 40, "layout": "%d | %m",
        "found": "configuration",
    }  # fmt: skip
    assert {row["kind"] for row in run.rows} == {"process_started"}
    assert run.notes() == []


def test_where_a_file_is_split_does_not_change_its_stretches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window_formats, "WINDOW", 16 << 10)
    text = PLAIN + written(RECORDS, PATTERNS["%d{ISO8601} %-5p [%t] %c{2}:%L - %m%n"]) + PLAIN
    path = tmp_path / "broker-1"
    path.mkdir()
    (path / "server.log").write_text(text)

    rows = [
        [row for one in scan(path, split_size=size).files.values() for row in one.to_layout_rows()]
        for size in (1 << 30, 20_000, 7_001)
    ]

    assert rows[0] == rows[1] == rows[2]
    assert [row["found"] for row in rows[0]] == ["known", "inferred"]


def test_a_pattern_without_a_logger_may_have_text_behind_its_message(tmp_path: Path) -> None:
    text = written(RECORDS, lambda r: _behind(r, f"{_iso(r)} {r.level} ", " |"))
    found = read(tmp_path, text, "%d %p %m |%n")

    [account] = found.files.values()
    assert {one.found for one in account.layout_stretches.values()} == {"pasted"}
