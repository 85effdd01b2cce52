"""An audit whose logs and store are objects leaves the same store as one on a disk."""

from __future__ import annotations

import subprocess
import sys
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


def test_of_two_audits_at_once_one_waits_or_is_told(tmp_path: Path) -> None:
    with serving(tmp_path / "objects") as bucket:
        logs = archives_in(bucket.folder / "given")
        address = bucket.address("audits")

        def begin(name: str, *more: str) -> subprocess.Popen[str]:
            words = ["audit", str(logs[name]), "--store", address, "--engine", "local", "-q", *more]
            command = [sys.executable, "-m", "forensics", *words]
            return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

        with begin("three") as one, begin("three") as other:
            told = {run.communicate(timeout=240)[1]: run.returncode for run in (one, other)}
        with begin("three", "--wait", "200") as one, begin("four", "--wait", "200") as other:
            codes = [(run.communicate(timeout=240), run.returncode)[1] for run in (one, other)]
        weeks = {path.name for path in (bucket.folder / "audits/weeks").iterdir()}

    assert [0, 5] == sorted(told.values())
    assert any("Another run holds s3://" in said and SECRET not in said for said in told)
    assert [0, 0] == codes
    assert {"2026-W46", "2026-W47"} <= weeks
