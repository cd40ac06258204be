"""A real browser without a window, driven through its debugging pipe: keys, scripts, the console, screenshots."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium to look at the page with: apt install chromium")

KEYS: Final = {"Tab": 9, "Enter": 13, " ": 32}
PAUSE_S: Final = 0.05


class Browser:
    """One page. Every call blocks until the browser has answered."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._number = 0
        self._received = b""
        self._session: str | None = None
        self.errors: list[str] = []
        """What the page has logged as an error, refusals by its policy included, and scripts that failed."""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._ask(f"{domain}.enable")

    def open(self, url: str) -> None:
        self._ask("Page.navigate", url=url)
        self.wait("document.readyState == 'complete' && location.href != 'about:blank'")

    def evaluate(self, script: str) -> Any:
        result = self._ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until the condition holds, across the loading of another page."""
        for _ in range(600):
            try:
                if self.evaluate(f"!!({condition})"):
                    return
            except LookupError:
                pass  # the page is being replaced
            time.sleep(PAUSE_S)  # not in the page, which may be replaced meanwhile
        raise AssertionError(f"not within 30 s: {condition}")

    def press(self, *keys: str) -> None:
        for key in keys:
            code = {"key": key, "windowsVirtualKeyCode": KEYS[key]}
            text = {"text": "\r"} if key == "Enter" else {"text": " "} if key == " " else {}
            self._ask("Input.dispatchKeyEvent", type="keyDown", **code, **text)
            self._ask("Input.dispatchKeyEvent", type="keyUp", **code)

    def type(self, text: str) -> None:
        self._ask("Input.insertText", text=text)

    def resize(self, width: int, height: int) -> None:
        self._ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )

    def screenshot(self, path: Path) -> None:
        path.write_bytes(b64decode(self._ask("Page.captureScreenshot", format="png")["data"]))

    def _ask(self, method: str, **parameters: object) -> dict[str, Any]:
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self._number:
                if "error" in found and not method.startswith("Runtime."):
                    raise AssertionError(f"{method}: {found['error']}")
                if "error" in found:
                    raise LookupError(found["error"])
                result: dict[str, Any] = found["result"]
                return result
            self._note(found)

    def _note(self, event: dict[str, Any]) -> None:
        entry = event.get("params", {}).get("entry", {})
        if event.get("method") == "Log.entryAdded" and entry["level"] == "error":
            self.errors.append(f"{entry['text']} {entry.get('url', '')}")
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(event["params"]["exceptionDetails"]))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            data = os.read(self._answers, 1 << 20)
            if not data:
                raise AssertionError("the browser has ended")
            self._received += data
        line, _, self._received = self._received.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found


@contextmanager
def open_browser(folder: Path) -> Iterator[Browser]:
    """Start a browser with a profile in the folder. Call it in a thread: a Trio program serves the pages."""
    to_browser, commands = os.pipe()
    answers, from_browser = os.pipe()

    def arrange() -> None:  # the browser reads commands from descriptor 3, and writes answers to 4
        high = [fcntl.fcntl(each, fcntl.F_DUPFD, 10) for each in (to_browser, from_browser)]
        os.dup2(high[0], 3)
        os.dup2(high[1], 4)

    command = [BROWSER or "", *FLAGS, "--remote-debugging-pipe", f"--user-data-dir={folder}"]
    log = (folder.parent / f"{folder.name}.log").open("wb")
    with log, subprocess.Popen(command, pass_fds=(3, 4), preexec_fn=arrange, stdout=log, stderr=log) as process:
        os.close(to_browser)
        os.close(from_browser)
        try:
            yield Browser(commands, answers)
        finally:
            os.close(commands)
            os.close(answers)
            process.terminate()
            process.wait()
            shutil.rmtree(folder, ignore_errors=True)
