"""Reads the settings that lie in files: server.properties, meta.properties, kafka-configs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from forensics.events.documents.facts import Line, Row, state, whole_number
from forensics.lib.secrets import mask_text

_RULE = "settings"
_PROPERTY = re.compile(r"^\s*(?P<name>[A-Za-z][\w.-]*)\s*[=:]\s*(?P<value>.*?)\s*$")
_NODE_ID = ("node.id", "broker.id")
_MAX_VALUE = 500
# What a file of settings of Kafka has at least one of.
KNOWN = re.compile(
    rb"(?m)^\s*(?:broker\.id|node\.id|process\.roles|log\.dirs?|zookeeper\.connect|listeners|"
    rb"advertised\.listeners|controller\.quorum\.\w+|cluster\.id|bootstrap\.servers)\s*[=:]"
)


def read_properties(lines: Iterable[Line]) -> Iterator[Row]:
    """Read a file of properties; all its settings are those of the node that it names."""
    found: list[tuple[Line, str, str]] = []
    broker: int | None = None
    for line in lines:
        if line.text.lstrip()[:1] in ("#", "!", "") or not (own := _PROPERTY.match(line.text)):
            continue
        if own["name"] in _NODE_ID:
            broker = whole_number(own["value"]) if broker is None else broker
        found.append((line, own["name"], own["value"]))
    for line, name, value in found:
        yield _setting(line, name, value, broker=broker)


_CONFIGS = re.compile(
    r"^(?:Dynamic|All|Default) configs for (?P<what>topic|broker|brokers|client-id|user|\S+) ?"
    r"(?P<name>\S*?)(?: in the entire cluster)? are:"
)
_CONFIG = re.compile(
    r"^ {2}(?P<name>[\w.-]+)=(?P<value>.*?) sensitive=(?P<hidden>\w+) synonyms=\{(?P<from>.*)\}"
)


def read_described_configs(lines: Iterable[Line]) -> Iterator[Row]:
    """Read `kafka-configs --describe`."""
    topic, broker = None, None
    for line in lines:
        if found := _CONFIGS.match(line.text):
            topic = found["name"] if found["what"] == "topic" else None
            broker = whole_number(found["name"]) if found["what"] == "broker" else None
        elif found := _CONFIG.match(line.text):
            yield _setting(line, found["name"], found["value"], broker=broker, topic=topic)


def _setting(line: Line, name: str, value: str, **facts: Any) -> Row:
    shown = mask_text(f"{name}={value}").partition("=")[2]
    return state(line, "setting_written", _RULE, setting=name, value=shown[:_MAX_VALUE], **facts)
