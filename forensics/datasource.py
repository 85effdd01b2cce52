"""The Spark data source `kafka-logs`: hands splits to the scanner, and its batches to Spark."""

from __future__ import annotations

import dataclasses
import json
import socket
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from forensics.archives.planning import Split, tasks
from forensics.errors import ArchiveError
from forensics.meter import Meter
from forensics.places import shown
from forensics.scan import STAGED, scanner

__all__ = ["KafkaLogs", "packed"]


def packed(splits: Sequence[Split]) -> str:
    """Write splits as an option, which Spark can only carry as text."""
    return json.dumps([dataclasses.astuple(split) for split in splits])


class _Task(InputPartition):
    def __init__(self, number: int, splits: tuple[Split, ...]) -> None:
        self.number = number
        self.splits = splits


class KafkaLogs(DataSource):
    """Reads the splits named by its option `splits`, in `workers` tasks or more.

    Its option `rules` holds the packs that lie over the shipped rules; `context` is "true" where
    the events that only give context are wanted, and `meter` is where tasks say how far they are.
    """

    @classmethod
    def name(cls) -> str:
        """Give the name that `spark.read.format` takes."""
        return "kafka-logs"

    def schema(self) -> StructType:
        """Give the columns of a scan."""
        return from_arrow_schema(STAGED)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        """Give the reader of the splits."""
        splits = [Split(*row) for row in json.loads(self.options["splits"])]
        bundles = tasks(splits, int(self.options.get("workers", "1")))
        context = self.options.get("context") == "true"
        meter = self.options.get("meter", "")
        return _Reader(bundles, self.options.get("rules", ""), meter, context=context)


class _Reader(DataSourceReader):
    def __init__(
        self, bundles: list[tuple[Split, ...]], overlays: str, meter: str, *, context: bool
    ) -> None:
        self._bundles = bundles
        self._overlays = overlays
        self._meter = meter
        self._context = context

    def partitions(self) -> Sequence[InputPartition]:
        return [_Task(number, bundle) for number, bundle in enumerate(self._bundles)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Task)
        meter = Meter(self._meter, partition.number)
        for split in partition.splits:
            try:
                yield from scanner(self._overlays, context=self._context).scan(split, meter)
            except FileNotFoundError as error:
                message = (
                    f"{shown(split.path)} is not there on {socket.gethostname()}. Archives must"
                    " lie where the driver and all executors see the same files."
                )
                raise ArchiveError(message) from error
            meter.settle(split.bytes)
