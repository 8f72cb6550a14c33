"""Serves the page of a log that is too large for a file: the same page, which asks for the part of the run in view.

Only this user's browser may ask.  The server listens on the loopback interface.
Its address has a random token, which no other page and no other user knows; Host
must be its own name, which a page of another site that resolves to this machine
(DNS rebinding) does not send; Origin and Sec-Fetch-Site must be its own where the
browser sends them.
"""

from __future__ import annotations

import hmac
import re
import secrets
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from pyio_trace.errors import ConfigError, PyioTraceError
from pyio_trace.page.html import policy_of
from pyio_trace.page.parts import packed

if TYPE_CHECKING:
    from socket import socket

    from pyio_trace.page.levels import Levels

ADDRESS = "127.0.0.1"
#: Bytes of parts that are kept.
_MOST_CACHE = 64 << 20
#: s that a connection may be silent.
_SILENT = 20
#: Connections at a time.
_MOST_CONNECTIONS = 32
_TILE = re.compile(r"level=(\d{1,3})&place=(\d{1,18})", re.ASCII)
_BINARY = "application/octet-stream"


class Answer(NamedTuple):
    """What is sent.  status: of HTTP."""

    status: int
    kind: str
    body: bytes


class Pages:
    """What there is to see: the page, and the parts of the run, each made once and kept while there is room."""

    def __init__(self, page: bytes, levels: Levels | None, start: int) -> None:
        """levels: None: the page asks for nothing; start: of the run, ns since the epoch."""
        self._page, self._levels, self._start = page, levels, start
        self._kept: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._one = threading.Lock()  # at a time: the work is that of all processors

    def answer(self, path: str, query: str) -> Answer:
        """path: without the token.  Raises what reading the log raises."""
        if path == "" and not query:
            return Answer(200, "text/html; charset=utf-8", self._page)
        found = _TILE.fullmatch(query)
        if path != "tile" or self._levels is None:
            return _refusal(404, "there is no such page")
        if not found:
            return _refusal(400, "write tile?level=N&place=N")
        level, place = int(found[1]), int(found[2])
        if not self._levels.has(level, place):
            return _refusal(404, "there is no such part of the run")
        return Answer(200, _BINARY, self._part(self._levels, level, place))

    def _part(self, levels: Levels, level: int, place: int) -> bytes:
        with self._one:
            key = level, place
            if key not in self._kept:
                self._kept[key] = packed(levels.part(level, place), self._start, levels.log)
                while sum(map(len, self._kept.values())) > _MOST_CACHE and len(self._kept) > 1:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]


def _refusal(status: int, text: str) -> Answer:
    return Answer(status, "text/plain; charset=utf-8", f"pyio-trace: {text}\n".encode())


class Server:
    """Answers at an address that nobody can guess."""

    def __init__(self, pages: Pages, port: int) -> None:
        """port: 0: any that is free.  Raises ConfigError."""
        self._pages, self._token = pages, secrets.token_urlsafe(24)
        try:
            self._server = _Server((ADDRESS, port), self._handler())
        except OSError as error:
            raise ConfigError("bad-value", f"--port {port}: {error.strerror or error}") from None
        self.port = int(self._server.server_address[1])
        self._hosts = [f"{name}:{self.port}" for name in (ADDRESS, "localhost")]

    @property
    def address(self) -> str:
        """What a browser opens."""
        return f"http://{ADDRESS}:{self.port}/{self._token}/"

    def serve(self) -> None:
        """Until interrupted."""
        try:
            self._server.serve_forever(0.2)
        finally:
            self._server.server_close()

    def stop(self) -> None:
        """Ends serve(), of another thread."""
        self._server.shutdown()

    def _refused(self, headers: Any, path: str) -> Answer | None:
        """Why a request is not answered; None: it is."""
        hosts, origins, sites = (headers.get_all(name, []) for name in ("Host", "Origin", "Sec-Fetch-Site"))
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return _refusal(403, "this is not the address of this server")
        if any(one != f"http://{hosts[0]}" for one in origins):
            return _refusal(403, "another site may not ask")
        if any(one not in {"same-origin", "none"} for one in sites):
            return _refusal(403, "another site may not ask")
        token = path.split("/")[1] if path.startswith("/") else ""
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self._token.encode()):
            return _refusal(404, "there is no such page")
        return None

    def _answer(self, headers: Any, target: str) -> Answer:
        if len(target) > 500 or not target.isascii():
            return _refusal(404, "there is no such page")
        try:
            parts = urlsplit(target)
        except ValueError:
            return _refusal(404, "there is no such page")
        refused = self._refused(headers, parts.path)
        if refused is not None:
            return refused
        _, _, rest = parts.path[1:].partition("/")
        if parts.path.count("/") < 2 or parts.netloc or parts.scheme or parts.fragment:
            return _refusal(404, "there is no such page")
        try:
            return self._pages.answer(rest, parts.query)
        except PyioTraceError as error:
            return _refusal(500, str(error))
        except MemoryError:
            return _refusal(500, "there is not enough memory for this part of the run")

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            """One request."""

            timeout = _SILENT
            server_version, sys_version = "pyio_trace", ""

            def do_GET(self) -> None:
                self._send(answer(self.headers, self.path))

            def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
                # Of a request that is none, or of another method than GET.
                self._send(_refusal(405 if code == 501 else code, "only GET is answered"))

            def _send(self, one: Answer) -> None:
                self.send_response(one.status)
                for name, value in (*_HEADERS, ("Content-Type", one.kind), ("Content-Length", str(len(one.body)))):
                    self.send_header(name, value)
                if one.status == 405:
                    self.send_header("Allow", "GET")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(one.body)
                self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing is written for a request."""

        return Handler


_HEADERS = (
    ("Content-Security-Policy", policy_of(connects=True) + "; frame-ancestors 'none'"),
    ("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"), ("Cross-Origin-Resource-Policy", "same-origin"),
)  # fmt: skip


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # A port that is given may have been used a moment ago.
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], handler: Callable[..., BaseHTTPRequestHandler]) -> None:
        self._room = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Refuses what is too many at a time."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        """A browser that went away is no error; others are the server's, and seen."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)
