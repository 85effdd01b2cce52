"""The processes of controllers that are no brokers, and what the logs show of their ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.history.clocks.model import Clocks
from forensics.history.log_coverage import SERVER_ROLES, span_as_logged
from forensics.history.nodes.broker_states import Span, build_broker_lanes, event_order, evidence_of
from forensics.history.nodes.controller_terms import (
    CONTROLLER_KINDS,
    FOLLOWS,
    LEADS,
    ControllerTerm,
    ControllerTerms,
    DeposedControllers,
    Event,
    TermEvents,
    close_terms,
    find_deposed,
    find_epoch_conflicts,
    find_terms,
)
from forensics.lib.arrow_io import SIGHTING, is_any_of, iter_rows, read_batches, read_events
from forensics.lib.node_ids import broker_node
from forensics.lib.time_units import MILLISECOND, SECOND, to_datetime
from forensics.lib.whole_numbers import whole_number
from forensics.schemas import EVENTS

_QUORUM_KINDS = ("raft_transition", "raft_vote", "raft_election_timed_out")
_LOST = ("peer_disconnected", "peer_request_lost", "fetch_request_failed")
_IN_FLIGHT_MS = 1000
# A fetcher that was stopped itself lost nobody.
_OWN_STOP = "shutdown"
# Of these only those count that name an epoch and its leader.
_NAMING = ("controller_seen", "raft_transition")
# How a controller was lost whose process was gone with it.
_GONE = ("crashed", "paused", "isolated")
# A process that stood still logs again within that, or never.
_WAKES = 600 * SECOND
# Or that show how a voter left its leader, or that one; old versions do not name the state before.
_LEFT = (*LEADS, *FOLLOWS, None)
_FETCH_TIMEOUT = "controller.quorum.fetch.timeout.ms"
_COLUMNS = (*SIGHTING, "text", "rule")

Row = dict[str, Any]
Times = npt.NDArray[np.int64]
_NOWHERE = (np.array([], np.int64), np.array([], np.int32))


def build_process_lanes(
    events: Iterable[Event], nodes: Sequence[str], last_lines: Mapping[tuple[str, int], Event]
) -> dict[str, list[Span]]:
    """Follow the processes of dedicated controllers by their own lines, as those of brokers."""
    ids = {node: index for index, node in enumerate(sorted(nodes))}
    own = [
        {**event, "node_broker": ids[event["node"]], "broker": None}
        for event in events
        if event["node"] in ids and event["kind"].startswith("process_")
    ]
    lanes = build_broker_lanes(own, last_lines)
    return {node: lanes[index] for node, index in ids.items() if index in lanes}


class TableWitnesses:
    """Looks up in the table of events what shows the ends of controllers.

    A quorum may lose its leader thousands of times: the table is read once for all of them.
    """

    def __init__(
        self, events: Path, clocks: Clocks, servers: Sequence[str], ids: Mapping[str, int | None]
    ) -> None:
        """Look into the logs of some brokers and controllers; `ids` are those of controllers."""
        self.events, self.clocks, self.servers = events, clocks, servers
        self._nodes = set(ids)
        self._ids = {number for number in ids.values() if number is not None}

    @cached_property
    def _epochs(self) -> frozenset[int]:
        where = pc.field("kind").isin(_QUORUM_KINDS) & pc.field("controller_epoch").is_valid()
        found: set[int] = set()
        for batch in read_batches(self.events, ["controller_epoch"], where):
            found.update(pc.unique(batch["controller_epoch"]).to_pylist())
        return frozenset(found)

    def epochs_seen(self) -> frozenset[int]:
        """Return the epochs of the quorum that any node names."""
        return self._epochs

    def lost_contact(self, node: str, id_: int | None, begin: int, end: int) -> Event | None:
        """Return the first line, between two moments, of a node whose connection to it broke."""
        spans = {
            other: span_as_logged(self.clocks, other, begin - SECOND, end + SECOND)
            for other in self.servers
            if other != node
        }
        lost, times = self._losses
        if not spans or id_ is None or not len(lost):
            return None
        first = np.searchsorted(times, min(low for low, _ in spans.values()), "right")
        last = np.searchsorted(times, max(high for _, high in spans.values()))
        near = lost.slice(first, max(0, last - first)).filter(pc.field("peer") == id_)
        rows = (
            row
            for row in self._rows(near.to_batches())
            if row["node"] in spans
            and spans[row["node"]][0] < row["ts"] < spans[row["node"]][1]
            and begin <= row["at"] <= end
        )
        return min(rows, key=event_order, default=None)

    @cached_property
    def _losses(self) -> tuple[pa.Table, Times]:
        """The lines of connections to controllers that broke, and their times, in this order."""
        where = pc.field("kind").isin(_LOST) & is_any_of("peer", self._ids)
        # A request that waited for long was lost with a wait, not with the connection.
        waited = pc.field("duration_ms") >= _IN_FLIGHT_MS
        where &= ~pc.coalesce(waited, pc.scalar(False)) & pc.field("ts").is_valid()
        stopped = pc.match_substring(pc.field("detail"), _OWN_STOP)
        where &= ~pc.coalesce(stopped, pc.scalar(False))
        schema = pa.schema([EVENTS.field(name) for name in (*_COLUMNS, "peer")])
        found = pa.Table.from_batches(read_batches(self.events, schema.names, where), schema)
        found = found.sort_by("ts").combine_chunks()
        return found, found["ts"].cast(pa.int64()).to_numpy()

    def lines(self, node: str, begin: int, end: int) -> tuple[Event, Event] | None:
        """Return the first and the last event that a node logged between two moments."""
        times, groups = self._places.get(node, _NOWHERE)
        low, high = span_as_logged(self.clocks, node, begin - SECOND, end + SECOND)
        span = slice(np.searchsorted(times, low, "right"), np.searchsorted(times, high))
        ends = self._ends(node, times[span], begin, end)
        held = np.unique(groups[span][np.isin(times[span], ends)])
        parts = [self._groups[group] for group in held]
        where = (pc.field("node") == node) & is_any_of("ts", map(to_datetime, ends))
        rows = (
            row
            for part in parts
            for row in self._rows(part.to_batches(columns=list(_COLUMNS), filter=where))
        )
        found = sorted((row for row in rows if begin <= row["at"] < end), key=event_order)
        return (found[0], found[-1]) if found else None

    def _ends(self, node: str, times: Times, begin: int, end: int) -> list[int]:
        """Return the first and the last of some times as logged that lie between two moments."""
        model = self.clocks.models.get(node)
        if model is not None and model.steps:
            # Around a step only the lines tell which of them are the ends.
            return [int(at) for at in np.unique(times)]
        found = set()
        for ordered in (times, times[::-1]):
            inside = (at for at in ordered if begin <= self.clocks.correct(node, int(at)) < end)
            found |= {int(at) for at in islice(inside, 1)}
        return sorted(found)

    @cached_property
    def _groups(self) -> Sequence[ds.Fragment]:
        files = ds.dataset(self.events, format="parquet").get_fragments()
        return [group for file in files for group in file.split_by_row_group()]

    @cached_property
    def _places(self) -> Mapping[str, tuple[Times, npt.NDArray[np.int32]]]:
        """For each node that was a controller the times of its events, and in which row group."""
        found: dict[str, list[tuple[Times, int]]] = defaultdict(list)
        where = is_any_of("node", self._nodes) & pc.field("ts").is_valid()
        for number, group in enumerate(self._groups if self._nodes else ()):
            table = group.to_table(columns=["node", "ts"], filter=where)
            for node in pc.unique(table["node"]).to_pylist():
                own = table["ts"].filter(pc.equal(table["node"], node)).cast(pa.int64())
                found[node].append((own.to_numpy(), number))
        places = {}
        for node, parts in found.items():
            times = np.concatenate([own for own, _ in parts])
            groups = np.repeat(
                np.array([number for _, number in parts], np.int32), [len(own) for own, _ in parts]
            )
            order = np.argsort(times, kind="stable")
            places[node] = (times[order], groups[order])
        return places

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
        for row in iter_rows(batches, _COLUMNS):
            yield row | {"at": self.clocks.event_time(row)}


class ControllerHistory:
    """The terms of the controllers of one run, from the table of events."""

    def __init__(
        self,
        events: Path,
        clocks: Clocks,
        roles: Mapping[str, str | None],
        lifecycle: Iterable[Row],
    ) -> None:
        """Read what controllers say; `lifecycle` are events of LIFECYCLE_KINDS."""
        own = (row for row in lifecycle if row["kind"].startswith("process_"))
        self._own = [row | {"at": clocks.event_time(row)} for row in own]
        self._controllers = [node for node, role in roles.items() if role == "controller"]
        starts: dict[str, list[int]] = defaultdict(list)
        for row in self._own:
            if row["kind"] == "process_starting":
                starts[row["node"]].append(row["at"])
        # Those that never led tell their ids as they vote.
        voters: dict[str, int | None] = {}
        rows = _read_controller_events(events, clocks, voters)
        servers = [node for node, role in roles.items() if role in SERVER_ROLES]
        self.terms = find_terms(rows)
        self._ids = voters | {term.node: term.controller for term in self.terms}
        self._witnesses = TableWitnesses(events, clocks, servers, self._ids)
        self._known = TermEvents(
            sorted(rows, key=event_order),
            starts=starts,
            witnesses=self._witnesses,
            fetch_timeout=_read_fetch_timeout(events),
        )
        self._deposed = find_deposed(self.terms, self._known)
        self.void = DeposedControllers.from_terms(self._deposed, clocks)

    def close(
        self, brokers: Mapping[int, Sequence[Span]], last_lines: Mapping[tuple[str, int], Event]
    ) -> tuple[ControllerTerms, dict[str, list[Span]]]:
        """Return how each term ended, and the states of the processes of dedicated controllers."""
        own = build_process_lanes(self._own, self._controllers, last_lines)
        lanes = {node: self._date_crashes(node, self._ids.get(node), own[node]) for node in own}
        processes = {broker_node(broker): spans for broker, spans in brokers.items()}
        known = replace(self._known, processes={**processes, **lanes})
        closed = close_terms(self.terms, known, self._deposed)
        for term in closed:
            if term.node in lanes and term.how in _GONE:
                lanes[term.node] = self._insert_loss(term, lanes[term.node])
        conflicts = find_epoch_conflicts(known.events)
        return ControllerTerms(closed, conflicts, known.vain_returns), lanes

    def _date_crashes(self, node: str, id_: int | None, spans: Sequence[Span]) -> list[Span]:
        """Let a crash begin where others lost the process, not at its own last line."""
        lane: list[Span] = []
        for span in spans:
            end = span.begin if span.end is None else span.end
            line = (
                self._witnesses.lost_contact(node, id_, span.begin, end)
                if span.state == "crashed"
                else None
            )
            if line is None or not lane:
                lane.append(span)
                continue
            lane[-1] = replace(lane[-1], end=line["at"])
            bracket, evidence = (span.begin, line["at"]), [evidence_of(line), *span.evidence]
            dated = replace(span, begin=line["at"], evidence=evidence, begin_bracket=bracket)
            lane.append(dated)
        return lane

    def _insert_loss(self, term: ControllerTerm, spans: Sequence[Span]) -> list[Span]:
        """Put the time in which a controller was gone into the lane of its process, if it is up."""
        begin = term.span.end or term.span.begin
        at = next((i for i, span in enumerate(spans) if _is_up_at(span, begin)), None)
        if at is None or term.how is None:
            return list(spans)
        up, end = spans[at], None
        if term.how != "crashed":
            held = (one.span.end for one in self._deposed if one.span.epoch == term.span.epoch)
            later = self._witnesses.lines(term.node, begin, begin + _WAKES)
            end = next(held, later[0]["at"] if later is not None else None)
        gone = Span(term.how, begin, end, list(term.span.evidence[1:]))
        back = [replace(up, begin=end)] if end is not None and (up.end or end + 1) > end else []
        return [*spans[:at], replace(up, end=begin), gone, *back, *spans[at + 1 :]]


def _is_up_at(span: Span, moment: int) -> bool:
    return span.state == "up" and span.begin < moment and (span.end is None or moment < span.end)


def _read_controller_events(
    events: Path, clocks: Clocks, voters: dict[str, int | None]
) -> list[Row]:
    columns = [*_COLUMNS, "broker", "controller", "controller_epoch", "from_state", "to_state"]
    rows = []
    for row in read_events(events, CONTROLLER_KINDS, [*columns, "duration_ms"]):
        if row["kind"] == "raft_transition":
            voters[row["node"]] = row["broker"]
        # Every broker names the controller without an epoch at every connection: little proof.
        if (
            row["kind"] not in _NAMING
            or None not in (row["controller_epoch"], row["controller"])
            or (row["kind"] == "raft_transition" and row["from_state"] in _LEFT)
        ):
            rows.append(row | {"at": clocks.event_time(row)})
    return rows


def _read_fetch_timeout(events: Path) -> int:
    where = pc.field("setting") == _FETCH_TIMEOUT
    rows = read_events(events, ["setting_seen"], [*SIGHTING, "value"], where)
    values = {value for row in rows if (value := whole_number(row["value"]))}
    return min(values) * MILLISECOND if values else 2 * SECOND
