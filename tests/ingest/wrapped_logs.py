"""Wraps bare lines as collectors do."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

__all__ = ["WRAPS", "cri", "docker_json", "wrapper_of"]

STAMP = "2026-11-18T11:31:58.423111111Z"

Lines = Sequence[bytes]
Wrap = Callable[[Lines], bytes]


def before(prefix: str) -> Wrap:
    """Put the same text before every line."""
    return lambda lines: b"".join(prefix.encode() + line + b"\n" for line in lines)


def objects(key: str, **others: object) -> Wrap:
    """Make every line a string in a JSON object."""

    def wrap(lines: Lines) -> bytes:
        rows = ({"a": '"b" \\', **others, key: line.decode(), "z": 1} for line in lines)
        return b"".join(json.dumps(row).encode() + b"\n" for row in rows)

    return wrap


def cri(lines: Lines, longest: int = 16384) -> bytes:
    """Write lines as containerd does, which tears long ones."""
    wrapped = []
    for line in lines:
        parts = [line[at : at + longest] for at in range(0, len(line), longest)] or [b""]
        flags = ["P"] * (len(parts) - 1) + ["F"]
        fronts = [f"{STAMP} stdout {flag} ".encode() for flag in flags]
        wrapped += [front + part + b"\n" for front, part in zip(fronts, parts, strict=True)]
    return b"".join(wrapped)


def docker_json(lines: Lines, longest: int = 16384) -> bytes:
    """Write lines as Docker's json-file driver does, which tears long ones."""
    wrapped = []
    for line in lines:
        text = line.decode() + "\n"
        for at in range(0, len(text), longest):
            one = {"log": text[at : at + longest], "stream": "stdout", "time": STAMP}
            written = json.dumps(one, separators=(",", ":"), ensure_ascii=False)
            wrapped.append(written.replace("<", "\\u003c").encode() + b"\n")
    return b"".join(wrapped)


def coloured(lines: Lines) -> bytes:
    """Colour the level, and the line around it."""
    levels = [line.replace(b" INFO ", b" \x1b[1;32mINFO\x1b[0m ") for line in lines]
    return b"".join(b"\x1b[36m" + line + b"\x1b[0m\n" for line in levels)


def pairs(lines: Lines) -> bytes:
    """Make every line the value of a key."""
    return b"".join(b"stream=stdout msg=" + json.dumps(x.decode()).encode() + b"\n" for x in lines)


# How each wrapper writes lines; those of the tests are too short to be torn.
WRAPS: dict[str, Wrap] = {
    "colours": coloured,
    "compose": before("kafka-1  | "),
    "cri": cri,
    "docker-json": docker_json,
    "document": before("\x01kafka-0\x01"),
    "journal-json": objects("MESSAGE", PRIORITY="6"),
    "kubectl-prefix": before("[pod/kafka-0/kafka] "),
    "labels": before('2026-11-18T11:31:58Z {app="kafka", pod="kafka-0"} '),
    "logfmt": pairs,
    "line-json": objects("line", labels={"pod": "kafka-0"}),
    "log-json": objects("log", kubernetes={"pod_name": "kafka-0"}),
    "message-json": objects("message", log={"offset": 1}),
    "stream-tail": before("2026-11-18T11:31:58.423000+00:00 broker/1 "),
    "syslog": before("Nov 18 11:31:58 host-1 kafka[1234]: "),
    "syslog-5424": before("<30>1 2026-11-18T11:31:58Z host-1 kafka 1234 - - "),
    "syslog-iso": before("2026-11-18T11:31:58+0000 host-1 kafka[1234]: "),
    "timestamps": before(STAMP + " "),
}


def wrapper_of(name: str) -> str:
    """Name the wrapper that reads one of these."""
    return "json" if name.endswith("-json") else name
