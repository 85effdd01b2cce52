"""When a broker that was away had all its replicas in sync again: redundancy was back only then."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, once_per_run
from forensics.history.nodes.broker_states import Absence
from forensics.lib.time_units import SECOND, to_iso

# Others drop a broker that is away from the ISR within replica.lag.time.max.ms.
_DROPPED = 45 * SECOND
_EARLY = SECOND
_COLUMNS = ("topic", "partition", "isr", "started_at")
_OPEN = 1 << 62
Flags = npt.NDArray[np.bool_]


def in_sync_again(context: DetectionContext, absence: Absence) -> int | None:
    """Return when all replicas that left an ISR by an absence were back; None if not all were."""
    return _returns(context).get((absence.broker, absence.begin))


def say_in_sync_again(context: DetectionContext, absence: Absence) -> str:
    """Return the sentence that says when redundancy was back; nothing if no line tells."""
    at = in_sync_again(context, absence)
    return "" if at is None else f" All its replicas were in sync again at {to_iso(at)[11:19]}."


@once_per_run
def _returns(context: DetectionContext) -> dict[tuple[int, int], int]:
    """Follow the brokers that were away through tables/isr, in one pass."""
    by_broker: dict[int, list[Absence]] = defaultdict(list)
    for absence in sorted(context.absences, key=lambda one: one.begin):
        by_broker[absence.broker].append(absence)
    left: dict[tuple[int, int], int] = defaultdict(int)
    back: dict[tuple[int, int], int] = defaultdict(int)
    last: dict[tuple[int, int], int] = {}
    before: pa.RecordBatch | None = None
    where = pc.field("isr").is_valid() & pc.field("started_at").is_valid()
    for batch in context.batches("isr", where, _COLUMNS) if by_broker else ():
        # The last row of the batch before comes first, so that no step is missed.
        rows = batch if before is None else pa.Table.from_batches([before, batch])
        table = pa.table({name: rows[name] for name in _COLUMNS}).combine_chunks()
        before = batch.slice(len(batch) - 1)
        same = _same_partition(table)
        times = table["started_at"].cast(pa.int64()).to_numpy()[1:]
        for broker, absences in by_broker.items():
            member = _is_member(table, broker)
            gone = times[same & member[:-1] & ~member[1:]]
            come = times[same & ~member[:-1] & member[1:]]
            for absence, after in zip(absences, [*absences[1:], None], strict=True):
                key, end = (broker, absence.begin), absence.end
                if end is None:
                    continue
                left[key] += int(_count(gone, absence.begin - _EARLY, end + _DROPPED))
                until = after.begin if after is not None else _OPEN
                returned = come[(come >= absence.begin) & (come < until)]
                if len(returned):
                    back[key] += len(returned)
                    last[key] = max(last.get(key, 0), int(returned.max()))
    return {key: at for key, at in last.items() if back[key] >= left[key] > 0}


def _same_partition(table: pa.Table) -> Flags:
    """Return for each row but the first whether it is of the same partition as the one before."""
    topics = table["topic"].combine_chunks().dictionary_encode().indices.to_numpy()
    numbers = table["partition"].to_numpy()
    same: Flags = (topics[1:] == topics[:-1]) & (numbers[1:] == numbers[:-1])
    return same


def _is_member(table: pa.Table, broker: int) -> Flags:
    isr = table["isr"].combine_chunks()
    rows = pc.list_parent_indices(isr).to_numpy()
    flags = np.zeros(len(isr), dtype=bool)
    flags[rows[isr.flatten().to_numpy() == broker]] = True
    return flags


def _count(times: npt.NDArray[np.int64], begin: int, end: int) -> int:
    return int(((times >= begin) & (times <= end)).sum())
