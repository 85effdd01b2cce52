"""A log in any layout, with anything before its lines, says what it says in Kafka's own layout."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from forensics.ingest import window_formats
from forensics.ingest.documents import WrappedLines, _wrapped_width
from tests.ingest.scans import Scanned, scan
from tests.ingest.written_layouts import (
    LAYOUTS,
    PREFIXES,
    Record,
    quoted,
    records_of,
    sent,
    written,
)

LOG = Path(__file__).parents[2] / "sample_logs/430-unclean/logs/broker-1/server.log"
PLAIN = "".join(LOG.read_text().splitlines(keepends=True)[:420])
RECORDS = records_of(PLAIN)
FACTS = ("kind", "topic", "partition", "leader_epoch", "isr", "setting", "value", "error")
ROUNDED = {
    "whole seconds",
    "halves of a day",
    "names of months",
    "day first",
    "two-digit year",
    "unix date",
    "java.util.logging",
    "level and message in the line below",
}


def read(text: str, split_size: int = 64 << 20, name: str = "server.log") -> Scanned:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "broker-1" / name
        path.parent.mkdir()
        path.write_text(text)
        return scan(path.parent, split_size=split_size)


def facts(found: Scanned, *, rounded: bool = False) -> list[Any]:
    rows = []
    for row in found.events:
        time = row["ts"].replace(microsecond=0) if rounded else row["ts"]
        rows.append((time, *(str(row[name]) for name in FACTS)))
    return sorted(rows)


@cache
def bare(*, rounded: bool = False) -> list[Any]:
    return facts(read(PLAIN), rounded=rounded)


def prefixed(name: str, text: str) -> str:
    lines = enumerate(text.splitlines(keepends=True))
    return "".join(PREFIXES[name](number) + line for number, line in lines)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_that_nobody_listed_is_found(name: str) -> None:
    found = read(written(RECORDS, LAYOUTS[name]))
    rounded = name in ROUNDED

    assert facts(found, rounded=rounded) == bare(rounded=rounded)


@pytest.mark.parametrize("name", PREFIXES)
def test_what_stands_before_every_line_is_taken_off(name: str) -> None:
    found = read(prefixed(name, PLAIN))

    assert facts(found) == bare()
    [account] = found.files.values()
    assert account.counts["records"] == read(PLAIN).files["broker-1/server.log"].counts["records"]


CONTAINERS = {
    "CRI": lambda line: f"2026-11-18T11:37:46.8971234Z stdout F {line}",
    "Docker": lambda line: json.dumps({"log": line + "\n", "stream": "stdout"}),
    "Fluent Bit's stdout": lambda line: (
        f"[0] kube.x: [[1795001866.897000074, {{}}], {json.dumps({'log': line})}]"
    ),
    "Fluentd's stdout": lambda line: (
        f"2026-11-18 11:37:46.897000000 +0000 docker.kafka: {json.dumps({'log': line})}"
    ),
}


@pytest.mark.parametrize("inner", ["padded level", "any method"])
@pytest.mark.parametrize("outer", CONTAINERS)
def test_an_unknown_layout_is_found_in_a_wrapper(inner: str, outer: str) -> None:
    lines = written(RECORDS, LAYOUTS[inner]).splitlines()

    assert facts(read("".join(CONTAINERS[outer](line) + "\n" for line in lines))) == bare()


@pytest.mark.parametrize("write", [quoted, sent])
def test_escapes_of_the_outer_form_are_undone(write: Callable[[str], str]) -> None:
    assert facts(read("".join(write(line) + "\n" for line in PLAIN.splitlines()))) == bare()


def test_a_record_of_several_lines_in_one_of_rsyslog_is_read() -> None:
    records = written(RECORDS, LAYOUTS["padded level"])
    whole = re.sub(r"\n(?!\[2026|$)", "\n" + "\0", records).replace("\n\0", "#012")

    assert facts(read("".join(sent(line) + "\n" for line in whole.splitlines()))) == bare()


@pytest.mark.parametrize("code", ["\x1b[?2004h", "\x1b[?2004l\r", "\x1b[0m", "\0" * 90_000])
def test_codes_and_zeros_before_a_few_records_hide_none(code: str) -> None:
    lines = PLAIN.splitlines(keepends=True)
    lines[0], lines[200] = code + lines[0], code + lines[200]

    assert facts(read("".join(lines))) == bare()


@pytest.mark.parametrize("split_size", [8 << 20, 20_000])
@pytest.mark.parametrize("coding", ["utf-16-le", "utf-16-be", "utf-16", "utf-32"])
def test_lines_in_utf_16_behind_others_are_read(
    tmp_path: Path, coding: str, split_size: int
) -> None:
    lines = PLAIN.splitlines(keepends=True)
    one, two, three = ("".join(part) for part in (lines[:99], lines[99:300], lines[300:]))
    (tmp_path / "server.log").write_bytes(one.encode() + two.encode(coding) + three.encode())

    assert facts(scan(tmp_path, split_size=split_size)) == bare()


def test_where_a_file_in_utf_16_goes_on_in_utf_8_both_are_read(tmp_path: Path) -> None:
    cut = PLAIN.index("\n", 9000) + 1
    raw = PLAIN[:cut].encode("utf-16") + PLAIN[cut:].encode("utf-8-sig")
    (tmp_path / "server.log").write_bytes(raw)

    assert facts(scan(tmp_path)) == bare()


@pytest.mark.parametrize("ending", ["\0", "\r"])
@pytest.mark.parametrize("split_size", [8 << 20, 20_000])
def test_records_behind_zeros_or_returns_in_a_line_are_said_not_to_be_read(
    tmp_path: Path, ending: str, split_size: int
) -> None:
    text = PLAIN[:9000] + PLAIN[9000:].replace("\n", ending)
    (tmp_path / "server.log").write_bytes(text.encode())

    said = scan(tmp_path, split_size=split_size).notes()["server.log"]
    assert said.startswith("in some lines zero bytes or carriage returns stand where lines should")


COLLECTIONS = (
    "GC(7) Pause Young (Allocation Failure) 50M->49M(192M) 234.067ms",
    "Heap",
    " PSYoungGen      total 59904K, used 31285K [0x00000000f9c00000, 0x0000000100000000)",
    "  eden space 51712K, 60% used [0x00000000f9c00000,0x00000000fba8d5f8,0x00000000fce80000)",
    "  from space 8192K, 0% used [0x00000000fce80000,0x00000000fce80000,0x00000000fd680000)",
)


@pytest.mark.parametrize(
    "marks", ["[gc]", "[info][gc]", "[gc][info]", "[4711][4712][info][gc,heap]"]
)
def test_a_log_of_a_jvm_is_read_with_any_marks_between_its_time_and_its_messages(
    marks: str,
) -> None:
    lines = [f"[2026-11-18T11:38:25.100+0000]{marks} {text}\n" for text in COLLECTIONS * 12]
    found = read("".join(lines)).events

    assert 12 * [("gc_pause", 234)] == [(row["kind"], row["duration_ms"]) for row in found]


@pytest.mark.parametrize("uptime", ["", "86412.345: "])
def test_a_log_of_a_jvm_8_is_read_with_the_seconds_since_its_start_or_without(uptime: str) -> None:
    text = "[GC (Allocation Failure)  65536K->10743K(251392K), 0.5159344 secs]"
    found = read(f"2026-11-18T11:38:25.100+0000: {uptime}{text}\n" * 9).events

    assert 9 * [("gc_pause_early", "0.5159344")] == [(row["kind"], row["value"]) for row in found]


RDKAFKA = "[thrd:b:9/2]: b:9/2: Disconnected: connection reset by peer (after 13605ms in state UP)"
HOSTS = {
    "Rust": "2026-11-18T11:38:25.852Z ERROR rdkafka::client: librdkafka: FAIL [app#p-1]: "
    + RDKAFKA,
    "Python": f"2026-11-18 11:38:25,852 ERROR confluent: FAIL [app#p-1] {RDKAFKA}",
}


@pytest.mark.parametrize("name", HOSTS)
def test_lines_of_librdkafka_are_read_in_the_logs_of_others(name: str) -> None:
    own = f"%3|1795001905.852|FAIL|app#p-1| {RDKAFKA}\n"
    found = read(f"{HOSTS[name]}\n" * 9).events

    assert {row["kind"] for row in found} == {row["kind"] for row in read(own * 9).events}
    assert {(row["client"], row["ts"].timestamp()) for row in found} == {
        ("app#p-1", 1795001905.852)
    }


def test_objects_may_stand_behind_the_names_of_pods() -> None:
    """As stern writes them; the objects hold the parts of records."""
    text = ""
    for record in RECORDS:
        node = {"@timestamp": record.written("%Y-%m-%dT%H:%M:%S.%fZ"), "log.level": record.level}
        node |= {"message": "\n".join([*record.message, *record.more])}
        text += f"kafka-0 kafka {json.dumps(node | {'log.logger': record.logger})}\n"

    assert facts(read(text)) == bare()


@pytest.mark.parametrize("inner", ["thread", "Confluent for Kubernetes"])
@pytest.mark.parametrize("outer", ["stern", "numbers", "a download"])
def test_an_unknown_layout_may_have_an_unknown_prefix(inner: str, outer: str) -> None:
    assert facts(read(prefixed(outer, written(RECORDS, LAYOUTS[inner])))) == bare()


@pytest.mark.parametrize("first", ["plain", "padded level", "stern"])
@pytest.mark.parametrize("second", ["plain", "thread", "numbers"])
def test_a_layout_may_change_in_the_middle(first: str, second: str) -> None:
    """Half of the log is in one form, half in another."""
    half = len(RECORDS) // 2
    text = ""
    for name, some in ((first, RECORDS[:half]), (second, RECORDS[half:])):
        if name in LAYOUTS:
            text += written(some, LAYOUTS[name])
        else:
            part = written(some, lambda record: record.tail(
                f"[{record.written('%Y-%m-%d %H:%M:%S')},{record.millis}] {record.level} "
            ))  # fmt: skip
            text += prefixed(name, part) if name in PREFIXES else part

    assert facts(read(text)) == bare()


@pytest.mark.parametrize("junk", ["\0" * 300_000, "x" * 3_000_000, "starting up\n" * 40_000])
def test_what_stands_at_the_head_hides_nothing(junk: str) -> None:
    assert facts(read(junk + "\n" + PLAIN)) == bare()


@pytest.mark.parametrize("split_size", [11_003, 40_000])
def test_where_a_file_is_split_changes_nothing(
    split_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows are as short as splits here, and the layout changes several times."""
    monkeypatch.setattr(window_formats, "WINDOW", 16 << 10)
    part = len(RECORDS) // 4
    text = "no log at all\n" * 2_000
    for number, name in enumerate(("thread", "padded level", "bars", "epoch")):
        text += written(RECORDS[number * part : (number + 1) * part], LAYOUTS[name])
    whole, split = read(text), read(text, split_size)

    assert facts(whole) == facts(split)
    assert [account_row(whole)] == [account_row(split)]
    assert len(whole.events) > 0


