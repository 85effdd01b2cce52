"""What can be read only once is written down first: pipes, commands, downloads."""

from __future__ import annotations

import gzip
import http.server
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from forensics.errors import ArchiveError
from forensics.ingest.inputs import Inputs, gather_inputs
from forensics.ingest.read_plan import plan_inputs
from forensics.lib.limits import Limits
from tests.ingest.sample_archives import LOG, tarred, write


def texts(inputs: Inputs) -> dict[str, bytes]:
    return {name: Path(path).read_bytes() for name, path in inputs.spooled}


@contextmanager
def pipe_with(content: bytes) -> Iterator[str]:
    """Open a pipe to which somebody writes, as `<(zcat x)` does."""
    reader, writer = os.pipe()

    def fill() -> None:
        with os.fdopen(writer, "wb") as file:
            file.write(content)

    thread = threading.Thread(target=fill)
    thread.start()
    yield f"/dev/fd/{reader}"
    thread.join()
    os.close(reader)


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    with pipe_with(LOG * 10) as name:
        found = gather_inputs([name], [], tmp_path)

    assert [LOG * 10] == list(texts(found).values())
    assert not found.archives
    assert not found.problems


def test_standard_input_is_an_archive_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(tarred({"broker-1/server.log": LOG})))
    with packed.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        found = gather_inputs(["-"], [], tmp_path)

    plan = plan_inputs(found)
    assert ["stdin"] == [split.file for split in plan.splits]


def test_a_pipe_to_which_nobody_writes_ends_with_a_sentence(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    found = gather_inputs([str(tmp_path / "pipe")], [], tmp_path, Limits(pipe_seconds=1))

    ((name, why),) = found.problems
    assert name == "pipe"
    assert "nobody has written to this pipe for 1 s (limit pipe_seconds)" in why


def test_the_output_of_a_command_is_an_input_named_by_it(tmp_path: Path) -> None:
    write(tmp_path / "broker-1", {"server.log": LOG})
    command = f"cat {tmp_path}/broker-1/server.log"

    found = gather_inputs([], [command], tmp_path)

    assert {command: LOG} == texts(found)


def test_a_command_that_fails_is_said_and_what_it_gave_is_read(tmp_path: Path) -> None:
    command = "echo one; echo 'Permission denied' >&2; exit 255"

    found = gather_inputs([], [command, "exit 3"], tmp_path)

    assert {command: b"one\n"} == texts(found)
    assert [
        (command, "the command ended with 255: Permission denied"),
        ("exit 3", "the command ended with 3"),
    ] == found.problems


def test_no_more_is_written_down_than_the_limit_says(tmp_path: Path) -> None:
    found = gather_inputs([], ["yes | head -c 5000000"], tmp_path, Limits(spool_bytes=1000))

    assert [1000] == [len(text) for text in texts(found).values()]
    assert "(limit spool_bytes)" in found.problems[0][1]


def test_a_web_address_is_fetched(tmp_path: Path) -> None:
    write(tmp_path / "www", {"server.log": LOG})
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "www"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        found = gather_inputs([f"{address}/server.log", f"{address}/nope"], [], tmp_path)
        server.shutdown()
        thread.join()

    assert {"server.log": LOG} == texts(found)
    assert "answers 404" in found.problems[0][1]


def test_an_address_that_needs_more_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"or use --command 'ssh host cat /logs/server.log'"):
        gather_inputs(["sftp://me:secret@host/logs/server.log"], [], tmp_path)


def test_files_and_folders_are_read_where_they_lie(tmp_path: Path) -> None:
    path = write(tmp_path / "logs", {"server.log": LOG})

    assert [str(path), "s3://logs/x"] == gather_inputs(
        [str(path), "s3://logs/x"], [], tmp_path
    ).archives
