"""Logs of other hosts in one folder: fetched whole, told apart, without holes, and none lost in silence."""

from __future__ import annotations

import os
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
