"""How the names of Kafka's loggers are known in a text."""

from __future__ import annotations

import re
from collections.abc import Collection

# What may follow a logger: a suffix of its file, and a line in it.
SUFFIX = r"\.(?:java|scala|kt|py|go|rs|cc|cpp|cs|js|ts|rb|php)\b"
LINE = r"(?:[:@](?:[0-9]+|%L|\?))?"
PLACE = rf"(?:{SUFFIX})?{LINE}"
_TOKEN = re.compile(r"[A-Za-z_][\w$]*(?:[.][\w$-]+)*(?:-[\w$]+)*")
_SOURCE = re.compile(rf"{SUFFIX}$")
_PACKAGES = ("kafka.", "org.apache.kafka.", "o.a.k.")


def is_logger(name: str, loggers: Collection[str]) -> bool:
    """Return True if a name is that of one of Kafka's loggers, or of a class of Kafka.

    `loggers` are the last parts of the names of Kafka's loggers.

    >>> is_logger("kafka.server.KafkaServer", {"KafkaServer"}), is_logger("Topic", {"Log"})
    (True, False)
    """
    last = name.rpartition(".")[2]
    known = last in loggers and ("." in name or last[1:] != last[1:].lower() or "-" not in name)
    return known or (name.startswith(_PACKAGES) and last[:1].isupper())


def find_loggers(
    text: str, loggers: Collection[str], begin: int = 0, end: int | None = None
) -> list[tuple[int, int, str]]:
    """Find the names of loggers in a text: begin, end, name."""
    found = []
    for match in _TOKEN.finditer(text, begin, len(text) if end is None else end):
        name = _SOURCE.sub("", match[0])
        if not is_logger(name, loggers) and is_logger(name.rpartition(".")[0], loggers):
            # A method stands behind its class.
            name = name.rpartition(".")[0]
        if is_logger(name, loggers):
            found.append((match.start(), match.start() + len(name), name))
    return found


def holds_logger(text: str, loggers: Collection[str]) -> bool:
    """Return True if a text holds the name of one of Kafka's loggers."""
    return bool(find_loggers(text, loggers))
