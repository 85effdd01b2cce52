"""Log records of a sample, to be written again in other layouts and wrappers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tests.ingest.sample_archives import LOGS

__all__ = ["LINES", "PLAIN", "RECORDS", "Record", "lines_as", "records_as"]

_HEAD = re.compile(r"\[(\S+ \S+),(\d{3})\] ([A-Z]+) ")
_LOGGER = re.compile(r" \(([\w.$-]+)\)$", re.MULTILINE)


@dataclass(frozen=True)
class Record:
    """One record: what its layout holds, and its lines as they are."""

    time: datetime
    level: str
    message: str
    logger: str
    trace: str
    text: str

    @property
    def millis(self) -> int:
        """The milliseconds of the second."""
        return self.time.microsecond // 1000

    @property
    def epoch_millis(self) -> int:
        """The time in milliseconds since 1970."""
        return round(self.time.replace(tzinfo=UTC).timestamp() * 1000)

    def at(self, form: str) -> str:
        """Write the time as strftime does; `%L` are milliseconds, `%E` those since 1970."""
        form = form.replace("%L", f"{self.millis:03d}").replace("%E", str(self.epoch_millis))
        return self.time.strftime(form)


Render = Callable[[Record], str]
Wrap = Callable[[str, Record], str]


def _records(name: str, first: int, last: int) -> list[Record]:
    found = []
    text = (LOGS / name).read_text("utf-8")
    for part in re.split(r"\n(?=\[2026-)", text.rstrip("\n"))[first:last]:
        head, logger = _HEAD.match(part), _LOGGER.search(part)
        assert head is not None
        if logger is None:
            continue
        time = datetime.strptime(f"{head[1]},{head[2]}000", "%Y-%m-%d %H:%M:%S,%f")  # noqa: DTZ007
        message, trace = part[head.end() : logger.start()], part[logger.end() :]
        found.append(Record(time, head[3], message, logger[1], trace, part))
    return found


RECORDS: Mapping[str, list[Record]] = {
    "broker-1/server.log": _records("broker-1/server.log", 270, 360),
    "broker-2/server.log": _records("broker-2/server.log", 625, 715),
    "controller-1/controller.log": _records("controller-1/controller.log", 40, 130),
}


def records_as(render: Render, end: str = "\n") -> dict[str, bytes]:
    """Write every record in another layout."""
    return {
        name: "".join(render(one) + end for one in records).encode()
        for name, records in RECORDS.items()
    }


def lines_as(wrap: Wrap) -> dict[str, bytes]:
    """Write every line in a wrapper."""
    return records_as(lambda one: "\n".join(wrap(line, one) for line in one.text.split("\n")))


PLAIN = records_as(lambda one: one.text)
LINES = {name: text.splitlines(keepends=True) for name, text in PLAIN.items()}
