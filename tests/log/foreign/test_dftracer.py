"""DFTracer's traces: what they say is in the operations."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import pyio_trace
from pyio_trace.errors import LogError

pytestmark = pytest.mark.once  # reading logs is the same on every Python

BEGIN = 1_700_000_000_000_000


def explained(name: str, of: str, value: str) -> dict[str, Any]:
    args = {"hhash": "h1", "name": of, "value": value}
    return {"name": name, "cat": "dftracer", "pid": 7, "tid": 7, "ph": 4, "args": args}


def called(name: str, begin: int, duration: int, cat: str = "POSIX", tid: int = 7, **args: Any) -> dict[str, Any]:
    return {
        "id": 1, "name": name, "cat": cat, "pid": 7, "tid": tid, "ts": BEGIN + begin, "dur": duration, "ph": 1,
        "args": {"hhash": "h1", **args},
    }  # fmt: skip


EVENTS = [
    explained("HH", "node3", "h1"),
    explained("SH", "/usr/bin/python;train.py", "c1"),
    called("start", 0, 0, "dftracer", ppid=5, cmd_hash="c1", exec_hash="e1", cwd="w1"),
    explained("FH", "/d/a", "f1"),
    called("load", 5, 100, "app"),
    called("open64", 10, 4, fhash="f1", flags=0),
    called("pread64", 20, 6, fhash="f1", ret=300, count=400, offset=50),
    called("fread", 40, 6, "STDIO", fhash="f2", ret=10, size=8, count=16),
    called("read", 200, 3, tid=8, fhash="f1", ret=-1, count=9),
    called("rename", 210, 3, fhash="f1", newpath_hash="f2"),
    called("write", 220, 3, fname="/d/old", ret=5, count=5),
    explained("FH", "/d/b", "f2"),
    called("end", 300, 0, "dftracer"),
]


def trace(path: Path, events: list[Any], packed: bool = False) -> Path:
    text = ("[\n" + "".join(json.dumps(one) + "\n" for one in events) + "]\n").encode()
    path.write_bytes(gzip.compress(text) if packed else text)
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_events_are_operations(tmp_path: Path, packed: bool) -> None:
    log = pyio_trace.open(trace(tmp_path / "run.pfw.gz", EVENTS, packed))
    found = {row["op"]: row for row in log.operations().to_pylist()}
    # THEN names stand where hashes were, wherever these were explained
    assert {name: row["path"] for name, row in found.items()} == {
        "load": None, "open": "/d/a", "pread": "/d/a", "fread": "/d/b", "read": "/d/a", "rename": "/d/a",
        "write": "/d/old",
    }  # fmt: skip
    pread = found["pread"]
    assert (pread["bytes_moved"], pread["bytes_requested"], pread["file_offset"]) == (300, 400, 50)
    assert (pread["time"], pread["duration"]) == ((BEGIN + 20) * 1000, 6000)
    assert (found["fread"]["bytes_moved"], found["fread"]["bytes_requested"]) == (80, 128)
    assert found["read"]["errno"] == -1
    assert json.loads(found["rename"]["detail"]) == {"to": "/d/b"}
    # and functions enclose what their thread did meanwhile
    assert {name for name, row in found.items() if row["parent"] == found["load"]["id"]} == {"open", "pread", "fread"}
    (process,) = log.processes().to_pylist()
    assert (process["host"], process["argv"], process["pid"]) == ("node3", ["/usr/bin/python", "train.py"], 7)
    assert process["end"] == (BEGIN + 300) * 1000


def test_a_folder_of_traces_is_one_run(tmp_path: Path) -> None:
    for pid in (7, 8):
        trace(tmp_path / f"{pid}.pfw", [one | {"pid": pid} for one in EVENTS])
    log = pyio_trace.open(tmp_path)
    assert sorted(process["pid"] for process in log.processes().to_pylist()) == [7, 8]
    assert log.rows() == 14


@pytest.mark.parametrize(
    "change",
    [
        {"ts": "x"}, {"ts": -5}, {"ts": 1 << 80}, {"dur": 1e300}, {"pid": None}, {"args": []}, {"name": 5},
        {"ph": "C"}, {"args": {"ret": True, "count": [], "offset": {}}}, {"name": "\ud800"}, {"tid": 1.5},
    ],
    ids=str,
)  # fmt: skip
def test_odd_values(tmp_path: Path, change: dict[str, Any]) -> None:
    path = trace(tmp_path / "odd.pfw", [*EVENTS, called("read", 1, 1, ret=1) | change])
    assert len(pyio_trace.open(path).operations().to_pylist()) >= 7


def test_lines_that_are_no_json_are_lost(tmp_path: Path) -> None:
    path = trace(tmp_path / "run.pfw", EVENTS)
    path.write_bytes(path.read_bytes()[:-4] + b'{"torn": \n' + b"[" * 100_000 + b"\n5\n")
    log = pyio_trace.open(path)
    assert log.rows() == 7
    assert log.losses()["torn"] > 100_000


def test_a_packed_trace_that_is_cut_or_too_large(tmp_path: Path) -> None:
    whole = trace(tmp_path / "run.pfw.gz", EVENTS * 50, packed=True)
    cut = tmp_path / "cut"
    cut.write_bytes(whole.read_bytes()[:-40])
    with pytest.raises(LogError, match="log-truncated"):
        pyio_trace.open(cut)
    bomb = tmp_path / "bomb"
    lines = b"\n".join(json.dumps(one).encode() for one in EVENTS)
    bomb.write_bytes(gzip.compress(lines + (b" " * 1000 + b"\n") * (80 << 10), 9))
    with pytest.raises(LogError, match="log-too-large"):
        pyio_trace.open(bomb)
