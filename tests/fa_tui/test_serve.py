"""The explorer in a browser: it works there, and nobody else gets in."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pyte
import pytest

aiohttp = pytest.importorskip("aiohttp")
pytest.importorskip("textual_serve")

LIMIT = 60.0
"""Seconds after which a test gives up."""

_CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--remote-debugging-port=0", "--window-size=1400,900",
)  # fmt: skip
_UNKNOWN_TO_PYTE = re.compile(
    rb"\x1b\[[<>=][0-9;]*[A-Za-z]|\x1b\[\?[0-9;]*\$p|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
)


class Served:
    """A running `fa-tui serve`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.address = process.stdout.readline().strip()
        self.base, self.token = re.fullmatch(
            r"(http://127\.0\.0\.1:\d+)/([\w-]+)/", self.address
        ).groups()  # type: ignore[union-attr]

    def explorers(self) -> list[int]:
        """The processes it has started (Linux)."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(word) for word in children.read_text().split()]


@pytest.fixture
def served(published_table: Path, tmp_path: Path) -> Iterator[Served]:
    """The published table, under a path that a shell would take apart."""
    odd = tmp_path / "it's $HOME; a table.json"
    shutil.copy(published_table, odd)
    environment = {**os.environ, "XDG_CONFIG_HOME": os.devnull, "NO_COLOR": "1", "TERM": "dumb"}
    process = subprocess.Popen(
        [sys.executable, "-m", "fa_tui", "serve", str(odd)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True,
    )  # fmt: skip
    try:
        yield Served(process)
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=LIMIT)


@pytest.fixture
async def http() -> AsyncIterator[Any]:
    async with aiohttp.ClientSession() as session:
        yield session


class Screen:
    """What a terminal shows that was sent some bytes."""

    def __init__(self, columns: int, lines: int) -> None:
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)

    def feed(self, data: bytes) -> None:
        self._stream.feed(_UNKNOWN_TO_PYTE.sub(b"", data))

    def text(self) -> str:
        return "\n".join(self._screen.display)


async def until(text: str, screen: Screen, more: Callable[[], Any]) -> None:
    """Read until the screen shows a text."""

    async def read() -> None:
        while text not in screen.text():
            screen.feed(await more())

    try:
        await asyncio.wait_for(read(), LIMIT)
    except asyncio.TimeoutError:
        raise AssertionError(f"never saw {text!r}:\n{screen.text()}") from None


@pytest.mark.slow
async def test_an_explorer_runs_in_the_websocket_and_ends_with_it(
    served: Served, http: Any
) -> None:
    async with http.ws_connect(
        f"{served.address}ws?width=120&height=40", headers={"Origin": served.base}
    ) as websocket:
        screen = Screen(120, 40)
        await until("9 of 15 need walk-back", screen, websocket.receive_bytes)
        await websocket.send_json(["focus"])
        await websocket.send_json(["stdin", "a"])
        await until("Lower", screen, websocket.receive_bytes)
        await websocket.send_json(["stdin", "5\r"])
        await until("11 of 15 need walk-back", screen, websocket.receive_bytes)
        explorers = served.explorers()
        assert explorers
    for _ in range(int(LIMIT / 0.1)):
        if not served.explorers():
            break
        await asyncio.sleep(0.1)
    assert not served.explorers()


@pytest.mark.slow
async def test_the_page_has_a_title_and_an_icon_and_no_splash(served: Served, http: Any) -> None:
    async with http.get(served.address) as answer:
        page = await answer.text()
    assert "<title>fa-tui it&#x27;s $HOME; a table.json</title>" in page
    assert (
        page.count('rel="icon" href="data:image/svg+xml,') == 1
        and ".intro-dialog { display: none" in page
    )


@pytest.mark.slow
async def test_ending_the_server_ends_its_explorers(served: Served, http: Any) -> None:
    async with http.ws_connect(
        f"{served.address}ws?width=80&height=24", headers={"Origin": served.base}
    ) as websocket:
        await until("walk-back", Screen(80, 24), websocket.receive_bytes)
        explorers = served.explorers()
        served.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(served.process.wait, LIMIT) == 0
    assert explorers
    for pid in explorers:
        for _ in range(int(LIMIT / 0.1)):
            if not Path(f"/proc/{pid}").exists():
                break
            await asyncio.sleep(0.1)
        assert not Path(f"/proc/{pid}").exists()


async def test_only_those_who_know_the_address_get_in(served: Served, http: Any) -> None:
    good = {"Origin": served.base}
    evil = {"Origin": "http://evil.example"}
    wrong = f"{served.base}/{'x' * len(served.token)}/"
    upgrade = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
    }  # fmt: skip
    for url, headers, status in (
        (served.address, {}, 200),
        (served.address, good, 200),
        (f"{served.address}static/js/textual.js", {}, 200),
        # without the token
        (f"{served.base}/", {}, 404),
        (wrong, {}, 404),
        (f"{served.base}/ws", {**upgrade, **good}, 404),
        (f"{wrong}ws", {**upgrade, **good}, 404),
        (f"{served.base}/static/js/textual.js", {}, 404),
        # a name that was made to point to this machine
        (served.address, {"Host": "evil.example"}, 403),
        (served.address, {"Host": f"evil.example:{served.base.rpartition(':')[2]}"}, 403),
        (f"{served.address}ws", {**upgrade, **good, "Host": "evil.example"}, 403),
        # other pages
        (served.address, evil, 403),
        (f"{served.address}ws", {**upgrade, **evil}, 403),
        (f"{served.address}ws", {**upgrade, "Origin": "null"}, 403),
        (f"{served.address}ws", upgrade, 403),
        # lists of files, and files that are none of its own
        (f"{served.address}static/", {}, 404),
        (f"{served.address}static/js/", {}, 404),
        (f"{served.address}static/../server.py", {}, 404),
        (f"{served.address}static/%2e%2e/server.py", {}, 404),
    ):
        async with http.get(url, headers=headers) as response:
            assert response.status == status, (url, headers)
            assert response.headers["Referrer-Policy"] == "no-referrer"
            assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]
            text = await response.text()
            assert status == 200 or served.token not in text
    assert not served.explorers()


def test_every_server_has_a_token_of_its_own_and_listens_on_loopback_only() -> None:
    from fa_tui.serving import TokenServer

    servers = [TokenServer(["true"], 0, "x") for _ in range(3)]
    try:
        assert len({server.token for server in servers}) == 3
        assert all(len(server.token) >= 32 for server in servers)
        assert {server._socket.getsockname()[0] for server in servers} == {"127.0.0.1"}
    finally:
        for server in servers:
            server._socket.close()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fa_tui", "serve", *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def test_a_taken_port_and_a_missing_path_are_told_at_once(published_table: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run(str(published_table), "--port", str(port))
    assert done.returncode == 2
    assert done.stderr.startswith(f"fa-tui: --port: cannot listen on port {port}")
    missing = run("no-such-file.json")
    assert missing.returncode == 3
    assert "no such file" in missing.stderr


def test_without_the_extra_it_says_how_to_get_it(published_table: Path) -> None:
    code = (
        "import sys; sys.modules['textual_serve'] = None; from fa_tui.cli import main; "
        f"sys.exit(main(['serve', {str(published_table)!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode == 2
    assert "pip install 'textual-serve>=1.1.3,<1.2'" in done.stderr


class Browser:
    """A real browser, driven over its DevTools WebSocket."""

    def __init__(self, websocket: Any) -> None:
        self._websocket = websocket
        self._numbers = itertools.count(1)
        self._session = ""
        self.received: asyncio.Queue[bytes] = asyncio.Queue()
        self.answered: set[str] = set()
        self.blocked: list[str] = []
        self.errors: list[str] = []
        self._replies: dict[int, asyncio.Future[Any]] = {}
        self._reader = asyncio.create_task(self._read())

    async def open(self, address: str) -> None:
        target = await self.call("Target.createTarget", url="about:blank")
        attached = await self.call(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        self._session = attached["sessionId"]
        for domain in ("Network", "Page", "Runtime", "Log"):
            await self.call(f"{domain}.enable")
        await self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        await self.call("Page.navigate", url=address)

    async def until(self, expression: str) -> None:
        """Wait until an expression of the page holds."""
        for _ in range(int(LIMIT / 0.1)):
            if await self.evaluate(expression):
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"never true in the page: {expression}")

    async def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" else {}
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, **text)

    async def evaluate(self, expression: str) -> Any:
        return (await self.call("Runtime.evaluate", expression=expression))["result"].get("value")

    async def call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        self._replies[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": parameters}
        await self._websocket.send_json(
            message | ({"sessionId": self._session} if self._session else {})
        )
        return await asyncio.wait_for(self._replies[number], LIMIT)

    async def _read(self) -> None:
        async for message in self._websocket:
            event = message.json()
            if "id" in event:
                self._replies.pop(event["id"]).set_result(event.get("result"))
                continue
            method, said = event["method"], event["params"]
            if method == "Network.webSocketFrameReceived" and said["response"]["opcode"] == 2:
                self.received.put_nowait(base64.b64decode(said["response"]["payloadData"]))
            elif method == "Network.responseReceived":
                self.answered.add(said["response"]["url"])
            elif method == "Network.loadingFailed":
                self.blocked.append(said.get("blockedReason", said["errorText"]))
            elif method == "Runtime.exceptionThrown":
                self.errors.append(said["exceptionDetails"]["text"])


@pytest.fixture
async def browser(tmp_path: Path, http: Any) -> AsyncIterator[Browser]:
    if _CHROMIUM is None:
        pytest.skip("no chromium here")
    process = await asyncio.create_subprocess_exec(
        _CHROMIUM, *_FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "about:blank",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        while True:
            line = await asyncio.wait_for(process.stderr.readline(), LIMIT)
            assert line, "chromium did not start"
            if line.startswith(b"DevTools listening on "):
                break
        draining = asyncio.create_task(process.stderr.read())
        async with http.ws_connect(line.split()[-1].decode(), max_msg_size=0) as websocket:
            yield Browser(websocket)
        draining.cancel()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


@pytest.mark.slow
async def test_a_real_browser_shows_the_explorer_and_types_into_it(
    served: Served, browser: Browser
) -> None:
    await browser.open(served.address)
    screen = Screen(300, 100)  # as large as the page makes it
    await until("9 of 15 need walk-back", screen, browser.received.get)
    await browser.until("document.body.classList.contains('-first-byte')")
    await browser.until("document.querySelector('.xterm-screen').clientWidth > 500")
    await browser.evaluate("document.querySelector('.xterm-helper-textarea').focus()")
    await browser.until("document.activeElement.className == 'xterm-helper-textarea'")
    await browser.press("a")
    await until("Lower", screen, browser.received.get)
    for key in ("5", "\r"):
        await browser.press(key)
    await until("11 of 15 need walk-back", screen, browser.received.get)
    assert all(url.startswith((served.base, "data:")) for url in browser.answered), browser.answered
    assert "csp" in browser.blocked  # the font of another host
    assert not browser.errors
