"""Clusters that no id tells apart contradict each other; one cluster never does."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forensics.errors import ForensicsError
from forensics.history.mixed_clusters import (
    find_clusters,
    find_strangers,
    refuse_contradictions,
    refuse_strangers,
)
from forensics.lib.time_units import SECOND
from forensics.schemas import EVENTS

Row = dict[str, Any]


def says(place: str, second: int, partition: int, epoch: int, leader: int, **more: Any) -> Row:
    folder, _, node = place.rpartition("/")
    return {
        "kind": "partition_state", "ts": second * SECOND, "node": node,
        "file": f"{folder}/{node}/server.log", "line": second, "topic": "orders",
        "partition": partition, "leader_epoch": epoch, "leader": leader,
    } | more  # fmt: skip


def cluster(name: str, first: int, begin: int = 0, brokers: Iterable[int] = (1, 2, 3)) -> list[Row]:
    """What brokers say of six partitions in three epochs, of which `first` leads the first."""
    return [
        says(f"{name}/broker-{broker}", begin + 10 * epoch + broker, partition, epoch, leader)
        for epoch in range(3)
        for partition in range(6)
        for broker in brokers
        for leader in [(first + partition + epoch) % 3 + 1]
    ]


def events_of(rows: Iterable[Row], tmp_path: Path) -> Path:
    folder = tmp_path / "events"
    folder.mkdir()
    half = list(rows)
    for number, part in enumerate((half[::2], half[1::2])):
        pq.write_table(pa.Table.from_pylist(part, schema=EVENTS), folder / f"part-{number}.parquet")
    return folder


def sides(rows: Iterable[Row], tmp_path: Path) -> list[set[str]]:
    found = find_clusters(events_of(rows, tmp_path))
    return [] if found is None else [{file for file, _ in group} for group in found[0]]


@pytest.mark.parametrize("clusters", [2, 3])
def test_clusters_that_run_at_once_are_told_apart(clusters: int, tmp_path: Path) -> None:
    rows = [row for number in range(clusters) for row in cluster(f"c{number}", number, 3 * number)]

    assert sides(rows, tmp_path) == [
        {f"c{number}/broker-{broker}/server.log" for broker in (1, 2, 3)}
        for number in range(clusters)
    ]


def test_controllers_that_lead_the_same_epochs_are_of_two_clusters(tmp_path: Path) -> None:
    none = {"topic": None, "partition": None, "leader": None, "leader_epoch": None}
    rows = [
        says(f"{name}/controller-{node}", 10 * epoch + node, 0, 0, 0, kind="controller_elected",
             controller=node, controller_epoch=epoch) | none
        for epoch in range(4)
        for name, node in (("east", 1), ("west", 2))
    ]  # fmt: skip

    # One epoch of the quorum is one partition's: it does not prove it alone.
    assert sides(rows, tmp_path) == []
    (tmp_path / "both").mkdir()
    more = [says("east/controller-1", 15, 0, 0, 1), says("east/controller-1", 25, 0, 1, 2)]
    more += [says("west/controller-2", 16, 0, 0, 2), says("west/controller-2", 26, 0, 1, 1)]
    assert len(sides([*rows, *more], tmp_path / "both")) == 2


def test_one_cluster_contradicts_nothing(tmp_path: Path) -> None:
    assert sides(cluster("c", 0), tmp_path) == []


def test_a_topic_that_is_created_again_is_no_second_cluster(tmp_path: Path) -> None:
    rows = cluster("c/old", 0) + cluster("c/new", 1, begin=100)

    assert sides(rows, tmp_path) == []


def test_files_that_contradict_themselves_prove_nothing(tmp_path: Path) -> None:
    rows = cluster("c", 0) + cluster("c", 1, begin=5)

    assert sides(rows, tmp_path) == []


def test_a_file_that_says_now_the_one_and_now_the_other_has_lines_of_several_clusters(
    tmp_path: Path,
) -> None:
    twice = [cluster("all", first, begin) for first, begin in ((0, 0), (1, 5), (0, 100), (1, 105))]
    rows = [row | {"file": "all.log"} for part in twice for row in part]

    with pytest.raises(ForensicsError, match=r"^all\.log has lines of several clusters that no id"):
        refuse_contradictions(["all.log"], events_of(rows, tmp_path))


def test_lines_that_are_misread_are_no_second_cluster(tmp_path: Path) -> None:
    rows = cluster("c", 0) + [row | {"topic": "other"} for row in cluster("c", 0)]
    for row in rows[:9:3]:
        row["leader"] = 9

    assert sides(rows, tmp_path) == []


def test_the_refusal_says_whose_files_are_whose_and_quotes_a_contradiction(tmp_path: Path) -> None:
    events = events_of(cluster("east", 0) + cluster("west", 1, begin=3), tmp_path)
    files = [f"{name}/broker-{n}/{log}.log" for name in ("east", "west") for n in (1, 2, 3)
             for log in ("server", "gc")]  # fmt: skip

    with pytest.raises(ForensicsError) as error:
        refuse_contradictions([*files, "app/client.log"], events)

    assert str(error.value) == (
        "These are logs of 2 clusters that no id tells apart. They contradict each other in 18"
        " epochs: in epoch 0 the leader of orders-0 is 1 (east/broker-1/server.log:1) and 2"
        " (west/broker-1/server.log:4). Their files: 6 files in east; 6 files in west. Nothing"
        " tells whose these are: 1 file in app. Run the command once for each cluster, with its"
        " files alone, or with --cluster any to read them as one, whose history is not to be"
        " trusted."
    )


def with_topics(name: str, *topics: str, begin: int = 0) -> list[Row]:
    """What the brokers of a cluster say of some topics, for two minutes."""
    rows = cluster(name, 0, begin=begin)
    for number, row in enumerate(rows):
        row["topic"], row["rule"] = topics[row["partition"] % len(topics)], "broker.leader"
        row["ts"] = (begin + 10 * number) * SECOND
    return rows


EAST, WEST = ("orders", "payments", "users"), ("clicks", "views", "images")


@pytest.mark.parametrize("more", [(), ("__consumer_offsets",)])
def test_a_node_that_is_two_processes_is_of_two_clusters(
    more: tuple[str, ...], tmp_path: Path
) -> None:
    events = events_of(
        with_topics("east", *EAST, *more) + with_topics("west", *WEST, *more), tmp_path
    )

    with pytest.raises(ForensicsError) as error:
        refuse_strangers(events)

    said = str(error.value)
    assert "broker-1, broker-2, broker-3 wrote at the same time in east of" in said
    assert "and in west of clicks and more, and no topic of the one is named in the other" in said


def test_nodes_whose_topics_are_others_at_another_time_may_be_of_another_cluster(
    tmp_path: Path,
) -> None:
    events = events_of(
        with_topics("east", *EAST) + with_topics("west", *WEST, begin=9999), tmp_path
    )

    found = refuse_strangers(events)

    assert found is not None
    assert not found.at_once
    assert [min(folders) for folders in found.folders] == ["east/broker-1", "west/broker-1"]


def test_logs_of_one_cluster_have_topics_in_common(tmp_path: Path) -> None:
    old = with_topics("old", *EAST, "clicks", begin=-9999)
    assert find_strangers(events_of(old + with_topics("new", *WEST, "users"), tmp_path)) is None


@pytest.mark.parametrize("why", ["other rules", "few topics", "one folder a node"])
def test_a_log_in_parts_is_of_one_cluster(why: str, tmp_path: Path) -> None:
    """Lines may be sorted into files by their kind."""
    one, other = with_topics("a", *EAST), with_topics("b", *WEST[: 2 if "few" in why else 3])
    for row in other:
        row["rule"] = "controller.leader" if "rules" in why else row["rule"]
    if why == "other rules":
        one, other = ([row for row in rows if row["node"] == "broker-1"] for rows in (one, other))
    if why == "one folder a node":
        other = [row for row in other if row["node"] == "broker-2"]
        one = [row for row in one if row["node"] != "broker-2"]

    assert find_strangers(events_of(one + other, tmp_path)) is None
