"""A small driver of Firefox: its own protocol, Marionette, over a socket, and nothing to install.

Like the driver of Chromium it gives the browser no network: no name resolves, and all else goes to
a proxy that is not there. What a page asks for, and what its console says, is heard in the browser
itself, so that what the page's policy forbids is heard too.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from tests.browser.chromium import Failed, program

__all__ = ["Firefox", "executable"]

NAMES = ("firefox-esr", "firefox")
FLAGS = ("--headless", "--no-remote", "--marionette", "--remote-allow-system-access")
# Port 0: whichever is free; Firefox leaves the number in its profile.
PREFERENCES = {
    "marionette.port": 0, "network.proxy.type": 1, "network.dns.disabled": True,
    "network.proxy.http": "127.0.0.1", "network.proxy.http_port": 9,
    "network.proxy.ssl": "127.0.0.1", "network.proxy.ssl_port": 9,
    "network.proxy.allow_hijacking_localhost": True,
}  # fmt: skip
PATIENCE = 60.0
# Runs with the browser's own rights: keeps what pages ask for, and what is said of them.
LISTEN = """
const browser = Services.wm.getMostRecentWindow("navigator:browser");
const heard = browser.heard = { requests: [], complaints: [], observers: [] };
const asked = { observe(channel) {
  channel.QueryInterface(Ci.nsIChannel);
  if (channel.loadInfo.browsingContextID) heard.requests.push(channel.URI.spec);
} };
const told = { observe(message) {
  try { message.QueryInterface(Ci.nsIScriptError); } catch { return; }
  if (!message.isFromChromeContext) heard.complaints.push(message.errorMessage);
} };
heard.observers.push(asked, told);
Services.obs.addObserver(asked, "http-on-opening-request");
Services.console.registerListener(told);
Services.ppmm.addMessageListener("told", ({ data }) => heard.complaints.push(data));
Services.ppmm.loadProcessScript("data:,(" + encodeURIComponent(function () {
  Cc["@mozilla.org/consoleAPI-storage;1"].getService(Ci.nsIConsoleAPIStorage)
    .addLogEventListener((event) => {
      const said = event.wrappedJSObject ?? event;
      Services.cpmm.sendAsyncMessage("told", said.level + ": " + said.arguments.map(String));
    }, Services.scriptSecurityManager.getSystemPrincipal());
}.toString()) + ")()", true);
"""
HEARD = 'return Services.wm.getMostRecentWindow("navigator:browser").heard[arguments[0]].slice();'
FORGET = """const heard = Services.wm.getMostRecentWindow("navigator:browser").heard;
heard.requests.length = heard.complaints.length = 0;"""
Values = dict[str, Any]


def executable() -> str | None:
    """Find a Firefox: the one that $FIREFOX names, or one on the PATH."""
    return program("FIREFOX", NAMES)


class Firefox:
    """One running Firefox with one tab: opens pages, runs expressions, remembers what they did."""

    def __init__(self, program: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="firefox-", ignore_cleanup_errors=True)
        profile = Path(self._folder.name)
        lines = (f"user_pref({json.dumps(k)}, {json.dumps(v)});" for k, v in PREFERENCES.items())
        (profile / "user.js").write_text("\n".join(lines), encoding="utf-8")
        self._process = subprocess.Popen(
            [program, *FLAGS, "--profile", str(profile)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            # It will not start in a home that is another user's.
            env=os.environ | {"HOME": str(profile), "MOZ_HEADLESS_WIDTH": "1280"},
        )  # fmt: skip
        self._last = 0
        self._socket = socket.create_connection(("127.0.0.1", self._port(profile)), PATIENCE)
        self._answers = self._socket.makefile("rb")
        self._receive()
        self.call("WebDriver:NewSession", capabilities={})
        self._own(LISTEN)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _port(self, profile: Path) -> int:
        deadline = time.monotonic() + PATIENCE
        told = profile / "MarionetteActivePort"
        while not told.exists() or not (text := told.read_text().strip()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                raise Failed("Firefox does not start")
            time.sleep(0.05)
        return int(text)

    def close(self) -> None:
        """End the browser and take its folder away."""
        try:
            self.call("Marionette:Quit", flags=["eForceQuit"])
            self._process.wait(10)
        except (Failed, OSError, subprocess.TimeoutExpired):
            self._process.kill()
        self._socket.close()
        self._process.wait()
        self._folder.cleanup()

    def call(self, command: str, **parameters: Any) -> Values:
        """Ask for something and wait for the answer."""
        self._last += 1
        message = json.dumps([0, self._last, command, parameters]).encode()
        self._socket.sendall(b"%d:%s" % (len(message), message))
        _, _, error, result = self._receive()
        if error:
            raise Failed(f"{command}: {error['message']}")
        return dict(result or {})

    def _receive(self) -> Any:
        length = b""
        while (digit := self._answers.read(1)) != b":":
            if not digit:
                raise Failed("Firefox has ended")
            length += digit
        return json.loads(self._answers.read(int(length)))

    def _own(self, script: str, *arguments: str) -> Any:
        """Run a script as a part of the browser, and not in the page."""
        self.call("Marionette:SetContext", value="chrome")
        try:
            return self.call("WebDriver:ExecuteScript", script=script, args=arguments)["value"]
        finally:
            self.call("Marionette:SetContext", value="content")

    def open(self, page: Path, fragment: str = "") -> None:
        """Open a page anew and wait until it has loaded; what was before is forgotten."""
        self.call("WebDriver:Navigate", url="about:blank")
        self._own(FORGET)
        self.call("WebDriver:Navigate", url=page.absolute().as_uri() + fragment)

    @contextmanager
    def framed(self, page: Path) -> Iterator[Firefox]:
        """Open a page that shows another one in a frame, and look into the frame for a while."""
        self.open(page)
        frame = self.call(
            "WebDriver:FindElement", using="css selector", value="iframe"
        )["value"]  # fmt: skip
        self.call("WebDriver:SwitchToFrame", element=next(iter(frame.values())))
        try:
            yield self
        finally:
            self.call("WebDriver:SwitchToParentFrame")

    def run(self, expression: str) -> Any:
        """Evaluate an expression in the page, and give its value."""
        script = f"""const done = arguments[0];
          Promise.resolve().then(() => ({expression}\n))
            .then((value) => done([value]), (error) => done(String(error)));"""
        value = self.call("WebDriver:ExecuteAsyncScript", script=script, args=[])["value"]
        if isinstance(value, str):
            raise Failed(value)
        return value[0]

    def wait(self, expression: str, patience: float = PATIENCE) -> Any:
        """Wait until an expression is true, and give its value."""
        deadline = time.monotonic() + patience
        while not (value := self.run(expression)):
            if time.monotonic() > deadline:
                raise Failed(f"this does not become true: {expression}")
            time.sleep(0.05)
        return value

    @property
    def requests(self) -> list[str]:
        """Every address on a network that a page asked for since it was opened."""
        return list(self._own(HEARD, "requests"))

    @property
    def complaints(self) -> list[str]:
        """What the console says: logged, thrown, forbidden by the policy."""
        # What other processes of the browser have to say takes a moment to arrive.
        time.sleep(0.3)
        return list(self._own(HEARD, "complaints"))
