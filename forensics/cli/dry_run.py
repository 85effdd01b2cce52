"""The preview of a postmortem: files, layouts, nodes, bytes and time, from the heads of the files.

Less than a megabyte of each file is read; the preview names archives that hold more.
"""

from __future__ import annotations

import json
import os
import re
import tarfile
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from forensics.events.file_accounts import FileAccount, assign_nodes, sum_accounts
from forensics.events.node_map import parse_node_map
from forensics.events.packs import open_pack, packs_to_json
from forensics.events.scan import load_scanner
from forensics.ingest.archive_reader import open_zip_member, unpack_files
from forensics.ingest.compression import DamageError, Readable
from forensics.ingest.read_plan import ReadPlan, Split, bundle_splits, plan_reading
from forensics.lib.text_format import format_bytes, quantity, rough_duration
from forensics.settings import Settings

# How much is read of each file on disk, and of each text in it.
HEAD_BYTES = 512 << 10
# What Spark, rules and the page take at best and at worst, whatever is read.
_STARTUP_SECONDS = (10.0, 60.0)
# A scan of whole files takes less for each byte than one of heads; the history adds to it.
_PACE_FACTORS = (0.5, 4.0)


@dataclass(frozen=True)
class Preview:
    """What the heads of the files show, and what that lets expect of all."""

    rows: tuple[dict[str, Any], ...]
    problems: tuple[tuple[str, str], ...]
    partly: tuple[str, ...]
    bytes: int
    cores: int
    seconds: tuple[float, float]

    def to_dict(self) -> dict[str, Any]:
        """Return the preview as JSON can hold it."""
        return {
            "files": list(self.rows),
            "not_read": [{"file": name, "why": why} for name, why in self.problems],
            "partly_seen": list(self.partly),
            "bytes": self.bytes,
            "cores": self.cores,
            "seconds": {"from": round(self.seconds[0]), "to": round(self.seconds[1])},
        }

    def to_lines(self) -> Iterator[str]:
        """Yield the preview as text, a line for each file and for each sum."""
        shown = [(row["file"], _layout(row), row["node"], _size(row["bytes"])) for row in self.rows]
        widths = [max((len(row[at]) for row in shown), default=0) for at in range(3)]
        for row in shown:
            cells = [text.ljust(width) for text, width in zip(row, widths, strict=False)]
            yield "  ".join([*cells, row[3]]).rstrip()
        for name, why in self.problems:
            yield f"{name}: {why}; it would be left out"
        for name in self.partly:
            size = f"{HEAD_BYTES >> 10} kB"
            yield f"{name}: only its first {size} were looked at; more files may follow"
        nodes = sorted(
            {node for row in self.rows if row["role"] for node in row["node"].split(", ")}
        )
        known = ", ".join(nodes) or "none known"
        yield f"{len(self.rows)} files, {format_bytes(self.bytes)} to read; nodes: {known}"
        fast, slow = map(rough_duration, self.seconds)
        cores = quantity(self.cores, "core")
        yield f"would take between {fast} and {slow} on {cores}"


def preview_run(settings: Settings) -> Preview:
    """Read the head of each file that a postmortem would read."""
    work = plan_reading(settings.archives, settings.split_size)
    scan = load_scanner(packs_to_json([open_pack(path) for path in settings.packs])).scan
    partly: list[str] = []
    sizes: dict[str, int | None] = {}
    found: list[dict[str, Any]] = []
    text, taken = 0, 0.0
    with TemporaryDirectory(prefix="kafka-forensics-") as scratch:
        path = Path(scratch) / "head"
        for name, size, head in _heads(work, partly):
            sizes[name] = size
            path.write_bytes(head)
            begun = time.monotonic()
            split = Split(name, str(path), "range", 0, 0, len(head), len(head))
            for batch in scan(split):
                rows = batch.select(["file", "split", "account"]).to_pylist()
                found += [row for row in rows if row["account"] is not None]
            text, taken = text + len(head), taken + time.monotonic() - begun
    files = sum_accounts([row | {"account": json.loads(row["account"])} for row in found])
    assign_nodes(files, parse_node_map(settings.node_map))
    cores = _cores(settings.master)
    rows = tuple(_row(files[name], sizes[name]) for name in sorted(files))
    return Preview(
        rows, work.problems, tuple(partly), sum(split.bytes for split in work.splits), cores,
        _estimate_seconds(work, cores, text / taken if taken else 1e6),
    )  # fmt: skip


