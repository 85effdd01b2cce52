"""Names of brokers as nodes ("broker-2"), their ids in Kafka (2), and names of clients."""

from __future__ import annotations

import re
from collections.abc import Iterable

from forensics.lib.whole_numbers import whole_number

_PREFIX = "broker-"
LARGEST_ID = 2**31 - 1
# librdkafka numbers the instances of a client.
CLIENT_INSTANCE = re.compile(r"#(?:producer|consumer)-\d{1,9}\b")


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
