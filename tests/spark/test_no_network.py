"""A whole run where there is no network: it passes, and it does not even try to reach one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spark.conftest import SAMPLES, Run

# In a network of its own, whose only device is `lo`, the kernel counts what finds no way out.
ALONE = """
import json, socket, subprocess, sys

def lost():
    names, values = (line.split() for line in open("/proc/net/snmp") if line.startswith("Ip:"))
    newer = dict(line.split() for line in open("/proc/net/snmp6"))
    return int(dict(zip(names, values))["OutNoRoutes"]) + int(newer["Ip6OutNoRoutes"])

def call(kind, family, address):
    try:
        socket.socket(family, kind).connect(address)
    except OSError:
        pass

subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
counts = [lost()]
call(socket.SOCK_STREAM, socket.AF_INET, ("198.51.100.7", 443))
call(socket.SOCK_DGRAM, socket.AF_INET, ("198.51.100.7", 53))
call(socket.SOCK_STREAM, socket.AF_INET6, ("2001:db8::7", 443))
counts.append(lost())
code = subprocess.run(sys.argv[2:], check=False).returncode
counts.append(lost())
with open(sys.argv[1], "w") as out:
    json.dump({"code": code, "lost": counts}, out)
"""


def enclosed() -> list[str]:
    """Give the start of a command that runs without network, or skip where none can be made."""
    command = ["unshare", "--map-root-user", "--net"]
    if not shutil.which("unshare") or not shutil.which("ip"):
        pytest.skip("NO RUN WITHOUT NETWORK: unshare (util-linux) and ip (iproute2) are needed")
    tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"NO RUN WITHOUT NETWORK: it is not allowed here ({tried.stderr.strip()})")
    return command


@pytest.mark.spark
def test_a_run_without_network_finds_the_same_and_calls_nobody(
    recorded: Callable[[str], Run], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "forensics", "postmortem"]
    given = [str(SAMPLES / "430-unclean/logs"), "-o", str(tmp_path / "out"), "--master", "local[2]"]
    told = tmp_path / "told.json"

    done = subprocess.run(
        [*enclosed(), sys.executable, "-c", ALONE, str(told), *command, *given],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert 0 == done.returncode, done.stderr
    result = json.loads(told.read_text())
    before, after_three_calls, at_the_end = result["lost"]
    assert 0 == result["code"], done.stderr
    assert before + 3 == after_three_calls, "the kernel does not count here what finds no way out"
    assert after_three_calls == at_the_end
    assert recorded("430-unclean").findings == (tmp_path / "out/findings.json").read_bytes()
    assert (tmp_path / "out/report.html").stat().st_size > 100_000
