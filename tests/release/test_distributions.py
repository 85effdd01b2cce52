"""The files that a release is made of: whole, and as an index wants them."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
import threading
import tomllib
import zipfile
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from packaging.metadata import Metadata

import forensics
from tests.release.conftest import ROOT, Home, tool

Find = Callable[[str], Path]
WHEEL, SDIST = "kafka_forensics-*.whl", "kafka_forensics-*.tar.gz"


def metadata(dist: Find) -> Metadata:
    with zipfile.ZipFile(dist(WHEEL)) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        return Metadata.from_email(wheel.read(name), validate=False)


def test_twine_finds_no_fault(dist: Find, home: Home) -> None:
    home.run(tool("twine"), "check", "--strict", dist(WHEEL), dist(SDIST))


def test_links_of_the_readme_are_addresses(dist: Find) -> None:
    text = metadata(dist).description or ""
    links = re.findall(r"\]\(([^)]+)\)", text)

    assert len(links) > 10
    assert [] == [link for link in links if not link.startswith("https://")]
    # Whatever they name is in the repository.
    inside = re.findall(r"\(https://github.com/[^/]+/[^/]+/(?:blob|raw)/main/([^)#]+)", text)
    assert [] == [path for path in inside if not (ROOT / path).exists()]


def test_the_version_stands_in_one_place(dist: Find) -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    assert "version" in told["dynamic"]
    assert forensics.__version__ == str(metadata(dist).version)
    assert dist(WHEEL).name.startswith(f"kafka_forensics-{forensics.__version__}-")
    assert dist(f"kafka-forensics-{forensics.__version__}-py.zip")


def test_the_wheel_has_its_types_its_page_for_man_and_its_licences(dist: Find) -> None:
    with zipfile.ZipFile(dist(WHEEL)) as wheel:
        names = set(wheel.namelist())

    assert "forensics/py.typed" in names
    for end in (
        "/share/man/man1/kafka-forensics.1",
        "/licenses/LICENSE",
        "/licenses/NOTICE",
        "/licenses/forensics/report/assets/plotly-cartesian.LICENSE",
    ):
        assert [name for name in names if name.endswith(end)], end


def test_the_sdist_has_every_file_of_the_project(dist: Find) -> None:
    known = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    with tarfile.open(dist(SDIST)) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}

    # A link of the samples would be one of the archive.
    assert [] == [name for name in known if name and name not in names]


def test_the_bill_of_materials_names_what_is_needed_and_what_is_inside(dist: Find) -> None:
    bill = json.loads(dist("sbom.cdx.json").read_text("utf-8"))
    named = {one["name"].lower().replace("_", "-") for one in bill["components"]}
    lock = (ROOT / "requirements-run.lock").read_text("utf-8")
    needed = set(re.findall(r"(?m)^([\w.-]+)==", lock))

    assert ("CycloneDX", forensics.__version__) == (
        bill["bomFormat"],
        bill["metadata"]["component"]["version"],
    )
    assert {"pyspark", "pyarrow", "great-expectations", "plotly.js-cartesian-dist-min"} <= named
    assert "pytest" not in named
    # The lock is for every platform.
    assert len(named) > len(needed) * 0.85
    assert [] == [one["name"] for one in bill["components"] if not one.get("licenses")]


def test_the_notice_names_what_is_shipped(dist: Find) -> None:
    notice = (ROOT / "NOTICE").read_text("utf-8")
    with tarfile.open(dist("executors.tar.gz")) as packed:
        inside = {
            match[1].lower()
            for name in packed.getnames()
            if (match := re.match(r"(?:\./)?([\w.]+)-[\w.]+\.dist-info$", name))
        }
    listed = {word.lower() for word in re.findall(r"(?m)^  (\S+)", notice)}

    assert len(inside) >= 5
    assert inside <= listed


class _Index(BaseHTTPRequestHandler):
    """An index that has no file yet, and refuses whatever is sent."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        body = b'{"meta": {"api-version": "1.0"}, "name": "kafka-forensics", "files": []}'
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.pypi.simple.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.asked.append(f"POST {self.path}")
        self.send_error(403)

    def log_message(self, *_: object) -> None:
        pass


def test_publishing_is_tried_without_sending_anything(dist: Find, home: Home) -> None:
    _Index.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        said = home.run(
            tool("uv"), "publish", "--dry-run", "--trusted-publishing", "never",
            "--username", "nobody", "--password", "none",
            "--publish-url", f"{address}/legacy/", "--check-url", f"{address}/simple/",
            dist(WHEEL), dist(SDIST),
        )  # fmt: skip
    finally:
        server.shutdown()
        server.server_close()

    assert "2 files" in said
    assert [] == [one for one in _Index.asked if one.startswith("POST")]
