"""The server of `report --serve`: whom it answers, and that its parts are those of the log."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pyio_trace.cli.main import main
from pyio_trace.insights import registry, settings
from pyio_trace.insights.insights import find
from pyio_trace.join.sources.opening import open_log
from pyio_trace.page.report import served
from pyio_trace.page.server import Pages, Server
from tests.support.smallrun import small_run

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served_log(small_run(tmp_path_factory.mktemp("served") / "run.pyio")) as one:
        yield one


class served_log:
    """A server of a log, in a thread."""

    def __init__(self, path: Path) -> None:
        log, rules = open_log(path), registry.found()
        summary, insights = find(log, rules, settings.load(rules), None)
        made = served(log, summary, insights)
        self.levels = made.levels
        self.server = Server(Pages(made.page.encode(), made.levels, summary.run.start), 0)
        self._thread = threading.Thread(target=self.server.serve)

    def __enter__(self) -> Server:
        self._thread.start()
        return self.server

    def __exit__(self, *_: object) -> None:
        self.server.stop()
        self._thread.join()


def ask(
    server: Server, target: str | None = None, method: str = "GET", **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    """target: after the token; a target with a / in front as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        path = urlsplit(server.address).path
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(
            method, target if target and target.startswith("/") else path + (target or ""), headers=given
        )
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def test_the_page(server: Server) -> None:
    answer, body = ask(server)
    assert answer.status == 200 and body.startswith(b"<!doctype html>")
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["Cache-Control"] == "no-store" and answer.headers["Referrer-Policy"] == "no-referrer"


def test_it_listens_on_this_machine_only(server: Server) -> None:
    assert server._server.server_address[0] == "127.0.0.1"


def test_tokens_are_random(server: Server) -> None:
    other = Server(Pages(b"", None, 0), 0)
    other._server.server_close()
    tokens = {urlsplit(one.address).path for one in (server, other)}
    assert len(tokens) == 2 and all(len(one) > 30 for one in tokens)


@pytest.mark.parametrize("token", ["", "x", "{}x", "x{}", "%00", "../{}", "{}%20", "a" * 400])
def test_other_tokens(token: str, server: Server) -> None:
    own = urlsplit(server.address).path.strip("/")
    answer, body = ask(server, f"/{token.format(own)}/")
    assert answer.status in (400, 404) and b"doctype" not in body


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"}, {"Host": "evil.example:{port}"}, {"Host": "127.0.0.1"}, {"Host": ""},
        {"Host": "127.0.0.1:{port}.evil.example"}, {"Origin": "http://evil.example"}, {"Origin": "null"},
        {"Origin": "https://127.0.0.1:{port}"}, {"Origin": "http://127.0.0.1:1"}, {"Origin": "http://localhost:{port}"},
        {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("target", ["", "tile?level=0&place=0"])
def test_other_sites(target: str, headers: dict[str, str], server: Server) -> None:
    given = {name: value.format(port=server.port) for name, value in headers.items()}
    answer, body = ask(server, target, **given)
    assert answer.status == 403 and len(body) < 200
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_its_own_names(server: Server) -> None:
    for host in (f"127.0.0.1:{server.port}", f"localhost:{server.port}"):
        given = {"Host": host, "Origin": f"http://{host}", "Sec_Fetch_Site": "same-origin"}
        assert ask(server, "tile?level=0&place=0", **given)[0].status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "NONSENSE"])
def test_other_methods(method: str, server: Server) -> None:
    answer, _ = ask(server, method=method)
    assert answer.status == 405 and answer.headers["Allow"] == "GET"


@pytest.mark.parametrize(
    "target",
    [
        "tile", "tile?", "tile?level=0", "tile?level=-1&place=0", "tile?level=0&place=1", "tile?level=52&place=0",
        "tile?level=999&place=0", "tile?level=0&place=999999999999999999", "tile?level=1e3&place=0", "page",
        "tile?level=0&place=0&place=1", "tile?place=0&level=0", "tile?level=0&place=" + "9" * 300, "../../etc/passwd",
        "%2e%2e/run.pyio", "tile/", "?", "?x=1", "tile?level=%D9%A3&place=0",
        "tile?level=0&place=0#x" + "y" * 600, "tile;level=0",
    ],
)  # fmt: skip
def test_hostile_parameters(target: str, server: Server) -> None:
    answer, body = ask(server, target)
    if target == "?":  # an empty query is none
        assert answer.status == 200
        return
    assert answer.status in (400, 404) and len(body) < 200


def test_it_writes_nothing_for_requests(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    ask(server)
    ask(server, "/nothing")
    ask(server, method="POST")
    assert capfd.readouterr() == ("", "")


def test_too_many_connections_are_closed(server: Server) -> None:
    import socket

    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(40)]
    try:
        refused = 0
        for one in idle[-4:]:
            one.settimeout(60)
            refused += one.recv(1) == b""
        assert refused == 4
    finally:
        for one in idle:
            one.close()


def test_options_that_contradict(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = str(small_run(tmp_path / "a.pyio"))
    for options in (["--serve", "--open"], ["--serve", "-o", "x.html"], ["--port", "1"], ["--no-browser"]):
        assert main(["report", log, *options]) == 2
        assert capfd.readouterr().err.endswith("[contradictory-options]\n")
    for port in ("x", "-1", "65536", "٣"):
        assert main(["report", log, "--serve", "--port", port]) == 2
        assert "[bad-value]" in capfd.readouterr().err


def test_a_port_in_use(server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = str(small_run(tmp_path / "a.pyio"))
    assert main(["report", log, "--serve", "--no-browser", "--port", str(server.port)]) == 2
    assert capfd.readouterr().err.endswith("Address already in use [bad-value]\n")
