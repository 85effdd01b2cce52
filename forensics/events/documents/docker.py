"""Reads what Docker says of containers: `docker inspect`, and `docker events`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from forensics.events.documents.facts import (
    Line,
    Row,
    read_moment,
    read_tree,
    state,
    whole_number,
)
from forensics.events.documents.kubernetes import NODE_ID_VARIABLES
from forensics.lib.lined_documents import Node

_RULE = "docker"


def read_inspection(lines: Iterable[Line]) -> Iterator[Row]:
    """Read `docker inspect` of one container or of many."""
    kept, documents = read_tree(lines)
    for document in documents:
        for container in document.items or [document]:
            name = container.get("Name").lstrip("/") or container.get("Id")[:12]
            facts: Row = {"subject": f"container {name}", "broker": _broker_of(container)}
            count = whole_number(container.get("RestartCount"))
            if count:
                line = kept[container.line_of("RestartCount") - 1]
                yield state(line, "pod_restarted", _RULE, count=count, **facts)
            ended = container.at("State")
            at = read_moment(container.get("State", "FinishedAt"))
            if ended is None or at is None:
                continue
            was_killed = ended.get("OOMKilled") == "true"
            code = ended.get("ExitCode")
            is_running = ended.get("Running") == "true"
            line = kept[ended.line_of("OOMKilled" if was_killed else "ExitCode") - 1]
            # While a container runs again, the exit code of its last end is no longer told.
            yield state(
                line, "process_ended", _RULE, at,
                error="OOMKilled" if was_killed else ended.get("Error") or None,
                value=None if is_running else code, **facts,
            )  # fmt: skip


def _broker_of(container: Node) -> int | None:
    for variable in container.each("Config", "Env"):
        name, _, value = (variable.text or "").partition("=")
        if name in NODE_ID_VARIABLES:
            return whole_number(value)
    return None


_EVENT = re.compile(
    r"^(?P<time>\d{4}-\d\d-\d\dT\S+) container (?P<action>oom|die|kill|stop|restart|health_status"
    r"[^(]*) (?P<id>[0-9a-f]{12,64}) \((?P<facts>.*)\)$"
)
_FACT = re.compile(r"(?P<name>[\w.-]+)=(?P<value>[^,()]*)")


def read_events(lines: Iterable[Line]) -> Iterator[Row]:
    """Read `docker events`, as text or as a JSON object a line."""
    for line in lines:
        if line.text.startswith("{"):
            action, at, facts = _read_json(line.text)
        elif found := _EVENT.match(line.text):
            action, at = found["action"], read_moment(found["time"])
            facts = {one["name"]: one["value"] for one in _FACT.finditer(found["facts"])}
        else:
            continue
        about = {"subject": f"container {facts.get('name', '')}"}
        if action == "oom":
            yield state(line, "process_ended", _RULE, at, error="OOMKilled", **about)
        elif action == "die":
            yield state(line, "process_ended", _RULE, at, value=facts.get("exitCode"), **about)
        elif action in ("kill", "stop"):
            yield state(line, "pod_stopped", _RULE, at, error=facts.get("signal"), **about)
        elif action.startswith("health_status") and "unhealthy" in action:
            yield state(line, "probe_failed", _RULE, at, **about)


def _read_json(text: str) -> tuple[str, int | None, Mapping[str, str]]:
    try:
        event: Any = json.loads(text)
    except (ValueError, RecursionError):
        return "", None, {}
    actor = event.get("Actor") if isinstance(event, dict) else None
    names = actor.get("Attributes") if isinstance(actor, dict) else None
    if not isinstance(names, dict):
        return "", None, {}
    nanos = event.get("timeNano")
    at = nanos // 1000 if isinstance(nanos, int) and 0 < nanos < 1 << 62 else None
    facts = {str(name): str(value) for name, value in names.items()}
    return str(event.get("Action") or event.get("status") or ""), at, facts
