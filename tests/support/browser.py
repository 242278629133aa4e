"""Debian's Chromium without a window, controlled over a pair of pipes.

It needs only the program: ``--remote-debugging-pipe`` speaks the DevTools protocol as JSON
between zero bytes. Lines on the console of a page, and its requests to a network, are kept.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any

from tests.support.waiting import LONG_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = shutil.which("chromium")
_OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--remote-debugging-pipe"),
)


class Page:
    """A tab of the browser."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self._loaded = 0
        self.console: list[str] = []
        """Lines on the console, by the page or the browser."""
        self.asked_for: list[str] = []
        """Addresses that were requested."""
        target = self.tell("Target.createTarget", url="about:blank")["targetId"]
        attached = self.tell("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.tell(f"{domain}.enable")

    def tell(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command to the browser; return its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        own = self._number
        while True:
            answer = self._next()
            if answer.get("id") == own:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def open(self, path: Path) -> None:
        """Load a file, and wait until it is loaded."""
        loaded = self._loaded
        self.tell("Page.navigate", url=path.as_uri())
        while self._loaded == loaded:
            self._next()

    def run(self, script: str) -> Any:
        """Return the value of an expression; a promise is waited for."""
        found = self.tell(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"])
        return found["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Wait until an expression is true."""
        wait_until(lambda: self.run(condition), condition)

    def picture(self, path: Path, *, is_whole: bool = False) -> None:
        """Write a screenshot as PNG."""
        taken = self.tell("Page.captureScreenshot", captureBeyondViewport=is_whole)
        path.write_bytes(base64.b64decode(taken["data"]))

    def _next(self) -> dict[str, Any]:
        """Return the next message; note it if it is an event."""
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], LONG_S)
            assert ready, "the browser does not answer"
            data = os.read(self._from, 1 << 20)
            assert data, "the browser has ended"
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method: str | None, said: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded += 1
        elif method == "Network.requestWillBeSent":
            self.asked_for.append(said["request"]["url"])
        elif method == "Log.entryAdded":
            self.console.append(said["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.console.append(json.dumps(said["args"]))
        elif method == "Runtime.exceptionThrown":
            self.console.append(json.dumps(said["exceptionDetails"]))


@contextlib.contextmanager
def browser_page() -> Iterator[Page]:
    """Start a browser, yield its page, and end it."""
    assert PROGRAM is not None
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        # The browser reads descriptor 3 and writes to 4.
        command = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        process = subprocess.Popen(
            ["bash", "-c", command, "bash", PROGRAM, *_OPTIONS, f"--user-data-dir={folder}"],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            yield Page(ours_out, ours_in)
        finally:
            os.close(ours_out)
            os.close(ours_in)
            process.terminate()
            process.wait()
