"""The layouts as a format file of lnav, which then reads what this package reads."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from forensics.ingest.wrappers import PrefixWrapper, Wrapper, load_wrappers
from forensics.parsing.layouts import OF_FOUND_LAYOUTS, Layout, load_layouts

NAME = "kafka_log"
_SCHEMA = "https://lnav.org/schemas/format-v1.schema.json"
_FIELDS = ("logger", "client", "origin")
# What the letters of a time are for lnav; a part of a shape is known by letter and width.
_DATE_CODES = {"y": "%Y", "M": "%m", "d": "%d", "H": "%H", "m": "%M", "s": "%S", "e": "%s"}
_FRACTIONS = {3: "%L", 6: "%f"}
_LEVELS = {"WARN": "warning", "WARNING": "warning", "CRITICAL": "critical"}


def write() -> Iterator[str]:
    """Write one format: a pattern for each layout, behind whatever collectors put before lines."""
    # Records that this package writes anew are in no file.
    layouts = [one for one in load_layouts() if one.id not in OF_FOUND_LAYOUTS]
    shapes = Counter(one.signature for one in layouts)
    before = _prefix(load_wrappers())
    form = {
        "title": "Logs of Kafka's brokers, controllers and clients",
        "description": "Made by kafka-forensics of its layouts of log lines.",
        "timestamp-field": "time",
        "timestamp-format": list(dict.fromkeys(chain(*map(_time_formats, layouts)))),
        "level-field": "level",
        "body-field": "message",
        "multiline": False,
        # lnav asks the patterns in the order of their names.
        "regex": {
            f"p{at:02}_{one.id.replace('-', '_')}": {
                "pattern": f"^{before}{_body(one, alone=shapes[one.signature] == 1)}\\s*$"
            }
            for at, one in enumerate(layouts)
        },
        "value": {name: {"kind": "string", "identifier": True} for name in _FIELDS},
        "sample": [sample for one in layouts for sample in _samples(one)],
    }
    yield json.dumps({"$schema": _SCHEMA, NAME: form}, indent=2, ensure_ascii=False) + "\n"


def _prefix(wrappers: Sequence[Wrapper]) -> str:
    """Return a pattern of what may stand before a line; alternatives share the group of origin."""
    found = [one.pattern for one in wrappers if isinstance(one, PrefixWrapper)]
    bodies = [re.sub(r"\(\?P<(?!origin>)\w+>", "(?:", one.removeprefix("^")) for one in found]
    return f"(?|{'|'.join(bodies)}|)"


def _body(layout: Layout, *, alone: bool) -> str:
    """Return the pattern of a line; fixed text before the digits of the time is no part of it.

    lnav matches first lines. That of a message of several lines ends before what follows messages;
    it is told from lines of other layouts only if none of them begins alike.
    """
    body = layout.template.body
    if layout.opening and alone:
        start = layout.opening.body
        body = f"{start}(?:{body.removeprefix(start)})?"
    fixed = re.escape(layout.time.shape[: layout.time.parts[0][1]])
    return body.replace(f"(?P<time>{fixed}", f"{fixed}(?P<time>") if fixed else body


def _time_formats(layout: Layout) -> tuple[str, ...]:
    text, end = "", layout.time.parts[0][1]
    for letter, at, width in layout.time.parts:
        text += layout.time.shape[end:at]
        text += _FRACTIONS[width] if letter == "S" else _DATE_CODES[letter]
        end = at + width
    return (f"{text}%z", f"{text}Z") if layout.time.zoned else (text,)


def _samples(layout: Layout) -> Iterator[dict[str, str]]:
    for example in layout.examples:
        level = example["gives"].get("level") if "level" in layout.template.fields else None
        known = {"level": _LEVELS.get(level, level.lower())} if level else {}
        yield {"line": example["line"]} | known
