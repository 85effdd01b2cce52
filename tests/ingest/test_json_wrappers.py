"""What stands before a line in JSON, and what the line itself says of where it comes from."""

from __future__ import annotations

import pyarrow as pa
import pytest

from forensics.ingest import json_wrappers


@pytest.mark.parametrize(
    ("before", "joined"),
    [
        (None, [b"pod-1", b""]),
        ([b"web-1", b"web-2"], [b"web-1 pod-1", b"web-2"]),
        ([b"\xff\xfe1", b""], [b"\xff\xfe1 pod-1", b""]),
    ],
)
def test_origins_are_joined_whatever_their_bytes_are(
    before: list[bytes] | None, joined: list[bytes]
) -> None:
    named = None if before is None else pa.array(before, pa.binary())
    found = json_wrappers._join_origins(named, {0: b"pod-1"}, 2)

    assert found is not None
    assert joined == found.to_pylist()
