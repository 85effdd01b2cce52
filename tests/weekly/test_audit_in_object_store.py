"""An audit whose logs and store are objects leaves the same store as one on a disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.lib.storage import ObjectStore
from forensics.weekly_audit import AuditRequest, audit
from tests.ingest.object_store import SECRET, serving
from tests.weekly.audits import Audits, archives_in, ignore_message, open_local_engine
from tests.weekly.shifted_logs import read_store

pytestmark = pytest.mark.slow


def test_logs_and_store_may_be_objects(tmp_path: Path) -> None:
    with serving(tmp_path / "objects") as bucket:
        logs = archives_in(bucket.folder / "given")
        plain = Audits(tmp_path / "plain")
        address = bucket.address("audits")
        for name in ("three", "four"):
            plain.run(logs[name])
            inside = logs[name].relative_to(bucket.folder).as_posix()
            wishes = AuditRequest((bucket.address(inside),), address)
            result = audit(wishes, ignore_message, engines=open_local_engine)

        store = ObjectStore(address)
        kept = {name: store.read(name) for name in store.names()
                if not name.startswith((".", "_"))}  # fmt: skip

    assert kept == read_store(plain.store)
    assert f"s3://{bucket.folder.name}/audits/weeks/2026-W47/index.html" == result["page"]
    assert not [name for name, text in kept.items() if SECRET.encode() in text]
