"""A small driver of a real browser: Chromium's own protocol over two pipes, and nothing to install.

The browser has no network: no name resolves, and what is not resolved goes to a proxy that is not
there. Pages are read from files.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

__all__ = ["Chromium", "Tab", "executable"]

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--mute-audio", "--hide-scrollbars", "--force-device-scale-factor=1",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=http://127.0.0.1:9",
    # Older ones keep a sandboxed frame in the process of its page, where it is not listened to.
    "--enable-features=IsolateSandboxedIframes", "--remote-debugging-pipe",
)  # fmt: skip
# Far above what anything takes, so that only a browser that hangs is given up.
PATIENCE = 60.0
Values = dict[str, Any]


def executable() -> str | None:
    """Find a browser: the one that $CHROMIUM names, or one on the PATH."""
    return program("CHROMIUM", NAMES)


def program(variable: str, names: Sequence[str]) -> str | None:
    """Find the program that a variable of the environment names, or one of some on the PATH."""
    named = os.environ.get(variable)
    if named:
        return shutil.which(named)
    return next((found for name in names if (found := shutil.which(name))), None)


class Failed(AssertionError):  # noqa: N818 - a test that meets it has failed
    """The browser did not do what it was asked."""


class Chromium:
    """One running browser; every tab of it has a profile of its own."""

    def __init__(self, program: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        inward, self._write = os.pipe()
        self._read, outward = os.pipe()
        arguments = [program, *FLAGS, f"--user-data-dir={self._folder.name}/data"]
        self._process = _spawned(arguments, inward, outward)
        os.close(inward)
        os.close(outward)
        self._last = 0
        self._buffer = b""
        self._events: list[Values] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the browser and take its folder away."""
        try:
            self.call("Browser.close", patience=5)
        except (Failed, OSError):
            os.kill(self._process, signal.SIGKILL)
        for end in (self._read, self._write):
            os.close(end)
        os.waitpid(self._process, 0)
        self._folder.cleanup()

    def tab(self) -> Tab:
        """Open an empty tab that knows nothing of the others."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        place = {"url": "about:blank", "browserContextId": context}
        target = self.call("Target.createTarget", place)["targetId"]
        attached = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})
        return Tab(self, context, attached["sessionId"])

    def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        session: str | None = None,
        patience: float = PATIENCE,
    ) -> Values:
        """Ask for something and wait for the answer."""
        self._last += 1
        number = self._last
        wanted: Values = {"id": number, "method": method, "params": params or {}}
        if session:
            wanted["sessionId"] = session
        _write(self._write, json.dumps(wanted).encode() + b"\0")
        deadline = time.monotonic() + patience
        while True:
            told = self._receive(deadline)
            if told.get("id") == number:
                if "error" in told:
                    raise Failed(f"{method}: {told['error'].get('message')}")
                result: Values = told["result"]
                return result
            self._events.append(told)

    def events(self, session: str, seconds: float = 0) -> list[Values]:
        """Give what has happened in one tab, after waiting for more."""
        deadline = time.monotonic() + seconds
        while select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))[0]:
            self._events.append(self._receive(time.monotonic() + PATIENCE))
        return [event for event in self._events if event.get("sessionId") == session]

    def _receive(self, deadline: float) -> Values:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(self._read, 1 << 20) if ready else b""
            if not part:
                raise Failed("the browser has ended" if ready else "the browser does not answer")
            self._buffer += part
        told, _, self._buffer = self._buffer.partition(b"\0")
        message: Values = json.loads(told)
        return message


class Tab:
    """One tab: opens pages, runs expressions in them, and remembers what they did."""

    def __init__(self, browser: Chromium, context: str, session: str) -> None:
        self._browser, self._context, self._session = browser, context, session
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._browser.call("Target.disposeBrowserContext", {"browserContextId": self._context})

    def call(self, method: str, **params: Any) -> Values:
        """Ask for something of the protocol's."""
        return self._browser.call(method, params, self._session)

    def size(self, width: int, height: int = 900) -> None:
        """Make the window so wide and high."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip

    def prefer(self, **features: str) -> None:
        """Say what the reader prefers, such as prefers_color_scheme="dark"."""
        wanted = [{"name": k.replace("_", "-"), "value": v} for k, v in features.items()]
        self.call("Emulation.setEmulatedMedia", features=wanted)

    def open(self, page: Path, fragment: str = "") -> None:
        """Open a page and wait until it has loaded."""
        found = self.call("Page.navigate", url=page.absolute().as_uri() + fragment)
        if "errorText" in found:
            raise Failed(f"{page}: {found['errorText']}")
        deadline = time.monotonic() + PATIENCE
        # Asked of the browser, not of the page: scripts may be off.
        while not self._loaded(found.get("loaderId")):
            if time.monotonic() > deadline:
                raise Failed(f"{page} does not finish loading")
            self._browser.events(self._session, 0.05)

    @contextmanager
    def framed(self, page: Path) -> Iterator[Tab]:
        """Open a page that shows another one in a sandboxed frame, and give what is in the frame.

        Such a frame is a process of its own. It is held until all that it does is heard.
        """
        hold = {"waitForDebuggerOnStart": True, "flatten": True}
        self.call("Target.setAutoAttach", autoAttach=True, **hold)
        self.call("Page.navigate", url=page.absolute().as_uri())
        deadline = time.monotonic() + PATIENCE
        while not (found := self._frames()):
            if time.monotonic() > deadline:
                raise Failed(f"{page} shows no frame")
            self._browser.events(self._session, 0.05)
        frame = Tab(self._browser, self._context, found[-1])
        frame.call("Runtime.runIfWaitingForDebugger")
        yield frame

    def _frames(self) -> list[str]:
        return [
            event["params"]["sessionId"]
            for event in self._browser.events(self._session)
            if event["method"] == "Target.attachedToTarget"
            and event["params"]["targetInfo"]["type"] == "iframe"
        ]

    def _loaded(self, loader: str | None) -> bool:
        return loader is None or any(
            event["method"] == "Page.lifecycleEvent"
            and event["params"]["name"] == "load"
            and event["params"]["loaderId"] == loader
            for event in self._browser.events(self._session)
        )

    def run(self, expression: str) -> Any:
        """Evaluate an expression in the page, as its own console would, and give its value."""
        told = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in told:
            details = told["exceptionDetails"]
            raise Failed(details.get("exception", {}).get("description") or details["text"])
        return told["result"].get("value")

    def wait(self, expression: str, patience: float = PATIENCE) -> Any:
        """Wait until an expression is true, and give its value."""
        deadline = time.monotonic() + patience
        while not (value := self.run(expression)):
            if time.monotonic() > deadline:
                raise Failed(f"this does not become true: {expression}")
            time.sleep(0.05)
        return value

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press a key as a person would."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}
        names = {"Enter": "\r", " ": " "}
        event: Values = {
            "key": key, "code": {" ": "Space"}.get(key, key), "modifiers": 8 * shift,
            "windowsVirtualKeyCode": codes[key], "text": names.get(key, ""),
        }  # fmt: skip
        self.call("Input.dispatchKeyEvent", type="keyDown", **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def picture(self, clip: Mapping[str, float] | None = None) -> bytes:
        """Take a picture of the window, or of a part of the page."""
        extra: Values = {"clip": {**clip, "scale": 1}} if clip else {}
        told = self.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=bool(clip), **extra
        )
        return base64.b64decode(told["data"])

    def pdf(self, **options: Any) -> bytes:
        """Print the page."""
        told = self.call("Page.printToPDF", printBackground=True, **options)
        return base64.b64decode(told["data"])

    @property
    def requests(self) -> list[str]:
        """Every address that was asked for, but for those that hold what they stand for."""
        return [
            url
            for event in self._browser.events(self._session)
            if event["method"] == "Network.requestWillBeSent"
            and not (url := event["params"]["request"]["url"]).startswith(
                ("data:", "blob:", "about:")
            )
        ]

    @property
    def blocked(self) -> list[str]:
        """Why requests never left: forbidden by the policy (csp), or whatever else."""
        return [
            event["params"]["blockedReason"]
            for event in self._browser.events(self._session)
            if event["method"] == "Network.loadingFailed" and "blockedReason" in event["params"]
        ]

    @property
    def complaints(self) -> list[str]:
        """What the console says: logged, thrown, forbidden by the policy."""
        words = []
        for event in self._browser.events(self._session, 0.2):
            told = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                words.append(json.dumps(told["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled":
                words.append(json.dumps([one.get("value") for one in told["args"]]))
            elif event["method"] == "Log.entryAdded":
                words.append(f"{told['entry']['level']}: {told['entry']['text']}")
            elif event["method"] == "Page.javascriptDialogOpening":
                words.append(f"dialog: {told['message']}")
        return words


def _spawned(arguments: list[str], inward: int, outward: int) -> int:
    """Start the browser, which reads from the file 3 and writes to 4; gives its number."""
    # Out of the way first: what is put in place must not lie where something else goes.
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (inward, outward)]
    quiet = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
    places = [(os.POSIX_SPAWN_DUP2, end, place) for place, end in zip((3, 4), high, strict=True)]
    try:
        return os.posix_spawn(arguments[0], arguments, os.environ, file_actions=[quiet, *places])
    finally:
        for end in high:
            os.close(end)


def _write(end: int, data: bytes) -> None:
    while data:
        data = data[os.write(end, data) :]
