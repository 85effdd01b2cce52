"""Archives as people have them give the events of the plain tree, or say what is left out.

Each row packs, wraps, writes or damages the same small tree of logs; all stages up to the tables
of events and files run in this process.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import shutil
import struct
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.sample_archives import Tree, tarred, write, zipped
from tests.ingest.whole_runs import Run, read
from tests.ingest.written_logs import LINES, PLAIN, RECORDS, Record, lines_as, records_as


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Read the tree as it is."""
    run = read(write(tmp_path_factory.mktemp("plain") / "logs", PLAIN))
    assert len(run.rows) > 200
    assert not run.notes()
    return run


# How the tree is packed into one file.


def _v7(tree: Tree = PLAIN) -> bytes:
    """Pack as tar did before it had a magic word."""
    packed = bytearray()
    for name, content in tree.items():
        head = bytearray(512)
        head[: len(name)] = name.encode()
        fields = ((100, "000644 \0"), (108, "0 \0"), (116, "0 \0"), (124, f"{len(content):011o} "))
        for at, text in (*fields, (136, f"{1795000000:011o} "), (148, " " * 8)):
            head[at : at + len(text)] = text.encode()
        head[148:156] = b"%06o\0 " % sum(head)
        packed += head + content + bytes(-len(content) % 512)
    return bytes(packed) + bytes(1024)


def _halves() -> tuple[bytes, bytes]:
    names = list(PLAIN)
    first = tarred({name: PLAIN[name] for name in names[:1]})
    return first, tarred({name: PLAIN[name] for name in names[1:]})


def _ar(tree: Tree) -> bytes:
    packed = b"!<arch>\n"
    for name, content in tree.items():
        packed += f"{name + '/':<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
        packed += content + b"\n" * (len(content) % 2)
    return packed


