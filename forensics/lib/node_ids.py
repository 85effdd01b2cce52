"""Names of brokers as nodes ("broker-2"), their ids in Kafka (2), and names of clients."""

from __future__ import annotations

import re
from collections.abc import Iterable

from forensics.lib.whole_numbers import whole_number

_PREFIX = "broker-"
LARGEST_ID = 2**31 - 1
# librdkafka numbers the instances of a client.
CLIENT_INSTANCE = re.compile(r"#(?:producer|consumer)-\d{1,9}\b")

# Clients that logs name by their file alone.
_FILE_CLIENT = re.compile(r"'file:[^']+'|file:[^\s,:']+")
# Names of files and folders that name no client.
_COMMON_LOGS = frozenset({
    "app", "application", "client", "console", "log", "main", "output", "stderr", "stdout",
})  # fmt: skip
_COMMON_FOLDERS = frozenset({"client", "clients", "log", "logs", "app", "apps", "var", "tmp", ""})


def broker_node(broker: int) -> str:
    """Return the name of a broker's node.

    >>> broker_node(2)
    'broker-2'
    """
    return f"{_PREFIX}{broker}"


def broker_id(node: str | None) -> int | None:
    """Return the id of the broker that a node is; None if it is none, or Kafka knows no such id.

    >>> broker_id("broker-2"), broker_id("controller-2"), broker_id("broker-a"), broker_id(None)
    (2, None, None, None)
    >>> broker_id("broker-2147483648")
    """
    if node is None or not node.startswith(_PREFIX):
        return None
    return whole_number(node.removeprefix(_PREFIX), LARGEST_ID)


def broker_ids(nodes: Iterable[str | None]) -> set[int]:
    """Return the ids of those nodes that are brokers.

    >>> broker_ids(["broker-2", "controller-3"])
    {2}
    """
    return {broker for node in nodes if (broker := broker_id(node)) is not None}


def whole_client(name: str) -> str:
    """Return a client without the number of its instance, which librdkafka writes behind it.

    >>> whole_client("app-rd#producer-1"), whole_client("app-1")
    ('app-rd', 'app-1')
    """
    return CLIENT_INSTANCE.sub("", name)


def client_name(name: str) -> str:
    """Name a client; one that is known by its file alone, by the folder that is its own.

    >>> client_name("app-1"), client_name("file:logs.tgz!logs/app-images/client.log")
    ('app-1', 'app-images')
    >>> client_name("file:logs/producer.log"), client_name("file:logs/app/orders.log")
    ('logs/producer.log', 'app/orders.log')
    >>> client_name("app-rd#producer-1")
    'app-rd'
    """
    if not name.startswith("file:"):
        return whole_client(name)
    parts = name.removeprefix("file:").replace("!", "/").split("/")[-2:]
    is_named_by_folder = len(parts) > 1 and parts[0].lower() not in _COMMON_FOLDERS
    if is_named_by_folder and parts[-1].partition(".")[0].lower() in _COMMON_LOGS:
        return parts[0]
    return "/".join(parts)


def name_clients(text: str) -> str:
    """Name the clients in a text by their folder that are known by their file alone.

    >>> name_clients("file:logs.tgz!app-1/client.log: 9 records were too large")
    'app-1: 9 records were too large'
    >>> name_clients("let 'file:logs.tgz!app-1/client.log' send less")
    'let app-1 send less'
    """
    return _FILE_CLIENT.sub(lambda found: client_name(found[0].strip("'")), text)
