"""Splits add up to files, files that are the same count once, and every file gets its process."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from forensics.events.file_accounts import (
    FileAccount,
    assign_nodes,
    make_event_finalizer,
    sum_accounts,
)
from forensics.events.repeated_lines import mark_duplicates
from forensics.events.scan import STAGED_SCHEMA
from forensics.schemas import EVENTS

SECOND = 1_000_000


def row(file: str, split: int, lines: int = 0, **more: Any) -> dict[str, Any]:
    counts = {"bytes": 10 * lines, "lines": lines, "records": lines}
    rest = ("continuation_lines", "blank_lines", "unparsed_lines", "events")
    account: dict[str, Any] = (
        counts | dict.fromkeys(rest, 0) | {"layouts": {"apache": lines}, "writers": {}}
    )
    account |= {"notes": [], "broken": False, "first": None, "last": None} | more
    return {"file": file, "split": split, "account": account}


def account(file: str, sha256: str | None = None, **writers: int) -> FileAccount:
    one = FileAccount(file, sha256=sha256)
    one.counts.update(bytes=10, lines=2, records=2)
    one.writers.update({name.replace("_", ":"): count for name, count in writers.items()})
    return one


def named(*files: FileAccount) -> dict[str, tuple[str | None, str | None]]:
    accounts = {one.file: one for one in files}
    assign_nodes(accounts)
    return {name: (one.node, one.role) for name, one in accounts.items()}


def staged(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=STAGED_SCHEMA)


def test_line_numbers_of_a_split_begin_after_the_splits_before_it() -> None:
    rows = [row("a", 2, 5), row("a", 0, 3), row("b", 0, 9), row("a", 1, 4)]

    files = sum_accounts(rows)

    assert files["a"].bases == {0: 0, 1: 3, 2: 7}
    assert files["b"].bases == {0: 0}
    assert (files["a"].counts["lines"], files["a"].counts["bytes"]) == (12, 120)
    assert files["a"].layouts == {"apache": 12}


def test_a_digest_is_no_split() -> None:
    files = sum_accounts([row("a", 0, 3), {"file": "a", "split": -1, "account": {"sha256": "d1"}}])

    assert files["a"].sha256 == "d1"
    assert files["a"].bases == {0: 0}


def test_a_file_begins_with_its_first_known_time_and_ends_with_its_last() -> None:
    rows = [
        row("a", 0, 1),
        row("a", 1, 1, first=2 * SECOND, last=3 * SECOND),
        row("a", 2, 1, first=4 * SECOND, last=5 * SECOND),
        row("a", 3, 1),
    ]

    told = sum_accounts(rows)["a"].to_row()

    assert told["first_ts"] == datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)
    assert told["last_ts"] == datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)


def test_what_is_damaged_is_said_once() -> None:
    rows = [row("a", 0, 1, notes=["cut off"], broken=True), row("a", 1, 1, notes=["cut off"])]

    files = sum_accounts(rows)

    assert files["a"].to_row()["damaged"] == "cut off"
    assert files["a"].broken


@pytest.mark.parametrize(
    ("layout", "records", "events", "said"),
    [("record", 20, 0, True), ("record", 19, 0, False), ("record", 20, 1, False),
     ("apache", 20, 0, False)],
)  # fmt: skip
def test_records_of_a_found_layout_that_no_rule_knows_are_told(
    layout: str, records: int, events: int, said: bool
) -> None:
    told = row("app.log", 0, records, layouts={layout: records}, events=events)
    file = sum_accounts([told])["app.log"]
    file.counts["records"] = records

    assert ("no rule knows any of its 20 records" in (file.to_row()["damaged"] or "")) == said


def test_a_part_without_records_of_a_file_whose_layout_was_found_has_a_row() -> None:
    whole = account("export.sql")
    whole.layouts.update({"record": 2})

    row_of_part = whole.new_part("broker-2", "broker").to_row()

    assert (row_of_part["records"], row_of_part["damaged"]) == (0, None)


def test_only_one_of_the_files_with_the_same_content_counts() -> None:
    files = {name: account(name, "same") for name in ("b/server.log", "a/server.log")}
    files["c/server.log"] = account("c/server.log", "other")
    files["d/empty.log"] = FileAccount("d/empty.log", sha256="nothing")
    files["e/empty.log"] = FileAccount("e/empty.log", sha256="nothing")
    files["f/unread.log"] = account("f/unread.log")
    files["g/unread.log"] = account("g/unread.log")

    mark_duplicates(files)

    copies = {name: one.duplicate_of for name, one in files.items() if one.duplicate_of}
    assert copies == {"b/server.log": "a/server.log"}
    told = files["b/server.log"].to_row()
    assert (told["lines"], told["duplicate_lines"], told["records"]) == (2, 2, 0)


def test_a_broker_is_named_by_its_id_wherever_its_file_lies() -> None:
    assert named(account("x/odd-name.log", broker_7=3, client_admin=40)) == {
        "x/odd-name.log": ("broker-7", "broker")
    }


def test_an_id_that_is_hardly_ever_named_beside_another_is_no_second_node() -> None:
    assert named(account("x/server.log", broker_7=3, broker_12=3000))["x/server.log"] == (
        "broker-12",
        "broker",
    )


def test_broker_and_controller_with_one_folder_and_one_id_are_one_node() -> None:
    files = named(
        account("n1/server.log", broker_1=5), account("n1/controller.log", controller_1=9)
    )

    assert set(files.values()) == {("broker-1", "broker")}


def test_broker_and_controller_with_other_ids_in_one_folder_stay_two() -> None:
    files = named(account("n/server.log", broker_1=5), account("n/controller.log", controller_9=9))

    assert files == {
        "n/server.log": ("broker-1", "broker"),
        "n/controller.log": ("controller-9", "controller"),
    }


def test_a_controller_is_named_by_a_folder_of_its_own() -> None:
    assert named(account("logs/controller-1/server.log", controller_3001=9)) == {
        "logs/controller-1/server.log": ("controller-1", "controller")
    }


def test_a_client_is_named_by_its_folder_since_clients_may_share_an_id() -> None:
    files = named(
        account("logs/app-a/client.log", client_producer=2),
        account("logs/app-b/client.log", client_producer=2),
    )

    assert {node for node, _ in files.values()} == {"app-a", "app-b"}


def test_a_folder_called_logs_names_no_client() -> None:
    """Each host has one; its clients are others."""
    files = named(
        account("hosts/app-a/logs/client.log", client_producer=2),
        account("hosts/app-b/logs/client.log", client_producer=2),
    )

    assert {node for node, _ in files.values()} == {"app-a", "app-b"}


POD = "b.tgz!space/pods/{pod}/app/app/logs/current.log"


@pytest.mark.parametrize(
    ("ids", "lasts", "head", "expected"),
    [
        # other ids, or one id in two processes at once
        (("client_x", "client_y"), (20, 20), {}, ["shop-1", "shop-2"]),
        (("client_x", "client_x"), (20, 20), {}, ["shop-1", "shop-2"]),
        # one id, at one time after the other, or a copy: nobody knows, and one client is enough
        (("client_x", "client_x"), (9, 20), {}, ["app", "app"]),
        (("client_x", "client_x"), (20, 20), {"512": "d1"}, ["app", "app"]),
    ],
)
def test_clients_in_folders_of_one_name_are_named_by_their_pods(
    ids: tuple[str, str], lasts: tuple[int, int], head: dict[str, str], expected: list[str]
) -> None:
    files = []
    for number, (writer, last) in enumerate(zip(ids, lasts, strict=True), 1):
        file = account(POD.format(pod=f"shop-{number}"), None, **{writer: 5})
        file.first, file.last, file.heads = 10 * number - 9, last, dict(head)
        files.append(file)

    assert expected == [node for node, _ in named(*files).values()]


def test_a_client_at_the_top_of_an_archive_is_named_by_its_id() -> None:
    assert named(account("logs/client.log", client_orders=2)) == {
        "logs/client.log": ("orders", "client")
    }


def test_a_file_that_names_nobody_belongs_to_the_one_process_of_its_folder() -> None:
    files = named(
        account("n/server.log", broker_4=5),
        account("n/log-cleaner.log"),
        account("m/server.log", broker_5=5),
        account("m/other.log", broker_6=5),
        account("m/log-cleaner.log"),
    )

    assert files["n/log-cleaner.log"] == ("broker-4", "broker")
    assert files["m/log-cleaner.log"] == ("file:m/log-cleaner.log", None)


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("logs/broker-03/server.log", ("broker-3", "broker")),
        ("a.zip!kafka_2/server.log", ("broker-2", "broker")),
        ("logs/controller.9.log", ("controller-9", "controller")),
        ("logs/server.log", ("file:logs/server.log", None)),
    ],
)
def test_at_last_the_name_of_a_file_says_whose_it_is(
    file: str, expected: tuple[str, str | None]
) -> None:
    assert named(account(file)) == {file: expected}


def test_settled_events_have_the_lines_of_the_whole_file_and_a_node() -> None:
    files = sum_accounts([row("a", 0, 3), row("a", 1, 4)])
    files["a"].node = "broker-1"
    batch = staged(
        {"file": "a", "split": 0, "kind": "k", "line": 2},
        {"file": "a", "split": 1, "kind": "k", "line": 2},
        {"file": "a", "split": 1, "account": "{}"},
    )

    (settled,) = make_event_finalizer(files)([batch])

    assert settled.schema.equals(EVENTS)
    assert settled["line"].to_pylist() == [2, 5]
    assert settled["node"].to_pylist() == ["broker-1", "broker-1"]


def test_the_events_of_a_copy_are_left_out() -> None:
    files = sum_accounts([row("a", 0, 3, sha256="x"), row("b", 0, 3, sha256="x")])
    mark_duplicates(files)
    batch = staged(
        {"file": "a", "split": 0, "kind": "k", "line": 1},
        {"file": "b", "split": 0, "kind": "k", "line": 1},
    )

    (settled,) = make_event_finalizer(files)([batch])

    assert settled["file"].to_pylist() == ["a"]


def test_a_client_has_the_same_name_whether_its_folder_is_packed_or_not() -> None:
    plain = named(account("logs/app-a/client.log", client_x=2), account("logs/app-b/a.log"))
    packed = named(
        account("logs/app-a.tar.gz!client.log", client_x=2), account("logs/app-b.zip!a.log")
    )
    nested = named(
        account("all.tgz!logs/app-a.tar.gz!client.log", client_x=2),
        account("all.tgz!logs/app-b.zip!a.log"),
    )

    names = [next(iter(found.values())) for found in (plain, packed, nested)]
    assert names == [("app-a", "client")] * 3


def test_files_at_the_top_of_a_brokers_archive_are_that_brokers() -> None:
    files = named(
        account("logs/one.tar.gz!server.log", broker_1=5),
        account("logs/one.tar.gz!kafkaServer-gc.log"),
        account("logs/two.tar.gz!server.log", broker_2=5),
        account("logs/two.tar.gz!kafkaServer-gc.log"),
    )

    assert files["logs/one.tar.gz!kafkaServer-gc.log"] == ("broker-1", "broker")
    assert files["logs/two.tar.gz!kafkaServer-gc.log"] == ("broker-2", "broker")


def test_an_older_copy_that_names_nobody_is_the_node_whose_file_begins_like_it() -> None:
    longer, copy, other = account("a/x.log", broker_1=5), account("old/x.log"), account("b/y.log")
    longer.heads = {"256": "d1", "512": "d2", "1024": "d3"}
    copy.heads, other.heads = {"256": "d1", "512": "d2"}, {"256": "d1", "512": "e2"}

    files = named(longer, copy, other)

    assert files["old/x.log"] == ("broker-1", "broker")
    assert files["b/y.log"] == ("file:b/y.log", None)
