"""A tab of Chromium, driven over its debugging pipe: that needs no package."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
PATIENCE_SECONDS = 60


class Tab:
    """The one tab of a browser of its own.

    Parameters
    ----------
    profile : Path
        A folder for what the browser keeps.

    Attributes
    ----------
    said : list of str
        What pages said to the console, their errors, and the addresses that they asked for.
    """

    def __init__(self, profile: Path) -> None:
        self.said: list[str] = []
        self._calls = 0
        self._loaded = 0
        self._session: dict[str, str] = {}
        self._data = b""
        theirs_read, self._write = os.pipe()
        self._read, theirs_write = os.pipe()

        def connect() -> None:  # Chromium reads commands from 3 and writes answers to 4
            ends = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (theirs_read, theirs_write)]
            for number, end in enumerate(ends, 3):
                os.dup2(end, number)

        self._process = subprocess.Popen(
            [CHROMIUM, "--headless", "--no-sandbox", "--remote-debugging-pipe", f"--user-data-dir={profile}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,  # all others are closed by exec
            preexec_fn=connect,
        )
        os.close(theirs_read)
        os.close(theirs_write)
        target = self._call("Target.createTarget", url="about:blank")
        attached = self._call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")
        self.said.clear()

    def close(self) -> None:
        """End the browser."""
        os.close(self._write)  # it ends with its debugger
        os.close(self._read)
        self._process.wait(PATIENCE_SECONDS)

    def open(self, page: Path) -> None:
        """Open a file, and wait until it is there."""
        loaded = self._loaded
        self._call("Page.navigate", url=page.as_uri())
        while self._loaded == loaded:
            self._hear(self._next())
        self.said.remove(page.as_uri())

    def evaluate(self, expression: str) -> Any:
        """Return what an expression of JavaScript gives."""
        done = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def texts(self, selector: str) -> list[str]:
        """Return the texts that one sees in the elements that a selector finds."""
        return self.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map(each => each.innerText)")

    def click(self, selector: str, number: int = 0) -> None:
        """Press the mouse's button over one of the elements that a selector finds."""
        x, y = self.evaluate(
            f"{{const found = document.querySelectorAll({json.dumps(selector)})[{number}];"
            "found.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const box = found.getBoundingClientRect(); [box.x + box.width / 2, box.y + box.height / 2]}"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def look_as(self, width: int, scheme: str) -> None:
        """Make the window so wide, in CSS pixels, and its user prefer a light or a dark scheme."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self._call("Emulation.setScrollbarsHidden", hidden=True)
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, file: Path, height: int) -> None:
        """Write the page's top, down to a height, as WebP."""
        clip = {"x": 0, "y": 0, "width": self.evaluate("innerWidth"), "height": height, "scale": 1}
        taken = self._call("Page.captureScreenshot", format="webp", quality=80, clip=clip, captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(taken["data"]))

    def screenshot(self, file: Path) -> None:
        """Write a picture of the whole page, as PNG: the window is as high as the page from then on."""
        # What captureBeyondViewport does to the window's size has pages that draw when it changes hang now and then.
        width, height = self.evaluate("[innerWidth, document.documentElement.scrollHeight]")
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        taken = self._call("Page.captureScreenshot")
        file.write_bytes(base64.b64decode(taken["data"]))

    def _call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._calls += 1
        call = {"id": self._calls, "method": method, "params": parameters, **self._session}
        os.write(self._write, json.dumps(call).encode() + b"\0")
        while (message := self._next()).get("id") != self._calls:
            self._hear(message)
        assert "error" not in message, (method, message["error"])
        return message["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._data:
            ready, _, _ = select.select([self._read], [], [], PATIENCE_SECONDS)
            data = os.read(self._read, 1 << 16) if ready else b""
            assert data, "Chromium ended" if ready else f"Chromium was silent for {PATIENCE_SECONDS} seconds"
            self._data += data
        message, _, self._data = self._data.partition(b"\0")
        return json.loads(message)

    def _hear(self, event: dict[str, Any]) -> None:
        kind, told = event.get("method"), event.get("params", {})
        if kind == "Page.loadEventFired":
            self._loaded += 1
        elif kind == "Network.requestWillBeSent":
            self.said.append(told["request"]["url"])
        elif kind in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.said.append(json.dumps(told))
