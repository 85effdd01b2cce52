"""Makes more weeks out of one recording: the times in its lines are moved, mostly by weeks."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

SAMPLES = Path(__file__).parents[2] / "sample_logs"
# `2026-11-18 11:38:51`, with a T as well; the milliseconds stay as they are.
_TIME = re.compile(rb"\b(2\d{3}-[01]\d-[0-3]\d)([T ])([0-2]\d:[0-5]\d:[0-5]\d)")
# Seconds between bars, as librdkafka writes all its times.
_SECONDS = re.compile(rb"(?<=\|)1[78]\d{8}(?=\.\d{3}\|)")
# Milliseconds since 1970, as Kafka writes them here and there.
_MILLIS = re.compile(rb"\b1[78]\d{11}\b")


def shift_times(logs: Mapping[str, bytes], by: timedelta) -> dict[str, bytes]:
    """Move the times in some logs."""
    return {name: _shift_text(text, by) for name, text in logs.items()}


def _shift_text(text: bytes, by: timedelta) -> bytes:
    def shift(match: re.Match[bytes]) -> bytes:
        text = f"{match[1].decode()} {match[3].decode()}"
        moment = datetime.strptime(text, "%Y-%m-%d %H:%M:%S") + by  # noqa: DTZ007
        return f"{moment:%Y-%m-%d}".encode() + match[2] + f"{moment:%H:%M:%S}".encode()

    seconds = int(by.total_seconds())
    text = _SECONDS.sub(lambda match: str(int(match[0]) + seconds).encode(), text)
    millis = seconds * 1000
    return _MILLIS.sub(lambda match: str(int(match[0]) + millis).encode(), _TIME.sub(shift, text))


def read_logs(sample: str) -> dict[str, bytes]:
    """Return the logs of a recording by their names, such as broker-1/server.log."""
    folder = SAMPLES / sample
    if (folder / "logs").is_dir():
        paths = [path for path in (folder / "logs").rglob("*") if path.is_file()]
        return {path.relative_to(folder / "logs").as_posix(): path.read_bytes() for path in paths}
    logs = {}
    with tarfile.open(folder / "logs.tar.gz") as packed:
        for member in packed:
            content = packed.extractfile(member) if member.isreg() else None
            if content is not None:
                logs[member.name.removeprefix("logs/")] = content.read()
    return logs


def write_logs(logs: Mapping[str, bytes], folder: Path) -> Path:
    """Write logs into a folder."""
    for name, text in logs.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    return folder


def read_store(store: Path) -> dict[str, bytes]:
    """Return all files of a store but its lock and the result of the last run."""
    return {
        path.relative_to(store).as_posix(): path.read_bytes()
        for path in sorted(store.rglob("*"))
        if path.is_file() and path.relative_to(store).as_posix() not in {".lock", "_RESULT.json"}
    }
