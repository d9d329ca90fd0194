"""A headless Chromium, led by the DevTools protocol over a pipe: nothing to install, no port."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from .waiting import wait_until

needs_chromium = pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
    "--disable-dev-shm-usage", "--no-proxy-server", "--remote-debugging-pipe",
)  # fmt: skip
# The browser reads descriptor 3, and writes to 4: a shell puts ours there.
SHELL = 'exec chromium "$@" 3<&{reads} 4>&{writes}'

# Chromium's answer while a page gives way to the next.
LEAVING = "Inspected target navigated or closed"


class Page:
    """One page of a browser, and its console's errors."""

    def __init__(self, profile: pathlib.Path, *flags: str) -> None:
        reads, self._to = os.pipe()
        self._from, writes = os.pipe()
        shell = SHELL.format(reads=reads, writes=writes)
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *FLAGS, *flags, f"--user-data-dir={profile}"],
            pass_fds=(reads, writes), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(reads)
        os.close(writes)
        self._received, self._number, self._session = b"", 0, ""
        self.errors: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Runtime.enable")
        self.call("Log.enable")

    def close(self) -> None:
        """End the browser."""
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def call(self, method: str, **params: Any) -> Any:
        """Have the browser do something; return the result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            got = self._receive()
            if got.get("id") == self._number:
                assert "error" not in got or got["error"]["message"] == LEAVING, got
                return got.get("result", {"result": {}})  # between two pages an expression has no value
            if got.get("method") == "Log.entryAdded" and got["params"]["entry"]["level"] == "error":
                self.errors.append(got["params"]["entry"]["text"])
            if got.get("method") == "Runtime.exceptionThrown":
                self.errors.append(str(got["params"]))

    def _receive(self) -> Any:
        while b"\0" not in self._received:
            octets = os.read(self._from, 1 << 20)
            assert octets, "the browser has ended"
            self._received += octets
        message, _, self._received = self._received.partition(b"\0")
        return json.loads(message)

    def show(self, url: str, scheme: str = "light", width: int = 1200) -> None:
        """Go to an address."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript."""
        got = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in got, got
        return got["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Return the first true value of an expression."""
        return wait_until(
            lambda: self.evaluate(expression), 40, lambda: f"{expression}: {self.evaluate('document.body.innerText')}"
        )


@contextlib.contextmanager
def browsing(profile: pathlib.Path, *flags: str) -> Iterator[Page]:
    """Have a browser, with more flags, while the block runs."""
    page = Page(profile, *flags)
    try:
        yield page
    finally:
        page.close()