ARCHIVES: dict[str, Callable[[], bytes]] = {
    "two tars one after the other": lambda: b"".join(_halves()),
    "two tar.gz one after the other": lambda: b"".join(map(gzip.compress, _halves())),
    "an old tar without a magic word": _v7,
    "an old tar without a magic word, gz": lambda: gzip.compress(_v7()),
    "a zip behind a program": lambda: b"MZ" + bytes(5000) + zipped(PLAIN),
    "a zip behind a script": lambda: b"#!/bin/sh\nunzip $0; exit\n" + zipped(PLAIN),
    "a Debian package": lambda: _ar(
        {"debian-binary": b"2.0\n", "data.tar.gz": gzip.compress(tarred(PLAIN))}
    ),
    "tar in zip in tar.gz": lambda: gzip.compress(tarred({"a.zip": zipped({"b": tarred(PLAIN)})})),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_archive_gives_the_events_of_its_files(name: str, plain: Run, tmp_path: Path) -> None:
    (tmp_path / "logs.bin").write_bytes(ARCHIVES[name]())

    assert plain.facts() == read(tmp_path / "logs.bin").facts()


# How each file is compressed.

STREAMS: dict[str, Callable[[bytes], bytes]] = {
    "lzma": lambda text: lzma.compress(text, lzma.FORMAT_ALONE),
    "zlib": zlib.compress,
    "gzip, many members": lambda text: b"".join(
        gzip.compress(text[at : at + 5000]) for at in range(0, len(text), 5000)
    ),
    "bzip2 without a suffix": bz2.compress,
}


@pytest.mark.parametrize("name", STREAMS)
def test_compressed_files_give_the_events_of_their_text(
    name: str, plain: Run, tmp_path: Path
) -> None:
    tree = {f"{path}.x": STREAMS[name](text) for path, text in PLAIN.items()}

    assert plain.facts() == read(write(tmp_path / "logs", tree)).facts()


# How each record or line is written.


def _csv(head: list[str], cells: Callable[[Record], list[str]]) -> Tree:
    tree = {}
    for name, records in RECORDS.items():
        page = io.StringIO()
        csv.writer(page, lineterminator="\n").writerows([head, *map(cells, records)])
        tree[name.replace(".log", ".csv")] = page.getvalue().encode()
    return tree


def _objects(make: Callable[[Record], Mapping[str, Any]]) -> Tree:
    return records_as(lambda one: json.dumps(make(one)))


def _half_and_half(front: Callable[[str, Record], str], back: Callable[[str, Record], str]) -> Tree:
    middle = {name: len(records) // 2 for name, records in RECORDS.items()}
    first, second = lines_as(front), lines_as(back)
    cut = {
        name: sum(one.text.count("\n") + 1 for one in records[: middle[name]])
        for name, records in RECORDS.items()
    }
    return {
        name: b"".join(
            first[name].splitlines(keepends=True)[: cut[name]]
            + second[name].splitlines(keepends=True)[cut[name] :]
        )
        for name in RECORDS
    }


def _bare(line: str, _record: Record) -> str:
    return line


def _cri(line: str, one: Record) -> str:
    return f"{one.at('%Y-%m-%dT%H:%M:%S.%L')}111111Z stdout F {line}"


def _docker(line: str, one: Record) -> str:
    time = one.at("%Y-%m-%dT%H:%M:%S.%LZ")
    return json.dumps({"log": line + "\n", "stream": "stdout", "time": time})


def _dated(form: str) -> Tree:
    """Write Kafka's own layout with another form of time."""
    return records_as(
        lambda one: f"[{one.at(form)}] {one.level} {one.message} ({one.logger}){one.trace}"
    )


def _counted(line: str, one: Record) -> str:
    """Write a line of syslog; its own length stands before it."""
    framed = f"<30>1 {one.at('%Y-%m-%dT%H:%M:%S.%LZ')} host kafka 12 - - {line}"
    return f"{len(framed.encode())} {framed}"


def _first_lines(lines: list[bytes]) -> list[bytes]:
    """Return two thirds of some lines, up to the beginning of a record."""
    end = 2 * len(lines) // 3
    while not lines[end].startswith(b"["):
        end += 1
    return lines[:end]


def _last_lines(lines: list[bytes]) -> list[bytes]:
    begin = len(lines) // 3
    while not lines[begin].startswith(b"["):
        begin += 1
    return lines[begin:]


_ISO = "%Y-%m-%dT%H:%M:%S.%LZ"
_COMMA = "%Y-%m-%d %H:%M:%S,%L"

WRITTEN: dict[str, Callable[[], Tree]] = {
    "padded level": lambda: records_as(
        lambda one: f"[{one.at(_COMMA)}] {one.level:<5} {one.message} ({one.logger}){one.trace}"
    ),
    "thread before the level": lambda: records_as(
        lambda one: f"[{one.at(_COMMA)}] [main] {one.level} {one.message} ({one.logger}){one.trace}"
    ),
    "microseconds": lambda: _dated("%Y-%m-%d %H:%M:%S,%L123"),
    "a dot before the milliseconds": lambda: _dated("%Y-%m-%d %H:%M:%S.%L"),
    "a zone": lambda: _dated("%Y-%m-%d %H:%M:%S,%L +0000"),
    "T between date and time": lambda: _dated("%Y-%m-%dT%H:%M:%S,%L"),
    "twelve hours": lambda: _dated("%Y-%m-%d %I:%M:%S,%L %p"),
    "names of months": lambda: _dated("%d %b %Y %H:%M:%S,%L"),
    "milliseconds of the epoch": lambda: _dated("%E"),
    "Strimzi, older": lambda: records_as(
        lambda one: f"{one.at(_COMMA)} {one.level} {one.message} ({one.logger}) [main]{one.trace}"
    ),
    "one blank in front": lambda: lines_as(lambda line, _: f" {line}"),
    "indented by four": lambda: lines_as(lambda line, _: f"    {line}"),
    "a time before every line": lambda: lines_as(lambda line, one: f"{one.at(_ISO)} {line}"),
    "zeros trimmed from times": lambda: lines_as(
        lambda line, one: f"{one.at('%Y-%m-%dT%H:%M:%S.%L').rstrip('0').rstrip('.')}Z {line}"
    ),
    "stern": lambda: lines_as(lambda line, _: f"cluster-kafka-0 kafka {line}"),
    "kubetail": lambda: lines_as(lambda line, _: f"[cluster-kafka-0] {line}"),
    "journal, short-full": lambda: lines_as(
        lambda line, one: f"{one.at('%a %Y-%m-%d %H:%M:%S')} UTC host kafka[12]: {line}"
    ),
    "journal, short-unix": lambda: lines_as(
        lambda line, one: f"{one.epoch_millis / 1000:.6f} host kafka[12]: {line}"
    ),
    "syslog with its priority": lambda: lines_as(
        lambda line, one: f"<30>{one.at('%b %d %H:%M:%S')} host kafka[12]: {line}"
    ),
    "grep -n": lambda: lines_as(lambda line, one: f"{one.millis}:{line}"),
    "quoted": lambda: lines_as(lambda line, _: f"> {line}"),
    "colours around the level": lambda: records_as(
        lambda one: (
            f"[{one.at(_COMMA)}] \x1b[32m{one.level}\x1b[m {one.message} ({one.logger}){one.trace}"
        )
    ),
    "colours in some lines": lambda: lines_as(
        lambda line, one: f"\x1b[33m{line}\x1b[0m" if one.millis % 3 else line
    ),
    "carriage returns alone": lambda: {
        name: text.replace(b"\n", b"\r") for name, text in PLAIN.items()
    },
    "journal, with-unit": lambda: lines_as(
        lambda line, one: f"{one.at('%a %Y-%m-%d %H:%M:%S')} UTC host kafka.service[12]: {line}"
    ),
    "journal, json-pretty": lambda: lines_as(
        lambda line, one: json.dumps(
            {
                "__REALTIME_TIMESTAMP": str(one.epoch_millis * 1000),
                "SYSLOG_IDENTIFIER": "kafka",
                "MESSAGE": line,
            },
            indent=8,
        )
    ),
    "journal, json with arrays of bytes": lambda: lines_as(
        lambda line, one: json.dumps(
            {
                "__REALTIME_TIMESTAMP": str(one.epoch_millis * 1000),
                "MESSAGE": list(line.encode()) if one.millis % 2 else line,
            }
        )
    ),
    "syslog of RFC 5424 with octet counts": lambda: lines_as(_counted),
    "aws logs tail": lambda: lines_as(
        lambda line, one: f"{one.at('%Y-%m-%dT%H:%M:%S+00:00')} kafka/broker {line}"
    ),
    "cat -n": lambda: {
        name: b"".join(b"%6d\t%s" % (at, line) for at, line in enumerate(lines, 1))
        for name, lines in LINES.items()
    },
    "grep -H over rotations": lambda: {
        name: b"".join(
            b"%s.%d:%s" % (name.encode(), 2 - 3 * at // (len(lines) + 1), line)
            for at, line in enumerate(lines)
        )
        for name, lines in LINES.items()
    },
    "output of Ansible": lambda: {
        name: b"kafka-7 | CHANGED | rc=0 >>\n" + text for name, text in PLAIN.items()
    },
    "a typescript": lambda: {
        name: b'Script started on 2026-11-18 12:00:00+00:00 [TERM="xterm"]\n$ cat server.log\r\n'
        + text.replace(b"\n", b"\r\n")
        + b"$ exit\r\n\nScript done on 2026-11-18 12:00:09+00:00\n"
        for name, text in PLAIN.items()
    },
    "indented by two": lambda: lines_as(lambda line, _: f"  {line}"),
    "zeros at the head": lambda: {name: bytes(300_000) + text for name, text in PLAIN.items()},
    "a line of five megabytes at the head": lambda: {
        name: b"x" * (5 << 20) + b"\n" + text for name, text in PLAIN.items()
    },
    "rotations that overlap": lambda: {
        f"{name}{end}": b"".join(part)
        for name, lines in LINES.items()
        for end, part in ((".1", _first_lines(lines)), ("", _last_lines(lines)))
    },
    "a folder of an archive a broker": lambda: {
        f"{name.partition('/')[0]}.tar.gz": gzip.compress(tarred({"server.log": text}))
        for name, text in PLAIN.items()
    },
    "UTF-8 with a byte order mark": lambda: {
        name: b"\xef\xbb\xbf" + text for name, text in PLAIN.items()
    },
    "UTF-16 without a byte order mark": lambda: {
        name: text.decode().encode("utf-16-le") for name, text in PLAIN.items()
    },
    "UTF-32": lambda: {name: text.decode().encode("utf-32") for name, text in PLAIN.items()},
    "Splunk's collector": lambda: _objects(
        lambda one: {"time": one.epoch_millis / 1000, "source": "kafka", "event": one.text}
    ),
    "Splunk's raw": lambda: _objects(
        lambda one: {"result": {"_raw": one.text, "_time": one.at(_ISO)}}
    ),
    "Google's textPayload": lambda: _objects(
        lambda one: {"insertId": "x", "timestamp": one.at(_ISO), "textPayload": one.text}
    ),
    "Elasticsearch's _source": lambda: _objects(
        lambda one: {"_index": "x", "_source": {"@timestamp": one.at(_ISO), "message": one.text}}
    ),
    "ECS in objects": lambda: _objects(
        lambda one: {
            "@timestamp": one.at(_ISO),
            "log": {"level": one.level, "logger": one.logger},
            "message": one.message + one.trace,
        }
    ),
    "a key of the same name before the right one": lambda: _objects(
        lambda one: {
            "kubernetes": {"labels": {"message": "no", "level": "x", "logger_name": "no"}},
            "@timestamp": one.at(_ISO),
            "level": one.level,
            "logger_name": one.logger,
            "message": one.message + one.trace,
        }
    ),
    "CloudWatch's CSV": lambda: _csv(
        ["timestamp", "message"], lambda one: [str(one.epoch_millis), one.text]
    ),
    "Kibana's CSV": lambda: _csv(
        ["@timestamp", "message"], lambda one: [one.at("%b %d, %Y @ %H:%M:%S.%L"), one.text]
    ),
    "Loki's API": lambda: {
        "loki.json": json.dumps(
            {
                "status": "success",
                "data": {
                    "resultType": "streams",
                    "result": [
                        {
                            "stream": {"pod": name.partition("/")[0]},
                            "values": [
                                [f"{one.epoch_millis}000000", line]
                                for one in records
                                for line in one.text.split("\n")
                            ],
                        }
                        for name, records in RECORDS.items()
                    ],
                },
            }
        ).encode()
    },
    "CRI, then Docker": lambda: _half_and_half(_cri, _docker),
    "plain, then CRI": lambda: _half_and_half(_bare, _cri),
    "plain, then Docker": lambda: _half_and_half(_bare, _docker),
    "CRI, then plain": lambda: _half_and_half(_cri, _bare),
    "start-up text at the head": lambda: {
        name: b"kafka: setting up volumes, please wait\n" * 11_000 + text
        for name, text in PLAIN.items()
    },
    "docker compose": lambda: {
        "all.log": b"".join(
            b"%-12s | %s" % (name.partition("/")[0].encode(), line)
            for name, lines in LINES.items()
            for line in lines
        )
    },
    "a copy of the output of a start script": lambda: (
        PLAIN | {"broker-1/kafkaServer.out": b"JVM warning\n" + PLAIN["broker-1/server.log"]}
    ),
    "an older copy": lambda: (
        PLAIN | {f"old/{name}": b"".join(lines[: len(lines) // 2]) for name, lines in LINES.items()}
    ),
    "a copy with carriage returns": lambda: (
        PLAIN | {f"win/{name}": text.replace(b"\n", b"\r\n") for name, text in PLAIN.items()}
    ),
    "a tail beside the file": lambda: (
        PLAIN | {"broker-1/tail.log": b"".join(LINES["broker-1/server.log"][-60:])}
    ),
    "a copy as Docker writes it": lambda: (
        PLAIN | {"broker-1/json.log": lines_as(_docker)["broker-1/server.log"]}
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_logs_written_otherwise_give_the_same_events(name: str, plain: Run, tmp_path: Path) -> None:
    assert plain.facts() == read(write(tmp_path / "logs", WRITTEN[name]())).facts()


def test_files_whose_names_say_nothing_are_named_by_their_lines(plain: Run, tmp_path: Path) -> None:
    tree = {f"f{number:02}.log": text for number, text in enumerate(PLAIN.values())}

    found = read(write(tmp_path / "logs", tree))

    # A folder names its controller, a line only its number.
    assert [one["node"] for one in found.files] == ["broker-1", "broker-2", "controller-3001"]
    for row in found.rows:
        row["node"] = row["node"].replace("controller-3001", "controller-1")
    assert found.facts() == plain.facts()


# What is damaged: the files that are whole are read in full, and the rest is named.


def _header(packed: bytes, at: int) -> int:
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return archive.getmembers()[at].offset


def _bad_header(fill: bytes) -> bytes:
    packed = bytearray(tarred(PLAIN))
    at = _header(bytes(packed), 1)
    packed[at : at + 512] = fill * 512
    return bytes(packed)


def _broken_entry() -> bytes:
    packed = bytearray(zipped(PLAIN, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(io.BytesIO(bytes(packed))) as archive:
        entry = archive.infolist()[1]
    at = entry.header_offset + 30 + len(entry.filename) + entry.compress_size // 2
    packed[at : at + 40] = b"\xff" * 40
    return bytes(packed)


def _wrong_sum() -> bytes:
    packed = zipped(PLAIN)
    return packed.replace(struct.pack("<L", zlib.crc32(PLAIN["broker-2/server.log"])), b"\1\2\3\4")


DAMAGED: dict[str, tuple[Callable[[], bytes], set[str]]] = {
    "a header of noise": (lambda: _bad_header(b"\xff"), {"broker-1", "controller-1"}),
    "a header of zeros": (lambda: _bad_header(b"\0"), {"broker-1", "controller-1"}),
    "a header of noise, gz": (
        lambda: gzip.compress(_bad_header(b"\xff")),
        {"broker-1", "controller-1"},
    ),
    "a tar cut between two files": (
        lambda: tarred(PLAIN)[: _header(tarred(PLAIN), 2)],
        {"broker-1", "broker-2"},
    ),
    "a broken entry of a zip": (_broken_entry, {"broker-1", "controller-1"}),
    "a wrong sum in a zip": (_wrong_sum, {"broker-1", "controller-1"}),
    "a zip without its directory": (lambda: zipped(PLAIN)[:-150], set()),
    "a tar.gz that is cut": (lambda: gzip.compress(tarred(PLAIN))[:6000], set()),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_is_whole_is_read_and_the_rest_is_named(name: str, plain: Run, tmp_path: Path) -> None:
    make, whole = DAMAGED[name]
    (tmp_path / "logs.bin").write_bytes(make())

    found = read(tmp_path / "logs.bin")

    kept = [row for row in plain.rows if row["file"].split("/")[1] in whole]
    assert found.notes()
    assert not Run(kept, [], []).facts() - found.facts()


def _link_to_a_folder(folder: Path) -> None:
    write(folder / "elsewhere", {"server.log": PLAIN["broker-1/server.log"]})
    (folder / "logs/broker-9").symlink_to(folder / "elsewhere")


def _link_to_nothing(folder: Path) -> None:
    (folder / "logs/broker-9").symlink_to("/nowhere/at/all")


def _encrypted(folder: Path) -> None:
    (folder / "logs/x.7z").write_bytes(b"7z\xbc\xaf\x27\x1c\0\4" + bytes(3000))


def _not_utf8(folder: Path) -> None:
    (folder / "logs" / os.fsdecode(b"junk\xff\xfe.bin")).write_bytes(b"\0\1\2" * 999)


BESIDE: dict[str, Callable[[Path], None]] = {
    "a link to a folder": _link_to_a_folder,
    "a link to nothing": _link_to_nothing,
    "7z": _encrypted,
    "a name that is not UTF-8": _not_utf8,
}


@pytest.mark.parametrize("name", BESIDE)
def test_what_lies_beside_logs_is_named_and_changes_nothing(
    name: str, plain: Run, tmp_path: Path
) -> None:
    write(tmp_path / "logs", PLAIN)
    BESIDE[name](tmp_path)

    found = read(tmp_path / "logs")

    assert found.is_told()
    assert plain.facts() == found.facts()


# What `tar` does to an archive, with the archives "one" and "two" of the tree beside it.
TOOLS = {
    "appended with -A": "cp one all && tar -A -f all two",
    "appended with --concatenate, twice": "cp one all && tar -A -f all two && tar -A -f all two",
    "as GNU writes it": "tar -c -f all --format=gnu -C logs .",
    "with holes": "tar -c -S -f all -C logs .",
    "with long names and owners": "tar -c --format=posix --xattrs -f all -C logs .",
    "old": "tar -c --format=v7 -f all -C logs .",
}


@pytest.mark.skipif(not shutil.which("tar"), reason="tar is needed")
@pytest.mark.parametrize("name", TOOLS)
def test_what_tar_makes_gives_the_events_of_its_files(
    name: str, plain: Run, tmp_path: Path
) -> None:
    write(tmp_path / "logs", PLAIN)
    for archive, packed in zip(("one", "two"), _halves(), strict=True):
        (tmp_path / archive).write_bytes(packed)
    subprocess.run(["sh", "-c", TOOLS[name]], cwd=tmp_path, check=True)

    assert plain.facts() == read(tmp_path / "all").facts()


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_log_that_was_added_to_a_tar_again_counts_once(
    compress: Callable[[bytes], bytes], plain: Run, tmp_path: Path
) -> None:
    """`tar -r` puts the log behind its older copy, as it has grown meanwhile."""
    older = {
        name: text[: text.rindex(b"\n", 0, len(text) // 2) + 1] for name, text in PLAIN.items()
    }
    packed = io.BytesIO(tarred(older))
    with tarfile.open(fileobj=packed, mode="a") as archive:
        for name, text in PLAIN.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))

    run = read(write(tmp_path, {"logs": compress(packed.getvalue())}))

    assert run.facts() == plain.facts()
    assert len(run.files) == 2 * len(PLAIN)


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_millions_of_empty_lines_between_records_change_nothing(
    compress: Callable[[bytes], bytes], plain: Run, tmp_path: Path
) -> None:
    """Of so many lines in one block nothing is kept but their number."""
    name = min(PLAIN)
    half = PLAIN[name].rindex(b"\n", 0, len(PLAIN[name]) // 2) + 1
    text = PLAIN[name][:half] + b"\n" * (6 << 20) + PLAIN[name][half:]
    run = read(write(tmp_path / "logs", PLAIN | {name: compress(text)}))

    assert run.facts() == plain.facts()
    assert sum(one["blank_lines"] for one in run.files) >= 6 << 20


_SETTINGS = (
    "[2026-11-18 11:40:51,807] INFO KafkaConfig values: ",
    "\tbroker.id = 1",
    "\tlog.dirs = /var/lib/kafka/data",
    " (kafka.server.KafkaConfig)",
    "[2026-11-18 11:40:52,807] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)",
)


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line,
        lambda line: f"kafka-1 |{line}",
        lambda line: f"kafka-1 | {line}",
        lambda line: line.replace("\t", " "),
        lambda line: line.replace("\t", "        "),
        str.strip,
    ],
    ids=["plain", "bar", "bar and blank", "one blank", "eight blanks", "trimmed"],
)
def test_lines_below_a_record_are_read_however_they_are_indented(
    change: Callable[[str], str], tmp_path: Path
) -> None:
    logs = write(
        tmp_path / "logs", {"server.log": "".join(f"{change(one)}\n" for one in _SETTINGS).encode()}
    )

    assert {(row["kind"], row["setting"], row["value"]) for row in read(logs).rows} == {
        ("setting_seen", "broker.id", "1"),
        ("setting_seen", "log.dirs", "/var/lib/kafka/data"),
        ("process_started", None, None),
    }