def _heads(work: ReadPlan, partly: list[str]) -> Iterator[tuple[str, int | None, bytes]]:
    """Yield each text with its name, its size on disk where it has one, and its head."""
    for split in work.splits:
        if split.number or split.role == "digest":
            continue
        with open(split.path, "rb") as file:
            if split.role == "range":
                file.seek(split.data_offset)
                yield split.file, split.size, _head(file, min(split.size, HEAD_BYTES))
                continue
            file.seek(split.data_offset)
            source = open_zip_member(split.path, split.member) if split.member else file
            limited = _Limited(source, HEAD_BYTES)
            inside = False
            for item in unpack_files(split.file, limited):
                inside = inside or item.file != split.file
                if item.damaged and limited.used_up:
                    # It only seems damaged, since it is read in part.
                    break
                yield item.file, None if inside else split.bytes, _head(item.source, HEAD_BYTES)
            if inside and limited.used_up and split.bytes > HEAD_BYTES:
                partly.append(split.file)


def _head(source: Readable, left: int) -> bytes:
    """Read the first whole lines; a source returns less at a time than it is asked for."""
    parts = []
    with suppress(DamageError, OSError, EOFError, tarfile.TarError, zlib.error, ValueError):
        while left > 0 and (part := source.read(left)):
            parts.append(part)
            left -= len(part)
    head = b"".join(parts)
    return head[: head.rfind(b"\n") + 1] or head


class _Limited:
    """The beginning of a stream."""

    def __init__(self, source: Readable, left: int) -> None:
        self._source, self._left = source, left

    @property
    def used_up(self) -> bool:
        return self._left == 0

    def read(self, size: int = -1, /) -> bytes:
        data = self._source.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data


def _estimate_seconds(work: ReadPlan, cores: int, pace: float) -> tuple[float, float]:
    """Return the seconds that a run may take, at best and at worst.

    What one task reads cannot be shared: a single large archive takes as long on any machine.
    """
    longest = max(sum(map(_unpacked_bytes, bundle)) for bundle in bundle_splits(work.splits, cores))
    share = max(longest, sum(map(_unpacked_bytes, work.splits)) / cores) / pace
    return _STARTUP_SECONDS[0] + share * _PACE_FACTORS[0], _STARTUP_SECONDS[
        1
    ] + share * _PACE_FACTORS[1]


def _unpacked_bytes(split: Split) -> float:
    # Logs pack to about a tenth; the exact ratio is not worth reading them.
    return split.bytes * (1 if split.role == "range" else 10)


def _cores(master: str | None) -> int:
    given = re.fullmatch(r"local\[(\d+)\]", master or "")
    return int(given[1]) if given else len(os.sched_getaffinity(0))


def _row(one: FileAccount, size: int | None) -> dict[str, Any]:
    row = one.to_row()
    first = row["first_ts"]
    return {
        "file": one.file,
        "bytes": size,
        "layout": row["layout"],
        "node": ", ".join(part.node for part in one.parts or [one] if part.node),
        "role": one.role,
        "first": first and first.isoformat(timespec="milliseconds"),
        "notes": row["damaged"],
    }


def _layout(row: Mapping[str, Any]) -> str:
    return "empty" if row["bytes"] == 0 else row["layout"] or "no known layout"


def _size(count: int | None) -> str:
    return "" if count is None else format_bytes(count)
