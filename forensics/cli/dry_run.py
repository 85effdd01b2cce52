"""The preview of a postmortem: files, layouts, nodes, bytes and time, from the heads of the files.

Less than a megabyte of each file is read; the preview names archives that hold more.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from forensics.events.file_accounts import FileAccount, assign_nodes, sum_accounts
from forensics.events.node_map import parse_node_map
from forensics.events.packs import open_packs, packs_to_json
from forensics.events.scan import load_scanner
from forensics.events.undated_times import place_undated
from forensics.ingest.archive_reader import open_parts
from forensics.ingest.inputs import gather_inputs
from forensics.ingest.read_plan import (
    ReadPlan,
    Split,
    bundle_splits,
    estimate_text_bytes,
    plan_inputs,
)
from forensics.lib.text_format import count, format_bytes, quantity, rough_duration
from forensics.lib.this_machine import usable_cores
from forensics.settings import Settings

# How much is read of each file on disk, and of each text in it.
HEAD_BYTES = 512 << 10
_BLOCK = 64 << 10
# So many files are looked at; more would only show more of the same.
MAX_FILES = 300
# What Spark, rules and the page take at best and at worst, whatever is read; and without Spark.
_STARTUP_SECONDS, _LOCAL_STARTUP_SECONDS = (10.0, 60.0), (3.0, 20.0)
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
        shown = [
            (row["file"], _layout(row), row["node"] or "-", _size(row["bytes"]))
            for row in self.rows
        ]
        widths = [max((len(row[at]) for row in shown), default=0) for at in range(3)]
        for row in shown:
            cells = [text.ljust(width) for text, width in zip(row, widths, strict=False)]
            yield "  ".join([*cells, row[3]]).rstrip()
        for name, why in self.problems:
            yield f"{name}: {why}; it would be left out"
        for name in self.partly:
            size = f"{HEAD_BYTES >> 10} kB"
            yield f"{name}: only its first {size} were looked at; more files may follow"
        named = (row["node"].split(", ") for row in self.rows if row["role"] and row["node"])
        nodes = sorted({node for names in named for node in names})
        known = ", ".join(nodes) or "none known"
        yield f"{count(len(self.rows), 'file')}, {format_bytes(self.bytes)} to read; nodes: {known}"
        fast, slow = map(rough_duration, self.seconds)
        cores = quantity(self.cores, "core")
        yield f"would take between {fast} and {slow} on {cores}"


def preview_run(settings: Settings) -> Preview:
    """Read the head of each file that a postmortem would read."""
    with TemporaryDirectory(prefix="kafka-forensics-") as folder:
        inputs = gather_inputs(settings.archives, settings.commands, Path(folder), settings.limits)
        return _preview(plan_inputs(inputs, settings.split_size, settings.limits), settings)


def _preview(work: ReadPlan, settings: Settings) -> Preview:
    scan = load_scanner(packs_to_json(open_packs(settings.packs, settings.log_patterns))).scan
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
    files = sum_accounts(found)
    place_undated(files.values())
    assign_nodes(files, parse_node_map(settings.node_map))
    is_local = settings.engine == "local"
    cores = 1 if is_local else _cores(settings.master)
    startup = _LOCAL_STARTUP_SECONDS if is_local else _STARTUP_SECONDS
    rows = tuple(_row(files[name], sizes[name]) for name in sorted(files))
    return Preview(
        rows, work.problems, tuple(partly), sum(split.bytes for split in work.splits), cores,
        _estimate_seconds(work, cores, text / taken if text and taken else 1e6, startup),
    )  # fmt: skip


def _heads(work: ReadPlan, partly: list[str]) -> Iterator[tuple[str, int | None, bytes]]:
    """Yield each text with its name, its size on disk where it has one, and its head."""
    looked_at = 0
    for split in work.splits:
        if split.number or split.role == "digest":
            continue
        if looked_at >= MAX_FILES:
            partly.append(split.file)
            continue
        limited = split
        if split.role not in ("tar", "zip"):
            size = min(split.size, HEAD_BYTES)
            limited = replace(split, end=min(split.end, size), size=size)
        is_cut = limited.size < split.size
        inside = False
        for part in open_parts(limited, block=_BLOCK):
            unpacked = part.unpacked
            inside = inside or part.file != split.file
            if unpacked.damaged and is_cut:
                # It only seems damaged, since it is read in part.
                break
            looked_at += 1
            known = split.size if split.role == "range" else split.bytes
            head = _head(part.blocks, HEAD_BYTES)
            # How long a file in an archive is nobody knows yet, but one without a line is empty.
            length = None if inside else known
            yield part.file, length if head else 0, head
            if looked_at >= MAX_FILES:
                break
        if inside and split.role != "range" and (is_cut or looked_at >= MAX_FILES):
            partly.append(split.file)


def _head(blocks: Iterator[bytes], left: int) -> bytes:
    """Read the first whole lines."""
    parts = []
    for block in blocks:
        parts.append(block[:left])
        left -= len(parts[-1])
        if left <= 0:
            break
    head = b"".join(parts)
    return head[: head.rfind(b"\n") + 1] or head


def _estimate_seconds(
    work: ReadPlan, cores: int, pace: float, startup: tuple[float, float]
) -> tuple[float, float]:
    """Return the seconds that a run may take, at best and at worst.

    What one task reads cannot be shared: a single large archive takes as long on any machine.
    """
    bundles = bundle_splits(work.splits, cores)
    longest = max(sum(map(estimate_text_bytes, bundle)) for bundle in bundles)
    share = max(longest, sum(map(estimate_text_bytes, work.splits)) / cores) / pace
    best, worst = (
        least + share * factor for least, factor in zip(startup, _PACE_FACTORS, strict=True)
    )
    return best, worst


def _cores(master: str | None) -> int:
    given = re.fullmatch(r"local\[(\d+)\]", master or "")
    return int(given[1]) if given else usable_cores()


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
