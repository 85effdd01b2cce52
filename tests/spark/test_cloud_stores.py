"""Archives and output in the stores of Google and Azure, which `make stores` fetches.

They are emulated: what acts as them speaks their protocols, and knows no roles of a cloud.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import importlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from forensics.lib.storage import ObjectStore, upload
from forensics.pipeline import postmortem
from forensics.run_output.reader import open_run
from forensics.run_output.remote_folder import fetch
from forensics.settings import Settings
from tests.spark.conftest import ROOT, SAMPLES

EMULATORS = os.environ.get("STORE_EMULATORS")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        not EMULATORS, reason="GS AND ABFS ARE NOT TRIED: `make stores` fetches what acts as them"
    ),
]

ARCHIVE = SAMPLES / "391-rebalances/logs.tar.gz"
ENGINES = (("--engine", "local"), ("--master", "local[2]"))
PATIENCE = 120
# The account that every emulator of Azure has.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextmanager
def _running(port: int, command: list[str], folder: Path, **environment: str) -> Iterator[None]:
    """Run a server until the block ends, from when it takes connections."""
    with subprocess.Popen(
        command, cwd=folder, env=os.environ | environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        try:
            until = time.monotonic() + PATIENCE
            while True:
                with socket.socket() as one:
                    if one.connect_ex(("127.0.0.1", port)) == 0:
                        break
                assert server.poll() is None, command
                assert time.monotonic() < until, command
                time.sleep(0.1)
            yield
        finally:
            server.terminate()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def _google(folder: Path) -> Iterator[str]:
    port = _free_port()
    code = "from gcp_storage_emulator.__main__ import main; main()"
    command = [sys.executable, "-c", code, "start", "--host", "127.0.0.1", "--port", str(port),
               "--in-memory", "--default-bucket", "box"]  # fmt: skip
    with _running(port, command, folder, PYTHONPATH=f"{EMULATORS}/python"):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/storage/v1/b/box") as answer:
            assert 200 == answer.status
        options = urlencode({"scheme": "http", "endpoint_override": f"127.0.0.1:{port}"})
        yield f"gs://anonymous@box/IN?{options}"


@contextmanager
def _azure(folder: Path) -> Iterator[str]:
    fs: Any = importlib.import_module("pyarrow.fs")
    port = _free_port()
    program = f"{EMULATORS}/node_modules/.bin/azurite-blob"
    # Its client is newer than it is.
    command = [program, "--silent", "--disableTelemetry", "--skipApiVersionCheck",
               "--inMemoryPersistence", "--blobPort", str(port)]  # fmt: skip
    with _running(port, command, folder):
        host = f"127.0.0.1:{port}"
        fs.AzureFileSystem(
            account_name=ACCOUNT, account_key=KEY, blob_storage_authority=host,
            dfs_storage_authority=host, blob_storage_scheme="http", dfs_storage_scheme="http",
        ).create_dir("box")  # fmt: skip
        options = urlencode({"enable_tls": "false"} | _signed())
        yield f"abfs://{ACCOUNT}@{host}/box/IN?{options}"


def _signed() -> dict[str, str]:
    """Give a signature for the account, as users of Azure get one to put into an address."""
    given = {"sv": "2021-08-06", "ss": "b", "srt": "sco", "sp": "rwdlac"}
    given["se"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
    fields = [ACCOUNT, given["sp"], given["ss"], given["srt"], "", given["se"], "", "", given["sv"]]
    text = "\n".join([*fields, "", ""]).encode()
    found = hmac.new(base64.b64decode(KEY), text, hashlib.sha256).digest()
    return given | {"sig": base64.b64encode(found).decode()}


STORES = {"gs": _google, "abfs": _azure}


@pytest.fixture(scope="module", params=list(STORES))
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Give an address in each store in turn, with IN for what is there."""
    with STORES[request.param](tmp_path_factory.mktemp(request.param)) as address:
        upload(ARCHIVE, address.replace("IN", f"kafka/{ARCHIVE.name}"))
        yield address


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "forensics", *words], cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


def test_a_store_holds_archives_and_output(store: str, tmp_path: Path) -> None:
    plain = Settings((str(ARCHIVE),), tmp_path / "plain", engine="local")
    postmortem(plain, lambda _: None)
    archive, out = store.replace("IN", "kafka/logs.tar.gz"), store.replace("IN", "runs/out")

    # The second run takes the place of the first.
    for engine in ENGINES:
        done = _run("postmortem", archive, "-o", out, "-q", *engine)
        assert (0, "") == (done.returncode, done.stderr)
        assert (plain.out / "findings.json").read_bytes() == ObjectStore(out).read("findings.json")
        assert not [name for name in ObjectStore(out).names() if name.startswith("_staging")]
        assert open_run(fetch(out)).short_digest == open_run(plain.out).short_digest


def test_an_audit_keeps_its_weeks_there(store: str) -> None:
    archive, weeks = store.replace("IN", "kafka/logs.tar.gz"), store.replace("IN", "weeks")

    done = _run("audit", archive, "--store", weeks, "-q", "--engine", "local")

    assert (0, "") == (done.returncode, done.stderr)
    assert {"index.html", "latest.html", "store.json"} <= set(ObjectStore(weeks).names())


def test_what_a_store_refuses_is_said_without_what_is_secret(store: str) -> None:
    wrong = store.replace("sig=", "sig=AAAA").replace("box/", "nobox/").replace("IN", "out")

    done = _run("postmortem", str(ARCHIVE), "-o", wrong, "-q", "--engine", "local")

    assert 1 == done.returncode
    assert 1 == len(done.stderr.strip().splitlines())
    assert "sig=" not in done.stderr
    assert "?" not in done.stderr
