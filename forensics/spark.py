"""The one place that runs Spark: a session, and a thin method for each wide stage."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from forensics import java
from forensics.archives.planning import Split
from forensics.datasource import KafkaLogs, packed
from forensics.errors import ForensicsError
from forensics.flow import Batches, Reader

__all__ = ["Cluster", "told_plainly"]


@contextmanager
def told_plainly() -> Iterator[None]:
    """Turn what Spark throws, pages long, into its first sentence."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        first = next((line for line in str(error).splitlines() if line.strip()), "no reason given")
        message = f"Spark could not finish: {first.strip()}"
        raise ForensicsError(message) from error


class Cluster:
    """A Spark session and the few things this package asks of it."""

    def __init__(self, master: str | None = None) -> None:
        """Open a session: on `master`, or as spark-submit says, or on this machine."""
        submitted = "PYSPARK_GATEWAY_PORT" in os.environ
        settings = dict(_SETTINGS)
        if not submitted:
            # Before the JVM starts: which Java, and nothing but this machine's own addresses.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={_LOG4J}"
            os.environ.update(java.find(os.environ).environment)
        # Workers would otherwise start PATH's python3, which has none of our packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        builder = SparkSession.builder.appName("kafka-forensics")
        if master or not submitted:
            builder = builder.master(master or "local[*]")
        for key, value in settings.items():
            builder = builder.config(key, value)
        self.session = builder.getOrCreate()
        self.session.sparkContext.setLogLevel("ERROR")
        self.session.dataSource.register(KafkaLogs)

    @property
    def workers(self) -> int:
        """How many tasks can run at once."""
        return int(self.session.sparkContext.defaultParallelism)

    def scan(
        self, splits: Sequence[Split], overlays: str, target: Path, *, context: bool = False
    ) -> None:
        """Read splits by the shipped rules and packs over them; leave events and accounts."""
        reader = self.session.read.format("kafka-logs")
        reader = reader.option("splits", packed(splits)).option("workers", str(self.workers))
        reader = reader.option("rules", overlays).option("context", str(context).lower())
        # Read once and thrown away: quickly written matters more than small.
        written = reader.load().write.mode("overwrite").option("compression", "snappy")
        written.parquet(str(target))

    def each_batch(
        self, source: Path, target: Path, work: Callable[[Batches], Batches], schema: pa.Schema
    ) -> None:
        """Pass a table through a function of batches."""
        table = self.session.read.parquet(str(source))
        result = table.mapInArrow(work, from_arrow_schema(schema))
        result.write.mode("overwrite").options(**_IN_PARTS).parquet(str(target))

    def each_partition(
        self,
        source: Path,
        kinds: Sequence[str],
        columns: Sequence[str],
        work: Callable[[Batches], Batches],
        schema: pa.Schema,
    ) -> DataFrame:
        """Hand the events of some kinds to a function, each partition's together.

        They come in batches, sorted by partition: a group of its own for each would cost more
        than most partitions' few events are worth, and hold a large one whole.
        """
        events = self.session.read.parquet(str(source))
        chosen = events.where(F.col("kind").isin(*kinds) & F.col("partition").isNotNull())
        together = chosen.select(*columns).repartition("topic", "partition")
        ordered = together.sortWithinPartitions("topic", "partition")
        return ordered.mapInArrow(work, from_arrow_schema(schema))

    def together(self, source: Path, readers: Iterable[Reader], schema: pa.Schema) -> DataFrame:
        """Hand events to readers, each of which names its kinds, its columns and its keys."""
        events = self.session.read.parquet(str(source))
        parts = []
        for reader in readers:
            chosen = events.where(F.col("kind").isin(*reader.kinds))
            for key in reader.keys:
                chosen = chosen.where(F.col(key).isNotNull())
            grouped = chosen.select(*reader.columns).repartition(*reader.keys)
            ordered = grouped.sortWithinPartitions(*reader.keys)
            parts.append(ordered.mapInArrow(reader, from_arrow_schema(schema)))
        return reduce(lambda one, other: one.union(other), parts)

    def write(self, table: DataFrame, target: Path) -> None:
        """Write a table that is read once and thrown away."""
        table.write.mode("overwrite").option("compression", "snappy").parquet(str(target))

    def write_sorted(
        self, source: Path, table: str, columns: Sequence[str], order: Sequence[str], target: Path
    ) -> None:
        """Write the rows of one folded table so that the files, by name, hold them in order."""
        folded = self.session.read.parquet(str(source))
        chosen = folded.where(F.col("table") == table).select(*columns)
        by = [F.col(name).asc_nulls_last() for name in order]
        ranged = chosen.repartitionByRange(*by).sortWithinPartitions(*by)
        ranged.write.mode("overwrite").options(**_IN_PARTS).parquet(str(target))

    def each_group(
        self,
        table: DataFrame,
        keys: list[str],
        work: Callable[[pa.Table], pa.Table],
        schema: pa.Schema,
    ) -> pa.Table:
        """Reduce groups of rows to a table small enough to hold here."""
        grouped = table.groupBy(*keys)
        return grouped.applyInArrow(work, from_arrow_schema(schema)).toArrow()

    def stop(self) -> None:
        """End the session."""
        self.session.stop()


_LOG4J = Path(__file__).parent / "assets" / "log4j2.properties"
# Who reads these files holds a group of rows at a time, and needs memory for all of it.
_IN_PARTS = {"parquet.block.size": str(16 << 20)}
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # Off: after each row Spark would weigh the whole batch, and so take most of the time.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    # Tasks of so many bytes: all would hang on the largest where there are as few as cores.
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
    # Microseconds that pyarrow and Spark both read; the default is an old twelve-byte form.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
