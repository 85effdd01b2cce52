"""Where one file tells of a lower epoch than it told of before: Kafka only ever counts them up."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

COUNTERS = ("leader_epoch", "partition_epoch")
# A file that was put together from two falls at nearly every partition; a few tell enough.
MAX_KEPT = 50
# Topic, partition, which counter, from, to, and the line, counted from its split.
EpochRegression = tuple[str, int, str, int, int, int]

_KIND = "partition_state"
_READ = ("topic", "partition", "leader_epoch", "partition_epoch", "line")


class EpochRegressions:
    """Takes the events of one piece of a file, batch by batch, in the order of its lines."""

    def __init__(self) -> None:
        """Begin with nothing told."""
        self.count = 0
        self.regressions: list[EpochRegression] = []
        self._last: dict[str, pa.RecordBatch] = {}

    def add(self, events: pa.RecordBatch) -> None:
        """Compare what these events say of each partition with what was said before.

        Only news counts, since who re-tells the past may begin at its beginning, and the first
        state of a new topic: nothing from before is held against what comes after that.
        """
        young = _initial_states(events)
        fresh = pc.fill_null(pc.equal(events["telling"], "fresh"), fill_value=False)
        news = pc.or_(events["telling"].is_null(), pc.and_(fresh, young))
        news = pc.and_(news, pc.equal(events["kind"], _KIND))
        for name in ("topic", "partition"):
            news = pc.and_(news, events[name].is_valid())
        told = events.select(_READ)
        for counter in COUNTERS:
            # What a first state does not say is no more than what it says.
            first = pc.if_else(young, pc.fill_null(told[counter], 0), told[counter])
            told = told.set_column(_READ.index(counter), counter, first)
        told = told.filter(news)
        for counter in COUNTERS if len(told) else ():
            self._compare(told.filter(pc.greater_equal(told[counter], 0)), counter)

    def _compare(self, told: pa.RecordBatch, counter: str) -> None:
        if counter in self._last:
            told = pa.concat_batches([self._last[counter], told])
        if not len(told):
            return
        topics = pc.dictionary_encode(told["topic"]).indices.to_numpy(zero_copy_only=False)
        key = topics.astype(np.int64) << 32 | told["partition"].to_numpy(zero_copy_only=False)
        order = np.argsort(key, kind="stable")
        key, value = key[order], told[counter].to_numpy(zero_copy_only=False)[order]
        same = key[1:] == key[:-1]
        fell = np.flatnonzero(same & (value[1:] < value[:-1]))
        if len(fell):
            before, after = (told.take(pa.array(order[at])).to_pylist() for at in (fell, fell + 1))
            self._keep(counter, zip(before, after, strict=True))
        ends = np.flatnonzero(np.append(~same, True))
        self._last[counter] = told.take(pa.array(order[ends]))

    def _keep(self, counter: str, pairs: Iterable[tuple[dict[str, int], dict[str, int]]]) -> None:
        for before, after in pairs:
            if _is_initial(after):
                continue
            self.count += 1
            where = str(after["topic"]), after["partition"], counter
            self.regressions.append((*where, before[counter], after[counter], after["line"]))
        self.regressions = keep_first(self.regressions)


def keep_first(falls: Iterable[EpochRegression]) -> list[EpochRegression]:
    """Keep the first of some falls, in the order of lines."""
    return sorted(falls, key=lambda one: (one[5], *one[:5]))[:MAX_KEPT]


def _initial_states(events: pa.RecordBatch) -> pa.Array:
    """Mark the states in which one epoch is zero, and the other one, too, or not told."""
    values = [events[name] for name in COUNTERS]
    zero = pc.and_(*(pc.equal(pc.fill_null(value, 0), 0) for value in values))
    return pc.and_(zero, pc.or_(*(value.is_valid() for value in values)))


def _is_initial(state: dict[str, int]) -> bool:
    """Whether a state is the very first of a topic that was created again."""
    return not state["leader_epoch"] and not state["partition_epoch"]
