"""Finds where one file names a lower epoch than before: Kafka only ever counts them up."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

COUNTERS = ("leader_epoch", "partition_epoch")
# A file that was made of two others regresses at nearly every partition; a few are enough.
MAX_KEPT = 50
# Topic, partition, which counter, from, to, and the line, counted from its split.
EpochRegression = tuple[str, int, str, int, int, int]

_KIND = "partition_state"
_COLUMNS = ("topic", "partition", "leader_epoch", "partition_epoch", "line")


class EpochRegressions:
    """Collects the regressions of one piece of a file, whose events come in the order of lines."""

    def __init__(self) -> None:
        self.count = 0
        self.regressions: list[EpochRegression] = []
        self._last: dict[str, pa.RecordBatch] = {}

    def add(self, events: pa.RecordBatch) -> None:
        """Compare the epochs in these events with the last ones of each partition.

        Only news counts, since a node that replays the past may begin at its beginning. The first
        state of a new topic counts, too: no epoch from before is held against what follows it.
        """
        initial = _initial_states(events)
        fresh = pc.fill_null(pc.equal(events["telling"], "fresh"), fill_value=False)
        news = pc.or_(events["telling"].is_null(), pc.and_(fresh, initial))
        news = pc.and_(news, pc.equal(events["kind"], _KIND))
        for name in ("topic", "partition"):
            news = pc.and_(news, events[name].is_valid())
        states = events.select(_COLUMNS)
        for counter in COUNTERS:
            # An initial state may leave out one of its epochs: it is zero.
            filled = pc.if_else(initial, pc.fill_null(states[counter], 0), states[counter])
            states = states.set_column(_COLUMNS.index(counter), counter, filled)
        states = states.filter(news)
        for counter in COUNTERS if len(states) else ():
            self._compare(states.filter(pc.greater_equal(states[counter], 0)), counter)

    def _compare(self, states: pa.RecordBatch, counter: str) -> None:
        if counter in self._last:
            states = pa.concat_batches([self._last[counter], states])
        if not len(states):
            return
        topics = pc.dictionary_encode(states["topic"]).indices.to_numpy(zero_copy_only=False)
        key = topics.astype(np.int64) << 32 | states["partition"].to_numpy(zero_copy_only=False)
        order = np.argsort(key, kind="stable")
        key, value = key[order], states[counter].to_numpy(zero_copy_only=False)[order]
        same = key[1:] == key[:-1]
        fell = np.flatnonzero(same & (value[1:] < value[:-1]))
        if len(fell):
            before, after = (
                states.take(pa.array(order[rows])).to_pylist() for rows in (fell, fell + 1)
            )
            self._keep(counter, zip(before, after, strict=True))
        ends = np.flatnonzero(np.append(~same, True))
        self._last[counter] = states.take(pa.array(order[ends]))

    def _keep(self, counter: str, pairs: Iterable[tuple[dict[str, int], dict[str, int]]]) -> None:
        for before, after in pairs:
            # Both epochs are zero where a topic was created again.
            if after["leader_epoch"] or after["partition_epoch"]:
                self.count += 1
                where = str(after["topic"]), after["partition"], counter
                change = before[counter], after[counter], after["line"]
                self.regressions.append((*where, *change))
        self.regressions = keep_first(self.regressions)


def keep_first(regressions: Iterable[EpochRegression]) -> list[EpochRegression]:
    """Keep the first of some regressions, in the order of lines."""
    return sorted(regressions, key=lambda regression: (regression[5], *regression[:5]))[:MAX_KEPT]


def _initial_states(events: pa.RecordBatch) -> pa.Array:
    """Mark the states in which one epoch is zero, and the other one is zero or missing."""
    values = [events[name] for name in COUNTERS]
    zero = pc.and_(*(pc.equal(pc.fill_null(value, 0), 0) for value in values))
    return pc.and_(zero, pc.or_(*(value.is_valid() for value in values)))
