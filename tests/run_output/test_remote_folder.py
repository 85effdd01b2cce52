"""An output in a store: what every command makes of it, and what is never taken for one."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from forensics.cli.app import main
from forensics.errors import ForensicsError
from forensics.lib import folder_lock
from forensics.lib.folder_lock import FolderHeldError
from forensics.lib.storage import ObjectStore
from forensics.run_output import remote_folder
from forensics.run_output.reader import open_run
from forensics.run_output.remote_folder import fetch, open_output, put_page
from tests.ingest.object_store import SECRET, Bucket, serving

pytestmark = pytest.mark.slow

SAMPLE = Path(__file__).parents[2] / "sample_logs/391-rebalances"
PATIENCE = 180
# A command for each way to read a saved run; {out} is where it is.
COMMANDS = {
    "report": ["report", "{out}", "--html", "{here}/page.html"],
    "timeline": ["timeline", "{out}", "--broker", "1", "--json"],
    "export": ["export", "{out}", "--format", "jsonl"],
    "sheets": ["export", "{out}", "--format", "csv", "-o", "{here}/sheets"],
    "compare": ["compare", "{out}", "{out}", "--json"],
    "redact": ["redact", "{out}", "-o", "{here}/redacted", "--map", "{here}/../map.json"],
}


@dataclass(frozen=True)
class Saved:
    """The same run in a folder and in a store."""

    folder: Path
    bucket: Bucket
    address: str


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Saved]:
    root = tmp_path_factory.mktemp("saved")
    with serving(root / "objects") as bucket, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(root / "cache"))
        address = bucket.address("team/out")
        # What is there that no run has written stays; what an earlier run left does not.
        for name in ("notes.txt", "tables/old/part-0.parquet", "_staging/killed/1.parquet"):
            (bucket.folder / "team/out" / name).parent.mkdir(parents=True, exist_ok=True)
            (bucket.folder / "team/out" / name).write_text("old")
        for out in (str(root / "plain"), address):
            run("postmortem", str(SAMPLE), "--engine", "local", "-q", "-o", out)
        yield Saved(root / "plain", bucket, address)


def run(*words: str) -> None:
    assert tried(*words)


def tried(*words: str) -> bool:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return ended.value.code in {0, None}


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_store_gets_what_a_folder_gets(saved: Saved) -> None:
    plain = files_below(saved.folder)
    remote = files_below(saved.bucket.folder / "team/out")

    # What the run has held the folder by, and what holds nothing any more.
    assert [b""] == [remote.pop(name) for name in list(remote) if name.startswith(".lock-")]
    assert b"old" == remote.pop("notes.txt")
    listed = json.loads(remote.pop("_FILES.json"))
    result = json.loads(remote.pop("_RESULT.json"))
    plain.pop("_RESULT.json")
    assert plain == remote
    assert sorted(plain) == sorted(listed["files"])
    shown = f"s3://{saved.bucket.folder.name}/team/out"
    assert f"{shown}/report.html" == result["page"]
    assert SECRET not in json.dumps(result)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_reads_an_address_as_it_reads_a_folder(
    saved: Saved, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[tuple[str, object]] = []
    for out in (str(saved.folder), saved.address):
        here = tmp_path / str(len(made)) / "made"
        here.mkdir(parents=True)
        capsys.readouterr()
        run(*(word.format(out=out, here=here) for word in COMMANDS[name]))
        told = capsys.readouterr().out.replace(str(here), "HERE").replace(out, "OUT")
        told = told.replace(f"s3://{saved.bucket.folder.name}/team/out", "OUT")
        files = files_below(here)
        # Each redaction has pseudonyms of its own.
        made.append((told, list(files) if name == "redact" else files))

    assert made[0] == made[1]
    assert any(made[0])


def test_show_finds_the_lines_of_a_finding(
    saved: Saved, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads((saved.folder / "findings.json").read_text())
    finding = document["findings"][0]["id"]
    said = []
    for out in (str(saved.folder), saved.address):
        run("show", finding, "-o", out, "--archive", str(SAMPLE))
        said.append(capsys.readouterr().out.replace(out, "OUT"))

    assert said[0] == said[1]
    assert finding in said[0]


def test_a_page_that_is_drawn_again_is_put_beside_the_others(
    saved: Saved, capsys: pytest.CaptureFixture[str]
) -> None:
    run("report", saved.address, "--report-tz", "Asia/Kolkata")

    shown = f"s3://{saved.bucket.folder.name}/team/out/report-Asia-Kolkata.html"
    assert f"page: {shown}\n" == capsys.readouterr().out
    page = saved.bucket.folder / "team/out/report-Asia-Kolkata.html"
    assert "Asia/Kolkata" in page.read_text("utf-8")


def test_a_copy_is_made_once(saved: Saved) -> None:
    first = fetch(saved.address)
    (first / "findings.json").touch()
    before = (first / "findings.json").stat().st_mtime_ns

    assert first == fetch(saved.address)
    assert before == (first / "findings.json").stat().st_mtime_ns


def test_what_another_run_has_overwritten_is_refused(saved: Saved) -> None:
    with open_output(saved.bucket.address("two")) as folder:
        (folder / "tables/events").mkdir(parents=True)
        (folder / "findings.json").write_text("{}")
        (folder / "tables/events/part-0.parquet").write_bytes(b"one")
        (folder / "_RESULT.json").write_text('{"exit_code": 0}')
    store = ObjectStore(saved.bucket.address("two"))
    fetch(saved.bucket.address("two"))
    store.put("tables/events/part-9.parquet", io.BytesIO(b"of nobody"))
    assert not (fetch(saved.bucket.address("two")) / "tables/events/part-9.parquet").exists()

    store.put("tables/events/part-0.parquet", io.BytesIO(b"two"))
    with pytest.raises(ForensicsError, match=r"two/tables/events/part-0.parquet is not what"):
        fetch(saved.bucket.address("two"))
    store.remove("tables/events/part-0.parquet")
    with pytest.raises(ForensicsError, match=r"is not there, and _FILES\.json names it"):
        fetch(saved.bucket.address("two"))


def test_a_run_that_failed_is_no_output(saved: Saved) -> None:
    address = saved.bucket.address("failed")

    def fail() -> None:
        with open_output(address) as folder:
            (folder / "_RESULT.json").write_text('{"exit_code": 1, "reason": "no disk"}')
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with pytest.raises(ForensicsError, match="did not finish: no disk"):
        open_run(fetch(address))
    names = ObjectStore(address).names()
    assert ["_RESULT.json"] == [name for name in names if not name.startswith(".lock-")]


def begin(address: str) -> subprocess.Popen[str]:
    """Start a run in a process of its own."""
    command = [sys.executable, "-m", "forensics", "postmortem", str(SAMPLE), "--engine", "local"]
    return subprocess.Popen([*command, "-q", "-o", address], stderr=subprocess.PIPE, text=True)


def test_of_two_runs_at_once_one_writes_and_the_other_is_told(saved: Saved) -> None:
    address, folder = saved.bucket.address("contested"), saved.bucket.folder / "contested"
    ends = []
    with begin(address) as one, begin(address) as other:
        for running in (one, other):
            told = running.communicate(timeout=PATIENCE)[1]
            ends.append((running.returncode, told))

    assert [0, 1] == sorted(code for code, _ in ends), ends
    (told,) = (told for code, told in ends if code)
    assert told.startswith(f"Error: Another run holds s3://{saved.bucket.folder.name}/contested:")
    assert "Try again when it is done, or name another folder." in told
    assert SECRET not in told
    assert open_run(fetch(address)).short_digest == open_run(saved.folder).short_digest
    assert {0} == {one.stat().st_size for one in folder.glob(".lock-*")}


def test_a_killed_run_holds_nothing_for_good(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    address = saved.bucket.address("killed")
    folder = saved.bucket.folder / "killed"
    with begin(address) as running:
        until = time.monotonic() + PATIENCE
        while not list(folder.glob(".lock-*")) and time.monotonic() < until:
            time.sleep(0.05)
        running.send_signal(signal.SIGKILL)
    with pytest.raises(ForensicsError, match=r"no output folder of a postmortem"):
        fetch(address)
    with begin(address) as second:
        told = second.communicate(timeout=PATIENCE)[1]
    assert 1 == second.returncode
    assert f"process {running.pid} on" in told
    assert "If it was killed, nobody holds that any more 5 minutes later." in told

    # The run itself must not be taken for dead, however slow the machine is. The store tells whole
    # seconds, and on a busy machine late.
    monkeypatch.setattr(folder_lock, "_RENEWAL_SECONDS", 0.5)
    monkeypatch.setattr(folder_lock, "_EXPIRY_SECONDS", 4)
    until = time.monotonic() + PATIENCE
    while not tried("postmortem", str(SAMPLE), "--engine", "local", "-q", "-o", address):
        assert time.monotonic() < until
        time.sleep(1)
    assert open_run(fetch(address)).short_digest == open_run(saved.folder).short_digest
    assert {0} == {one.stat().st_size for one in folder.glob(".lock-*")}


@pytest.mark.parametrize("milliseconds", [0, 320, 321, 400])
def test_the_age_of_a_lock_is_known_however_the_store_writes_times(
    saved: Saved, milliseconds: int
) -> None:
    folder = saved.bucket.folder / f"times-{milliseconds}"
    folder.mkdir()
    (folder / ".lock-1-of-a-killed-run").write_text("{}")
    before = (int(time.time()) - 310) * 10**9 + milliseconds * 10**6
    os.utime(folder / ".lock-1-of-a-killed-run", ns=(before, before))

    with folder_lock.lock_address(saved.bucket.address(folder.name)):
        pass


def test_an_interrupt_while_a_run_is_put_there_leaves_nothing_of_it(
    saved: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, folder = saved.bucket.address("interrupted"), saved.bucket.folder / "interrupted"
    put, names = remote_folder._put, list[str]()

    def put_some(store: ObjectStore, name: str, path: Path) -> None:
        put(store, name, path)
        names.append(name)
        if name == "_FILES.json":
            raise KeyboardInterrupt

    monkeypatch.setattr(remote_folder, "_put", put_some)
    with pytest.raises(KeyboardInterrupt), open_output(address) as out:
        shutil.copytree(saved.folder, out, dirs_exist_ok=True)

    assert "findings.json" in names
    assert {".lock"} == {
        path.name.partition("-")[0] for path in folder.rglob("*") if path.is_file()
    }


def test_who_was_taken_for_dead_writes_nothing(saved: Saved) -> None:
    address = saved.bucket.address("paused")
    with pytest.raises(FolderHeldError, match="another one may have written there meanwhile"):
        write_after_being_replaced(address)

    assert b"of the other" == ObjectStore(address).read("findings.json")


def write_after_being_replaced(address: str) -> None:
    with open_output(address) as folder:
        store = ObjectStore(address)
        for name in store.names():
            store.put(name, io.BytesIO())
        with open_output(address) as others:
            (others / "findings.json").write_text("of the other")
        (folder / "findings.json").write_text("of the one that slept")


def test_a_page_is_not_put_into_a_run_that_another_has_replaced(
    saved: Saved, tmp_path: Path
) -> None:
    address = saved.bucket.address("redrawn")
    copies = []
    for text in ("one", "two"):
        with open_output(address) as folder:
            (folder / "findings.json").write_text(text)
        copies.append(fetch(address))
    page = tmp_path / "page.html"
    page.write_text("a page of the first")

    with pytest.raises(ForensicsError, match=r"Another run has written to s3://\S+/redrawn since"):
        put_page(copies[0], address, page)


def test_an_address_without_a_run_is_said(saved: Saved) -> None:
    with pytest.raises(ForensicsError, match=r"team is no output folder of a postmortem"):
        fetch(saved.bucket.address("team"))


def test_an_object_whose_name_leads_elsewhere_is_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    names = ["findings.json", str(outside), "tables/../../x"]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(ObjectStore, "__init__", lambda *_: None)
    monkeypatch.setattr(ObjectStore, "states", lambda _: dict.fromkeys(names, (1, 1)))
    monkeypatch.setattr(ObjectStore, "open", lambda _, name: io.BytesIO(name.encode()))

    folder = fetch("s3://logs/elsewhere")

    assert [path.name for path in folder.rglob("*")] == ["findings.json"]
    assert not outside.exists()
