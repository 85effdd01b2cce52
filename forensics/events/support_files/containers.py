"""Reads what kubectl and Docker say of containers: pods, nodes, events, `docker inspect`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from forensics.events.support_files.facts import (
    Line,
    Row,
    read_moment,
    read_tree,
    state,
    whole_number,
)
from forensics.lib.lined_documents import Node

_K8S_RULE = "kubernetes"
_MAX_LINE = 4 << 10
# Variables by which images are told the id of their node.
NODE_ID_VARIABLES = (
    "KAFKA_NODE_ID", "KAFKA_BROKER_ID", "KAFKA_CFG_NODE_ID", "KAFKA_CFG_BROKER_ID",
)  # fmt: skip
# Reasons of events that tell how processes came to end, and what each is here.
EVENT_KINDS = {
    "OOMKilling": "kernel_killed",
    "SystemOOM": "kernel_killed",
    "Evicted": "pod_evicted",
    "Preempted": "pod_evicted",
    "Preempting": "pod_evicted",
    "TaintManagerEviction": "pod_evicted",
    "NodeNotReady": "host_lost",
    "NodeNotSchedulable": "host_lost",
    "NodeAllocatableEnforced": "",
    "Rebooted": "host_lost",
    "Shutdown": "host_lost",
    "Killing": "pod_stopped",
    "Unhealthy": "probe_failed",
    "BackOff": "pod_restarting",
    "Scheduled": "pod_scheduled",
}  # fmt: skip


def read_resources(lines: Iterable[Line]) -> Iterator[Row]:
    """Read pods, nodes and events out of YAML or JSON."""
    kept, documents = read_tree(lines)
    for document in documents:
        for item in document.each("items") or [document]:
            kind = item.get("kind") or document.get("kind").removesuffix("List")
            if kind == "Pod":
                yield from _read_pod(item, kept)
            elif kind == "Event":
                yield from _read_event(item, kept)
            elif kind == "Node":
                yield from _read_node(item, kept)


def _read_pod(pod: Node, lines: Sequence[Line]) -> Iterator[Row]:
    name = pod.get("metadata", "name")
    facts = {"subject": f"pod {name}", "broker": _broker_of_pod(pod)}
    if host := pod.get("spec", "nodeName"):
        at = read_moment(pod.get("status", "startTime"))
        line = lines[pod.line_of("spec", "nodeName") - 1]
        yield state(line, "pod_scheduled", _K8S_RULE, at, detail=host, **facts)
    if (reason := pod.get("status", "reason")) and pod.get("status", "phase") == "Failed":
        line = lines[pod.line_of("status", "reason") - 1]
        says = pod.get("status", "message")
        kind = "pod_evicted" if reason in ("Evicted", "Preempting") else "process_ended"
        yield state(line, kind, _K8S_RULE, _ended_at(pod), error=reason, detail=says, **facts)
    for status in pod.each("status", "containerStatuses"):
        yield from _read_container(status, lines, facts)


def _ended_at(pod: Node) -> int | None:
    for condition in pod.each("status", "conditions"):
        if condition.get("type") in ("DisruptionTarget", "Ready"):
            return read_moment(condition.get("lastTransitionTime"))
    return None


def _read_container(status: Node, lines: Sequence[Line], facts: Row) -> Iterator[Row]:
    container = status.get("name")
    count = whole_number(status.get("restartCount"))
    if count:
        line = lines[status.line_of("restartCount") - 1]
        yield state(line, "pod_restarted", _K8S_RULE, count=count, detail=container, **facts)
    for which in ("lastState", "state"):
        ended = status.at(which, "terminated")
        if ended is None:
            continue
        key = "reason" if ended.at("reason") else "exitCode"
        yield state(
            lines[ended.line_of(key) - 1], "process_ended", _K8S_RULE,
            read_moment(ended.get("finishedAt")), error=ended.get("reason") or None,
            value=ended.get("exitCode") or None, detail=container, **facts,
        )  # fmt: skip


def _broker_of_pod(pod: Node) -> int | None:
    """Return the id that the pod gives its broker, where it says so."""
    for container in pod.each("spec", "containers"):
        for variable in container.each("env"):
            if variable.get("name") in NODE_ID_VARIABLES:
                return whole_number(variable.get("value"))
    return None


def _read_event(event: Node, lines: Sequence[Line]) -> Iterator[Row]:
    about = event.at("involvedObject") or event.at("regarding")
    kind = EVENT_KINDS.get(event.get("reason"))
    if about is None or not kind:
        return
    moments = (
        read_moment(event.get(*path))
        for path in (
            ("lastTimestamp",), ("series", "lastObservedTime"), ("deprecatedLastTimestamp",),
            ("eventTime",), ("firstTimestamp",), ("metadata", "creationTimestamp"),
        )
    )  # fmt: skip
    at = next((moment for moment in moments if moment is not None), None)
    key = "message" if event.at("message") else "note"
    subject = _subject(about.get("kind"), about.get("name"))
    says = event.get(key)
    line = lines[event.line_of(key) - 1]
    yield state(
        line, kind, _K8S_RULE, at, subject=subject, error=event.get("reason"), detail=says[:500],
        count=whole_number(event.get("count")),
    )  # fmt: skip


def _subject(kind: str, name: str) -> str:
    return f"host {name}" if kind.lower() in ("node", "nodes") else f"{kind.lower()} {name}"


def _read_node(node: Node, lines: Sequence[Line]) -> Iterator[Row]:
    for condition in node.each("status", "conditions"):
        kind, status = condition.get("type"), condition.get("status")
        if (kind == "Ready" and status in ("False", "Unknown")) or (
            kind.endswith("Pressure") and status == "True"
        ):
            yield state(
                lines[condition.line_of("reason") - 1],
                "host_lost" if kind == "Ready" else "host_short", _K8S_RULE,
                read_moment(condition.get("lastTransitionTime")),
                subject=f"host {node.get('metadata', 'name')}",
                error=condition.get("reason") or kind, detail=condition.get("message")[:500],
            )  # fmt: skip


_FIELD = re.compile(r"^(?P<indent> *)(?P<name>[A-Z][\w /-]*):(?: +(?P<value>\S.*?))?\s*$")
_CONTAINER = re.compile(r"^  (?P<name>[a-z0-9][a-z0-9.-]*):\s*$")
_DESCRIBED_EVENT = re.compile(
    r"^  (?P<type>Normal|Warning) +(?P<reason>[A-Z]\w+) +(?P<age>\S+(?: \(x\d+ over \S+\))?) +"
    r"(?P<source>\S+) +(?P<says>.*)$"
)


def read_description(lines: Iterable[Line]) -> Iterator[Row]:
    """Read `kubectl describe pod`, of one pod or of many.

    Its events have ages, no times: they stand without one.
    """
    described = _Described()
    for line in lines:
        text = line.text[:_MAX_LINE]
        if found := _CONTAINER.match(text):
            yield from described.close()
            described.container = found["name"]
        elif found := _DESCRIBED_EVENT.match(text):
            if kind := EVENT_KINDS.get(found["reason"]):
                yield state(
                    line, kind, _K8S_RULE, subject=described.subject, error=found["reason"],
                    detail=found["says"][:500],
                )  # fmt: skip
        elif found := _FIELD.match(text):
            yield from described.take(line, len(found["indent"]), found["name"], found["value"])
    yield from described.close()


class _Described:
    """The pod and the container that are being described."""

    def __init__(self) -> None:
        self.subject = self.container = ""
        self._is_ended = False
        self._ended: dict[str, Line] = {}

    def take(self, line: Line, depth: int, name: str, value: str | None) -> Iterator[Row]:
        """Take one field."""
        value = value or ""
        if depth == 0:
            yield from self.close()
            if name == "Name":
                self.subject, self.container = f"pod {value}", ""
            elif name == "Reason" and value == "Evicted":
                yield state(line, "pod_evicted", _K8S_RULE, subject=self.subject, error=value)
            elif name == "Node" and "/" in value:
                host = value.partition("/")[0]
                yield state(line, "pod_scheduled", _K8S_RULE, subject=self.subject, detail=host)
        elif name in {"State", "Last State"}:
            yield from self.close()
            self._is_ended = value == "Terminated"
        elif name == "Restart Count" and (count := whole_number(value)):
            facts: Row = {"count": count, "detail": self.container}
            yield state(line, "pod_restarted", _K8S_RULE, subject=self.subject, **facts)
        elif self._is_ended and name in {"Reason", "Exit Code", "Finished"}:
            self._ended[name] = line

    def close(self) -> Iterator[Row]:
        """Tell how a container ended, if that was described."""
        ended = self._ended
        values = {name: line.text.partition(":")[2].strip() for name, line in ended.items()}
        cited = ended.get("Reason") or ended.get("Exit Code")
        if cited:
            yield state(
                cited, "process_ended", _K8S_RULE, read_moment(values.get("Finished", "")),
                subject=self.subject, detail=self.container,
                error=values.get("Reason"), value=values.get("Exit Code"),
            )  # fmt: skip
        self._is_ended, self._ended = False, {}


_LISTED_EVENT = re.compile(
    r"^(?:\S+ +)??(?P<age>\S+(?: \(x\d+ over \S+\))?) +(?P<type>Normal|Warning) +"
    r"(?P<reason>[A-Z]\w+) +(?P<object>[a-z]+/\S+) +(?P<says>.*)$"
)


def read_event_list(lines: Iterable[Line]) -> Iterator[Row]:
    """Read `kubectl get events`: its events have ages, so they stand without a time."""
    for line in lines:
        found = _LISTED_EVENT.match(line.text[:_MAX_LINE])
        kind = EVENT_KINDS.get(found["reason"]) if found else None
        if found and kind:
            what, _, name = found["object"].partition("/")
            yield state(
                line, kind, _K8S_RULE, subject=_subject(what, name), error=found["reason"],
                detail=found["says"][:500],
            )  # fmt: skip


_LISTED_POD = re.compile(
    r"^(?:(?P<space>\S+) +)??(?P<name>\S+) +\d+/\d+ +(?P<status>[A-Z]\S*) +(?P<count>\d+)"
    r"(?: \((?P<age>\S+) ago\))? +\S+(?: +\S+ +(?P<host>\S+))?"
)


def read_pod_list(lines: Iterable[Line]) -> Iterator[Row]:
    """Read `kubectl get pods`: restarts, and how pods are that do not run."""
    for line in lines:
        found = _LISTED_POD.match(line.text[:_MAX_LINE])
        if not found:
            continue
        subject, count = f"pod {found['name']}", whole_number(found["count"])
        if count:
            yield state(line, "pod_restarted", _K8S_RULE, subject=subject, count=count)
        if found["status"] in ("OOMKilled", "Error", "Evicted", "CrashLoopBackOff"):
            kind = "pod_evicted" if found["status"] == "Evicted" else "process_ended"
            yield state(line, kind, _K8S_RULE, subject=subject, error=found["status"])
        if found["host"] and found["host"] != "<none>":
            yield state(line, "pod_scheduled", _K8S_RULE, subject=subject, detail=found["host"])


_DOCKER = "docker"
# Which service of a compose project a container is of; its log lines begin with that.
_SERVICE = "com.docker.compose.service"


def read_inspection(lines: Iterable[Line]) -> Iterator[Row]:
    """Read `docker inspect` of one container or of many."""
    kept, documents = read_tree(lines)
    for document in documents:
        for container in document.items or [document]:
            name = container.get("Name").lstrip("/") or container.get("Id")[:12]
            facts: Row = {
                "subject": f"container {name}",
                "broker": _broker_of_container(container),
                "detail": container.get("Config", "Labels", _SERVICE) or None,
            }
            count = whole_number(container.get("RestartCount"))
            if count:
                line = kept[container.line_of("RestartCount") - 1]
                yield state(line, "pod_restarted", _DOCKER, count=count, **facts)
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
                line, "process_ended", _DOCKER, at,
                error="OOMKilled" if was_killed else ended.get("Error") or None,
                value=None if is_running else code, **facts,
            )  # fmt: skip


def _broker_of_container(container: Node) -> int | None:
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
        about = {"subject": f"container {facts.get('name', '')}", "detail": facts.get(_SERVICE)}
        if action == "oom":
            yield state(line, "process_ended", _DOCKER, at, error="OOMKilled", **about)
        elif action == "die":
            yield state(line, "process_ended", _DOCKER, at, value=facts.get("exitCode"), **about)
        elif action in ("kill", "stop"):
            yield state(line, "pod_stopped", _DOCKER, at, error=facts.get("signal"), **about)
        elif action.startswith("health_status") and "unhealthy" in action:
            yield state(line, "probe_failed", _DOCKER, at, **about)


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
