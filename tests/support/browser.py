"""Headless Chromium, driven through a pipe by the DevTools protocol: what a reader of the report would see and do.

Needs no package and no port.  The browser has no network to speak of; what a
page asks for is kept, and so is what it writes to the console.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

#: The program itself: Debian's launcher is a shell script that another library path breaks.
PROGRAM = next((one for one in ("/usr/lib/chromium/chromium",) if os.access(one, os.X_OK)), None)
_OPTIONS = (
    "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--hide-scrollbars", "--mute-audio", "--force-color-profile=srgb", "--font-render-hinting=none",
    "--disable-features=Translate,MediaRouter,OptimizationHints",
)  # fmt: skip
TIMEOUT = 60


class Browser:
    """One running browser with one tab."""

    def __init__(self, folder: Path) -> None:
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()

        def pipes() -> None:
            os.dup2(to_read, 3)
            os.dup2(to_write, 4)

        # Neither may be 3 or 4, or one dup2() would close the other; and no number is taken that is in use.
        given = to_read, to_write
        to_read, to_write = (fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 5) for one in given)
        for one in given:
            os.close(one)
        environment = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
        self._process = subprocess.Popen(
            [str(PROGRAM), *_OPTIONS, f"--user-data-dir={folder / 'profile'}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=pipes,
            close_fds=False, env=environment, start_new_session=True,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.problems: list[str] = []
        self.requests: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")

    def close(self) -> None:
        with suppress(OSError, TimeoutError, AssertionError):
            self._session = None
            self._call("Browser.close")
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)

    # ---- what a reader does

    def open(
        self, page: Path | str, width: int = 1400, height: int = 900, dark: bool = False, mobile: bool = False
    ) -> None:
        """Opens a report, a file or an address, and waits until its timeline is there, if it has one."""
        self.size(width, height, mobile)
        self.dark(dark)
        self.problems, self.requests = [], []
        self._call("Page.navigate", url=page if isinstance(page, str) else page.absolute().as_uri())
        self.until("document.readyState === 'complete' && document.querySelector('main') !== null")
        self.until("!document.querySelector('.loading') || document.documentElement.dataset.ready === '1'")

    def size(self, width: int, height: int, mobile: bool = False) -> None:
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def dark(self, on: bool, calm: bool = True) -> None:
        features = [{"name": "prefers-color-scheme", "value": "dark" if on else "light"}]
        features.append({"name": "prefers-reduced-motion", "value": "reduce" if calm else "no-preference"})
        self._call("Emulation.setEmulatedMedia", features=features)

    def eval(self, expression: str) -> Any:
        """The value of a JavaScript expression, which may be a promise."""
        answer = self._call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression: str) -> Any:
        """Its value as soon as it is true."""
        end = time.monotonic() + TIMEOUT
        while True:
            value = self.eval(expression)
            if value:
                return value
            assert time.monotonic() < end, f"never true: {expression}; {self.problems}"
            self.eval("new Promise((done) => setTimeout(done, 20))")

    def frame(self) -> None:
        """Waits until what was asked for is drawn."""
        self.eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def text(self, selector: str) -> str:
        return str(self.eval(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def click(self, x: float, y: float, count: int = 1) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=count, buttons=1)

    def move(self, x: float, y: float, buttons: int = 0) -> None:
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, buttons=buttons)

    def drag(self, x: float, y: float, to_x: float, to_y: float) -> None:
        self._call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=1, buttons=1)
        for step in range(1, 6):
            self.move(x + (to_x - x) * step / 5, y + (to_y - y) * step / 5, buttons=1)
        self._call("Input.dispatchMouseEvent", type="mouseReleased", x=to_x, y=to_y, button="left", clickCount=1)

    def wheel(self, x: float, y: float, by: float, ctrl: bool = False) -> None:
        self._call(
            "Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=by, modifiers=2 if ctrl else 0
        )

    def press(self, selector: str) -> None:
        """Clicks an element, as a keyboard would."""
        self.eval(f"document.querySelector({json.dumps(selector)}).click()")

    def key(self, *keys: str) -> None:
        codes = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9}
        for key in keys:
            text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
            code = {"windowsVirtualKeyCode": codes[key]} if key in codes else {}
            self._call("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **code)
            self._call("Input.dispatchKeyEvent", type="keyUp", key=key, **code)

    def type(self, text: str) -> None:
        self._call("Input.insertText", text=text)

    def screenshot(self, file: Path, whole: bool = False) -> None:
        answer = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(answer["data"]))

    def memory(self) -> int:
        """Bytes of the tab's heap and array buffers."""
        used = self._call("Runtime.getHeapUsage")
        return int(used["usedSize"]) + int(used.get("backingStorageSize", 0))

    # ---- the protocol

    def _call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        for answer in self._messages():
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._note(answer)
        raise AssertionError(f"the browser ended: {method}")

    def _messages(self) -> Iterator[dict[str, Any]]:
        while True:
            while b"\0" not in self._buffer:
                part = os.read(self._from, 1 << 20)
                if not part:
                    return
                self._buffer += part
            one, _, self._buffer = self._buffer.partition(b"\0")
            yield json.loads(one)

    def _note(self, event: dict[str, Any]) -> None:
        method, given = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            url = given["request"]["url"]
            if given.get("type") != "Document":
                self.requests.append(url)
        elif method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(given["exceptionDetails"])[:2000])
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(given["args"])[:2000])
        elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.problems.append(json.dumps(given["entry"])[:2000])
        elif method == "Page.javascriptDialogOpening":
            self.problems.append(f"a dialog: {given.get('message')}")


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser whose profile is in a folder, which is removed."""
    profile = folder / "browser"
    profile.mkdir()
    one = Browser(profile)
    try:
        yield one
    finally:
        one.close()
        shutil.rmtree(profile, ignore_errors=True)