@pytest.mark.parametrize("split_size", [64 << 20, 7_001])
def test_where_some_lines_are_cut_the_others_keep_their_layout(
    split_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a collector with a limit; what is left of a line has no logger."""
    monkeypatch.setattr(window_formats, "WINDOW", 16 << 10)
    lines = PLAIN.splitlines(keepends=True)
    text = "".join(
        line if number % 10 else line[: len(line) // 2] + "\n" for number, line in enumerate(lines)
    )

    found = Counter(map(str, facts(read(text, split_size))))

    assert not found - Counter(map(str, bare()))
    assert found.total() > 0.85 * len(bare())
    assert found == Counter(map(str, facts(read(text))))


def test_lines_of_a_part_that_no_layout_reads_are_said() -> None:
    lost = "".join(f"11:38:{number:02} [main] INFO Any - text {number}\n" for number in range(60))

    def note(text: str) -> str | None:
        [account] = read(text).files.values()
        said: str | None = account.to_row()["damaged"]
        return said

    # Behind them stands a record without its last line: that is said, too.
    whole = "".join(PLAIN.splitlines(keepends=True)[:175])
    assert note(whole) is None
    assert "most of them like '0:0:0 [main] INFO Any - text 0'" in (note(whole + lost) or "")
    assert (
        note(whole + "".join(f"\t{line}\n" for line in ("at a.b.C", "Caused by: x")) * 99) is None
    )


UNDATED = {
    "clock": lambda r: r.tail(f"[{r.written('%H:%M:%S')},{r.millis}] {r.level} "),
    "glog": lambda r: r.lead(
        f"{r.level[0]}{r.written('%m%d %H:%M:%S.%f')} 1 {r.logger.rpartition('.')[2]}.scala:7] "
    ),
    "month and day": lambda r: r.tail(f"{r.written('%b %d %H:%M:%S.%f')} {r.level} "),
}


@pytest.mark.parametrize("form", UNDATED)
def test_a_file_without_dates_takes_the_day_from_its_name_or_waits_for_one(form: str) -> None:
    text = written(RECORDS, UNDATED[form])

    assert facts(read(text, name="server.log.2026-11-18-11")) == bare()
    unplaced = [row["ts"] for row in read(text).events]
    assert {time.year for time in unplaced} == {1976}
    assert len(unplaced) == len(bare())


def test_a_date_that_does_not_exist_is_no_time() -> None:
    records = written(RECORDS, LAYOUTS["whole seconds"]).splitlines(keepends=True)
    records[20] = records[20].replace("2026-11-18", "2026-13-45")
    found = read("".join(records))

    assert len(found.events) == len(bare())
    assert sum(row["ts"] is None for row in found.events) <= 1


def test_without_loggers_the_message_decides_if_it_is_unmistakable() -> None:
    """What two rules could take gives nothing; nothing is taken for something else."""
    text = "".join(
        "\n".join([f"[{r.written('%Y-%m-%d %H:%M:%S')},{r.millis}] {r.level} {r.message[0]}",
                   *r.message[1:], *r.more]) + "\n"
        for r in RECORDS
    )  # fmt: skip
    found = facts(read(text))

    assert not set(found) - set(bare())
    assert len(found) > 0.9 * len(bare())


def account_row(found: Scanned) -> dict[str, Any]:
    [account] = found.files.values()
    row = account.to_row()
    return {name: row[name] for name in row if name != "sha256"}


@pytest.mark.parametrize(
    "text",
    [
        "name,count\nkafka.server.KafkaServer,7\n" * 50,
        "Once upon a time there was an ERROR in a fairy tale.\n" * 50,
        '10.0.0.1 - - [18/Nov/2026:11:31:58 +0000] "GET / HTTP/1.1" 200 12\n' * 50,
    ],
)
def test_what_is_no_log_of_kafka_stays_unread(text: str) -> None:
    found = read(text)

    assert found.events == []
    [account] = found.files.values()
    assert account.counts["unparsed_lines"] + account.counts["blank_lines"] == text.count("\n")


@pytest.mark.parametrize(
    "front", ["2026-11-18T11:31:58.423111111Z ", "2026-11-18T11:31:58.423000+00:00 broker/1 "]
)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_of_a_few_lines_the_time_of_a_collector_is_no_record(front: str, count: int) -> None:
    lines = [
        f"[2026-11-18 11:39:29,59{number}] INFO [Partition orders-v2-{number} broker=2] ISR updated"
        " to 3,2,1  and version updated to 5 (kafka.cluster.Partition)\n"
        for number in range(count)
    ]
    expected = facts(read("".join(lines)))

    assert facts(read("".join(front + line for line in lines))) == expected != []


@pytest.mark.parametrize("name", ["java.util.logging", "message in the line below"])
def test_where_heads_stand_above_their_messages_splits_change_nothing(name: str) -> None:
    text = written(RECORDS, LAYOUTS[name])
    whole, split = read(text), read(text, split_size=len(text) // 6)

    assert whole.facts() == split.facts()
    assert whole.accounts() == split.accounts()


def test_where_messages_begin_is_known_by_what_rules_say() -> None:
    forms: dict[str, Callable[[Record], str]] = {
        "labels and bars": lambda one: (
            f"time: {one.written('%F %T')},{one.millis} | level: {one.level} | logger: {one.logger}"
            f" | thread: {one.thread.partition(' ')[0]} | message: "
        ),
        "a structure": lambda one: (
            f'{one.written("%FT%T")}.{one.millis}Z b1 kafka 123 - [x@1 logger="{one.logger}"'
            f' level="{one.level}" thread="{one.thread.partition(" ")[0]}"] '
        ),
        "a path with a name of a logger": lambda one: (
            f"{one.written('%F %T')},{one.millis} b1 /usr/lib/jvm/java[81] {one.level}"
            f" [{one.logger}] (main) "
        ),
    }
    for name, front in forms.items():
        text = "".join(f"{line}\n" for one in RECORDS for line in one.lead(front(one)))

        assert facts(read(text)) == bare(), name


def test_a_counter_before_every_line_is_no_name() -> None:
    text = "".join(f"[{n % 3}] {line}\n" for n, line in enumerate(PLAIN.splitlines()))

    assert facts(read(text)) == bare()


def test_a_logger_between_blanks_is_heard_whatever_its_message_holds() -> None:
    line = (
        "2026-11-18 11:38:35,408 INFO org.apache.kafka.controller.ClusterControlManager"
        " [QuorumController id=3001] Replayed BrokerRegistrationChangeRecord modifying the"
        " registration for broker 2: BrokerRegistrationChangeRecord(brokerId=2, brokerEpoch=22,"
        " fenced=1, inControlledShutdown=0, logDirs=[], cordonedLogDirs=null)\n"
    )

    assert len(read(line * 3).events) == 3


def test_a_list_in_the_middle_of_a_record_is_not_its_logger() -> None:
    """A setting with one class in brackets looks like what ends a record of this layout."""
    settings = (
        "2026-11-18 11:51:17,{:03} INFO   ||  ConsumerConfig values: \n"
        "\tgroup.id = report\n"
        "\tmetric.reporters = [org.apache.kafka.common.metrics.JmxReporter]\n"
        "\tisolation.level = read_committed\n"
        "   [org.apache.kafka.clients.consumer.ConsumerConfig]\n"
        "2026-11-18 11:51:18,{:03} INFO   ||  Kafka version: 4.3.0"
        "   [org.apache.kafka.common.utils.AppInfoParser]\n"
    )
    found = read("".join(settings.format(n, n) for n in range(9)), name="client.log")

    told = {row["setting"]: row["value"] for row in found.events if row["setting"]}
    assert told["isolation.level"] == "read_committed"
    assert len([row for row in found.events if row["setting"] == "isolation.level"]) == 9


def test_a_record_as_long_as_a_broken_line_does_not_take_the_next_one_in() -> None:
    document = WrappedLines([], 60)
    first = "[2026-11-18 11:41:00,001] INFO one (a.B)".ljust(60, "x")
    next_one = "[2026-11-18 11:41:00,002] INFO two (a.B)"
    text = f"{first}\n{next_one}\n{first}\nrest of it\n"
    pieces = [one.text for one in document.feed(text.encode(), final=True)]

    assert [one.replace(b"\n", b"") for one in pieces] == [
        first.encode(), next_one.encode(), f"{first}rest of it".encode(),
    ]  # fmt: skip


@pytest.mark.parametrize("end", [")", ""])
def test_records_of_one_length_with_a_trace_below_are_not_broken_lines(end: str) -> None:
    head = "[2026-11-18 11:41:00,{:03}] ERROR Controller 3 epoch 1 failed to change state for"
    head += " partition orders-{} from OfflinePartition to OnlinePartition (state.change.logger"
    trace = "kafka.common.StateChangeFailedException: Failed to elect leader for orders-{}"
    lines = [f"{head.format(n, n)}{end}\n{trace.format(n)}\n" for n in range(53)]

    assert _wrapped_width("".join(lines).encode()) == 0
    assert _wrapped_width("".join(lines[:8] * 4).encode()) == 0


@pytest.mark.parametrize("width", [80, 120, 212])
def test_lines_that_a_terminal_broke_are_put_together(width: int) -> None:
    text = "".join(
        line[at : at + width] + "\n"
        for line in PLAIN.splitlines()
        for at in range(0, max(1, len(line)), width)
    )
    found = read(text)
    (file,) = found.files.values()

    assert text.count("\n") > PLAIN.count("\n") + 10
    assert len(set(facts(found)) ^ set(bare())) <= 0.02 * len(bare())
    assert file.counts["lines"] == text.count("\n")


@pytest.mark.parametrize("signs", ["[]", "=", ":,"])
def test_escaped_signs_are_read_as_they_were(signs: str) -> None:
    found = read(re.sub(f"([{re.escape(signs)}])", r"\\\1", PLAIN))

    assert facts(found) == bare()


def test_lines_of_which_none_was_broken_are_left_as_they_are() -> None:
    """A table, or a log whose longest lines are alike, was broken by nobody."""
    line = "[2026-11-18 11:31:58,423] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)\n"
    (file,) = read(line * 50).files.values()

    assert (file.counts["records"], file.counts["continuation_lines"]) == (50, 0)


def test_records_below_others_that_nobody_reads_are_named() -> None:
    lines = PLAIN.splitlines()
    rare = [f"~{one}~ 11:38:0{one} INFO ~~ what is it" for one in range(4)]
    for number, one in enumerate(rare):
        lines.insert(100 + 40 * number, one)
    (file,) = read("\n".join(lines) + "\n").files.values()

    assert file.counts["misread_lines"] == 4
    assert (
        "4 lines below records look like records themselves (lines 101, 141, 181, 221)"
        in (file.to_row()["damaged"])
    )


def test_quotes_without_end_come_to_an_end() -> None:
    text = "".join(
        f'2026-11-18 11:38:0{n % 9} INFO "{"x" * n}{chr(34) * 9000}\n' for n in range(30)
    )
    (file,) = read(text).files.values()

    assert file.counts["lines"] == 30
