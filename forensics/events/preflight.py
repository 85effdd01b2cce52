"""Looks at the input before the work begins: is there a Kafka log in it at all?

The first line that has a time and the word Kafka is answer enough, so the usual archive costs one
block. Only where no such line is found are the heads of the files read by the rules. What is too
much to be looked at is given the benefit of the doubt.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc

from forensics.errors import ArchiveError
from forensics.events.packs import Pack, packs_to_json
from forensics.events.scan import load_scanner
from forensics.ingest.archive_reader import open_parts
from forensics.ingest.container_accounts import ContainerAccount
from forensics.ingest.read_plan import WHERE_LOGS_ARE, ReadPlan, Split, nothing_to_read_error
from forensics.lib.text_format import count, join_names

_BLOCK = 64 << 10
# So much is looked at; in more there may be a Kafka log yet.
_MOST_BYTES, _MOST_HEADS, _MOST_SECONDS = 32 << 20, 200, 5.0
_CLOCK = "[0-9]{2}:[0-9]{2}:[0-9]{2}"
_KAFKA_LINE = rf"(?i){_CLOCK}[^\n]*kafka|kafka[^\n]*{_CLOCK}"
# What Kafka keeps in its data folders (log.dirs).
_SEGMENT = re.compile(r"(^|/)\d{20}(-\d{10})?\.(log|index|timeindex|txnindex|snapshot|checkpoint)$")
_DATA_FILE = re.compile(
    r"(^|/)(meta\.properties|partition\.metadata|leader-epoch-checkpoint|quorum-state"
    r"|(cleaner|recovery-point|replication|log-start)-offset-checkpoint|\.lock)$"
)


def refuse_other_input(work: ReadPlan, packs: Sequence[Pack] = ()) -> None:
    """Raise ArchiveError if nothing that is to be read is a Kafka log."""
    heads: list[tuple[str, bytes]] = []
    data: list[str] = []
    reasons = list(work.problems)
    left = _MOST_BYTES
    deadline = time.monotonic() + _MOST_SECONDS
    for name, blocks in _texts(work.splits, reasons):
        head = next(blocks, b"")
        if is_kafka_data(name, head):
            data.append(name)
            continue
        heads.append((name, head[: head.rfind(b"\n") + 1] or head))
        for block in chain((head,), blocks):
            # Zeros stand where a log was emptied under its writer.
            left -= len(block) if block.strip(b"\0") else 0
            if _has_kafka_line(block) or left <= 0 or time.monotonic() > deadline:
                return
    texts = [(name, head) for name, head in heads if head.strip()]
    if not texts and not data:
        if reasons:
            archives = dict.fromkeys(split.file.partition("!")[0] for split in work.splits)
            raise nothing_to_read_error(list(archives), dict.fromkeys(reasons))
        # Empty logs say something: that they are empty.
        return
    if texts and (len(texts) > _MOST_HEADS or _has_event(texts, packs, deadline)):
        return
    raise ArchiveError(_explain([name for name, _ in texts], data))


def is_kafka_data(name: str, head: bytes) -> bool:
    """Return True if a file is one of those that Kafka keeps records in.

    >>> is_kafka_data("d/meta.properties", b"node.id=1"), is_kafka_data("server.log", b"[2026")
    (True, False)
    """
    if _DATA_FILE.search(name):
        return True
    return _SEGMENT.search(name) is not None and (not head or b"\0" in head[:4096])


def _texts(
    splits: Sequence[Split], reasons: list[tuple[str, str]]
) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the texts in all splits, each with its name; note why some are not read."""
    for split in splits:
        if split.role == "digest":
            continue
        containers: list[ContainerAccount] = []
        for part in open_parts(split, finished=containers, block=_BLOCK):
            yield part.file, iter(part.blocks)
            if part.unpacked.damaged:
                reasons.append((part.file, part.unpacked.damaged))
        reasons += [(one.name, fault) for one in containers for fault in one.faults]


def _has_kafka_line(block: bytes) -> bool:
    found = pc.match_substring_regex(pa.array([block], pa.binary()), _KAFKA_LINE)
    return bool(found[0].as_py())


def _has_event(texts: Sequence[tuple[str, bytes]], packs: Sequence[Pack], deadline: float) -> bool:
    """Return True if any rule reads a line of the heads; also when there is no time to tell."""
    scan = load_scanner(packs_to_json(packs), context=True).scan
    with TemporaryDirectory(prefix="kafka-forensics-") as scratch:
        path = Path(scratch) / "head"
        for name, head in texts:
            path.write_bytes(head)
            split = Split(name, str(path), "range", 0, 0, len(head), len(head))
            for batch in scan(split):
                if batch.column("account").null_count:
                    return True
            if time.monotonic() > deadline:
                return True
    return False


def _explain(texts: Sequence[str], data: Sequence[str]) -> str:
    segments = [name for name in data if _SEGMENT.search(name)]
    if data:
        what = count(len(segments), "segment file") + " of records" if segments else "files"
        example = (segments or data)[0]
        begin = (
            f"This is Kafka's data folder (log.dirs), not its logs: {what} such as {example}."
            " The records in it are not read."
        )
        if texts:
            begin += f" Nor is any of the other {count(len(texts), 'file')} a Kafka log."
    else:
        one = f"{texts[0]} is no Kafka log" if len(texts) == 1 else (
            f"None of these {len(texts):,} files is a Kafka log ({join_names(texts, 3)})"
        )  # fmt: skip
        begin = f"{one}: no line of it is one that a broker, a controller or a client writes."
        begin = begin.replace("of it is", "in them is") if len(texts) > 1 else begin
    advice = " If it is Kafka's all the same, say whose: --map '*=broker-1'." if not data else ""
    return f"{begin} {WHERE_LOGS_ARE}{advice}"
