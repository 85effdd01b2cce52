"""What the user says of who wrote a file goes before all that lines and names say."""

from __future__ import annotations

from collections import Counter

import pytest

from forensics.errors import ForensicsError
from forensics.events.file_accounts import FileAccount, assign_nodes
from forensics.events.node_map import find_unused, parse_node_map


def shared(file: str) -> FileAccount:
    account = FileAccount(file, writers=Counter({"broker:1": 5, "broker:2": 5}))
    for origin in ("kafka-0/kafka", "kafka-1/kafka"):
        account.origins[origin] = FileAccount(file, first=1, last=2)
    return account


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("logs.tgz!host-7/server.log", True),
        ("host-7/*", True),
        ("server.log", True),
        ("*host-7*", True),
        ("host-?/server.log", True),
        ("er.log", False),
        ("host-8/*", False),
        ("host-7", False),
    ],
)
def test_a_pattern_fits_a_whole_name_or_what_follows_a_folder(pattern: str, fits: bool) -> None:
    files = {"logs.tgz!host-7/server.log": FileAccount("logs.tgz!host-7/server.log")}
    node_map = parse_node_map([f"{pattern}=broker-3"])

    assign_nodes(files, node_map)

    node = files["logs.tgz!host-7/server.log"].node
    assert (node == "broker-3") is fits
    assert find_unused([("logs.tgz!host-7/server.log", ())], node_map) == [pattern] * (not fits)


def test_what_is_said_of_a_file_goes_before_its_lines() -> None:
    files = {"all.log": shared("all.log")}

    assign_nodes(files, parse_node_map(["all.log=app-orders"]))

    assert (files["all.log"].node, files["all.log"].role) == ("app-orders", "client")
    assert not files["all.log"].parts


def test_an_origin_is_mapped_by_its_pod() -> None:
    files = {"all.log": shared("all.log")}

    assign_nodes(files, parse_node_map(["kafka-0=broker-7", "kafka-1*=controller-3"]))

    parts = {part.node: part.role for part in files["all.log"].parts}
    assert parts == {"broker-7": "broker", "controller-3": "controller"}


@pytest.mark.parametrize("text", ["broker-3", "=broker-3", "x=", "x=broker-three", "x=a b"])
def test_what_is_no_map_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ForensicsError, match="--map"):
        parse_node_map([text])
