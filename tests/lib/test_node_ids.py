"""A broker's node and its id name each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.lib.node_ids import broker_id, broker_node


@given(st.integers(0, (1 << 31) - 1))
def test_a_node_names_its_id(broker: int) -> None:
    assert broker_id(broker_node(broker)) == broker


@pytest.mark.parametrize(
    "node",
    [None, "", "2", "broker-", "broker--1", "broker-a", "controller-2", "my-broker-2", "broker-²"],
)
def test_no_other_node_has_a_broker_id(node: str | None) -> None:
    assert broker_id(node) is None
